"""zheng: three hosts that share nothing but the network; the root shard is lost, and back again."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest

from pykcp.testing.client import TestClient, eventually

from .installations import SHARDS, HostInstallation, host, installation, kill, variant

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
APIS = "/apis/apis.kcp.io/v1alpha1"


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_shards_move_to_their_hosts_and_survive_the_root_shard(tmp_path: pathlib.Path) -> None:
    secret = tmp_path / "passphrase"
    secret.write_text("correct horse battery\n")
    with (
        installation(tmp_path, variant("zheng"), "--host=control") as control,
        host(tmp_path / "alpha") as alpha,
        host(tmp_path / "beta") as beta,
    ):
        assert set(control.pids()) == {"root-kcp", "frontproxy-front-proxy"}
        assert "alpha-shard-kcp  runs on another host" in control.succeed("status")
        for name, other in (("alpha", alpha), ("beta", beta)):
            _move(control, name, other, secret)
        eventually(lambda: _shards(control.client()) == ["alpha", "beta", "root"], 60)
        for name in ("root", "alpha", "beta"):
            cluster = control.make_workspace(f"on-{name}", name)
            made = _config_map(control.client(), cluster)
            assert made.status == 201, made
        _renewal(control, alpha)
        _outage(control)


def _renewal(control: HostInstallation, alpha: HostInstallation) -> None:
    """Certificates are issued on the control host; the other one fetches them, and reloads."""
    file = "kcp-zheng/alpha-shard-kcp/files/etc/kcp/tls/server/tls.crt"
    before, pids = (alpha.root / file).read_bytes(), alpha.pids()
    assert "nothing new" in alpha.succeed("cert", "renew")
    assert "alpha-server renewed" in control.succeed("cert", "renew")
    eventually(lambda: "alpha-shard-kcp renewed" in alpha.succeed("cert", "renew"), 60)
    eventually(lambda: (alpha.root / file).read_bytes() != before, 30)
    assert alpha.pids() == pids
    path = f"/clusters/root:on-alpha{CONFIG_MAPS}/one"
    eventually(lambda: control.client().get(path).status == 200, 30)


def _move(
    control: HostInstallation, name: str, other: HostInstallation, secret: pathlib.Path
) -> None:
    archive = control.root.parent / f"{name}.kcp-export"
    words = (f"--output={archive}", f"--passphrase-file={secret}")
    control.succeed("export", f"Shard/{name}", *words)
    assert b"PRIVATE KEY" not in archive.read_bytes()
    wrong = control.root.parent / "wrong"
    wrong.write_text("wrong horse battery\n")
    assert "passphrase is wrong" in other.fail("import", str(archive), f"--passphrase-file={wrong}")
    other.succeed("import", str(archive), f"--passphrase-file={secret}")
    other.succeed("up", "--detach")
    assert set(other.pids()) == {f"{name}-shard-kcp"}


def _shards(client: TestClient) -> list[str]:
    reply = client.get(f"/clusters/root{SHARDS}")
    return [one["metadata"]["name"] for one in reply.json["items"]] if reply.status == 200 else []


def _config_map(client: TestClient, cluster: str, name: str = "one") -> Any:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}
    return client.post(f"/clusters/{cluster}{CONFIG_MAPS}", body)


def _outage(control: HostInstallation) -> None:
    """Without the root shard, workspaces on the others are served, also by a new proxy."""
    manifests = control.root.parent / "manifests.yaml"
    text = manifests.read_text()
    (root,) = control.pids()["root-kcp"]
    proxies = control.pids()["frontproxy-front-proxy"]
    # A root shard that cannot start: as if its host were gone.
    broken = text.replace("  cache: {}\n", "  cache: {}\n  extraArgs: [--no-such-flag]\n")
    assert broken != text
    manifests.write_text(broken)
    control.command("up", "--timeout=1s")
    kill(root) if root in control.pids()["root-kcp"] else None
    eventually(lambda: control.workload("root-kcp")["replicas"][0]["phase"] == "BackOff", 60)
    client = control.client()
    assert client.get("/clusters/root/api/v1/namespaces").status >= 500
    _others_are_served(client)
    # Upstream's proxy cannot start now: it builds its index from the root shard.
    for pid in proxies:
        kill(pid)
    eventually(lambda: control.workload("frontproxy-front-proxy")["available"], 60)
    assert control.pids()["frontproxy-front-proxy"] != proxies
    _others_are_served(control.client())
    manifests.write_text(text)
    control.succeed("up")
    eventually(lambda: _shards(control.client()) == ["alpha", "beta", "root"], 60)


def _others_are_served(client: TestClient) -> None:
    for name in ("alpha", "beta"):
        path = f"/clusters/root:on-{name}{CONFIG_MAPS}/one"
        assert client.get(path).status == 200, client.get(path)
