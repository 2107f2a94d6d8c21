"""`virtual-workspaces workspaces`: the same views behind a door of their own."""

from __future__ import annotations

import pathlib
import ssl
import subprocess
import sys
import time
from contextlib import AbstractContextManager, closing
from http.client import HTTPSConnection

import pytest

from pykcp.auth.certificates import create_ca, issue_client
from pykcp.testing.client import TestClient
from pykcp.testing.exports import APIS, ExportProvider, accepted, claim
from pykcp.testing.faults.links import Fault, LinkRelay
from pykcp.testing.kubeconfig import Access
from pykcp.testing.programs import serving
from pykcp.testing.server import ServerProcess, environment, server


def door(shard: ServerProcess, folder: pathlib.Path, *flags: str) -> AbstractContextManager[int]:
    """A running program; its port."""
    return serving(
        "pykcp.cli.virtual_workspaces", folder / "door.log", "workspaces",
        f"--kubeconfig={shard.kubeconfig}", "--context=shard-base", "--bind-address=127.0.0.1",
        "--secure-port=0", f"--cert-dir={folder}", *flags,
    )  # fmt: skip


class Visitors:
    """Clients of a door; all their connections are closed at the end."""

    def __init__(self, port: int, folder: pathlib.Path) -> None:
        self._port, self._ca = port, (folder / "apiserver.crt").read_text()
        self._opened: list[HTTPSConnection] = []

    def __call__(self, prefix: str, token: str) -> TestClient:
        access = Access("127.0.0.1", self._port, "", self._ca, token)
        made = TestClient(access, opened=self._opened)
        made.prefix = prefix
        return made

    def close(self) -> None:
        for connection in self._opened:
            connection.close()


def test_the_same_views(shard: ServerProcess, tmp_path: pathlib.Path) -> None:
    asked = claim("configmaps")
    provider = ExportProvider(shard, claims=(asked,), user="provider")
    consumer = provider.consumer(accepted(asked))
    consumer.make(provider, "joe")
    with door(shard, tmp_path) as port, closing(Visitors(port, tmp_path)) as visitor:
        prefix = f"/services/apiexport/{provider.cluster}/{provider.export}/clusters/"
        view = visitor(f"{prefix}*", "provider-token")
        (found,) = view.get(provider.path()).json["items"]
        assert found["metadata"]["name"] == "joe"
        assert view.get(f"{APIS}/apibindings").status == 200
        inside = visitor(f"{prefix}{consumer.cluster}", "provider-token")
        path = f"{provider.path(namespace='default')}/joe"
        assert inside.patch(path, {"spec": {"x": 1}}).json["spec"] == {"x": 1}
        events = view.watch(provider.path())
        assert next(events)["object"]["spec"] == {"x": 1}
        inside.patch(path, {"spec": {"x": 2}})
        assert next(events)["object"]["spec"] == {"x": 2}
        events.close()
        assert visitor(f"{prefix}*", "bob-token").get("/apis").status == 403
        assert visitor(f"{prefix}*", "nonsense").get("/apis").status == 401
        assert visitor("", "").get("/readyz").status == 200
        assert visitor("", "provider-token").get("/clusters/root/api").status == 404


@pytest.mark.slow
def test_a_link_to_the_shard_that_falls_silent(
    shard: ServerProcess, tmp_path: pathlib.Path
) -> None:
    """It is noticed within seconds, and used again when it is back."""
    provider = ExportProvider(shard, user="provider")
    with LinkRelay(shard.port) as relay:
        kubeconfig = tmp_path / "through-the-relay"
        text = shard.kubeconfig.read_text().replace(f":{shard.port}", f":{relay.port}")
        kubeconfig.write_text(text)
        with (
            door(shard, tmp_path, f"--kubeconfig={kubeconfig}") as port,
            closing(Visitors(port, tmp_path)) as visitor,
        ):
            prefix = f"/services/apiexport/{provider.cluster}/{provider.export}/clusters/*"
            view = visitor(prefix, "provider-token")
            assert view.get(provider.path()).status == 200
            for fault in (Fault.SILENT, Fault.RESET):
                relay.fail(fault)
                began = time.monotonic()
                assert view.get(provider.path()).status in (502, 503)
                assert time.monotonic() - began < 16.0  # it was asked again on a new connection
                relay.mend()
                assert view.get(provider.path()).status == 200


def test_users_with_certificates(shard: ServerProcess, tmp_path: pathlib.Path) -> None:
    """The shard cannot see them: it is asked for them, and takes nobody's word but ours."""
    authority = create_ca("users", time.time())
    (tmp_path / "ca.crt").write_bytes(authority.certificate)
    provider = ExportProvider(shard, user="provider")
    provider.consumer().make(provider, "joe")
    path = f"/services/apiexport/{provider.cluster}/{provider.export}/clusters/*{provider.path()}"
    with door(shard, tmp_path, f"--client-ca-file={tmp_path / 'ca.crt'}") as port:
        for name, status in (("provider", 200), ("bob", 403)):
            pair = issue_client(authority, name, (), time.time())
            file = tmp_path / f"{name}.pem"
            file.write_bytes(pair.certificate + pair.key)
            tls = ssl.create_default_context(cafile=str(tmp_path / "apiserver.crt"))
            tls.load_cert_chain(file)
            for headers in ({}, {"X-Remote-User": "provider"}):
                connection = HTTPSConnection("127.0.0.1", port, context=tls)
                connection.request("GET", path, headers=headers)
                assert connection.getresponse().status == status, (name, headers)
                connection.close()
            connection = HTTPSConnection("127.0.0.1", port, context=tls)
            connection.request("GET", path, headers={"Impersonate-User": "provider"})
            assert connection.getresponse().status == 403
            connection.close()


def test_a_shard_that_sends_visitors_there(tmp_path: pathlib.Path) -> None:
    """`--run-virtual-workspaces=false`: what is under /services/ is asked for elsewhere."""
    with server() as plain, door(plain, tmp_path) as port:
        url = f"https://127.0.0.1:{port}"
        flags = (
            "--run-virtual-workspaces=false",
            f"--shard-virtual-workspace-url={url}",
            f"--shard-virtual-workspace-ca-file={tmp_path / 'apiserver.crt'}",
        )
        with server(*flags) as other:
            # The door leads to another shard, whose tokens it asks for.
            visitor = other.client().with_token(_token(plain))
            visitor.prefix = "/services/apiexport/root/tenancy.kcp.io/clusters/*"
            groups = visitor.get("/apis").json["groups"]
            assert [g["name"] for g in groups] == ["apis.kcp.io", "tenancy.kcp.io"]
            ready = other.client()
            ready.prefix = ""
            assert b"apiexport" not in ready.get("/readyz", verbose="").body


def _token(shard: ServerProcess) -> str:
    from pykcp.testing.kubeconfig import read_access

    return read_access(shard.kubeconfig, "shard-base").token


@pytest.mark.parametrize(
    ("flags", "problem"),
    [
        pytest.param([], "--kubeconfig is required for this command", id="no kubeconfig"),
        pytest.param(["--nonsense"], "unknown flag: --nonsense", id="unknown flag"),
        pytest.param(["--kubeconfig=/nowhere"], "/nowhere", id="missing file"),
    ],
)
def test_wrong_command_lines(flags: list[str], problem: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pykcp.cli.virtual_workspaces", "workspaces", *flags],
        capture_output=True, text=True, env=environment(), timeout=30, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert problem in done.stderr
