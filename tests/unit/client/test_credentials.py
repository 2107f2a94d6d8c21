"""Credentials of kubeconfigs: what is shown to servers, what is refused, what adapters get."""

from __future__ import annotations

import asyncio
import base64
import json
import pathlib
import sys
import types
from datetime import datetime
from typing import Any

import pytest

from pykcp.client import CredentialError, Kcp, connect
from pykcp.client.adapters import for_kopf, for_kr8s, kubeconfig
from pykcp.types import Object

PLUGIN_API = "client.authentication.k8s.io/v1"


def write(
    folder: pathlib.Path, user: Object, server: str = "http://127.0.0.1:1", **cluster: str
) -> pathlib.Path:
    """JSON is YAML, too."""
    path = folder / "config"
    path.write_text(
        json.dumps(
            {
                "current-context": "a",
                "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
                "clusters": [{"name": "a", "cluster": {"server": server, **cluster}}],
                "users": [{"name": "a", "user": user}],
            }
        )
    )
    return path


def write_plugin(folder: pathlib.Path, **status: str) -> Object:
    program = folder / "login"
    answer = {"apiVersion": PLUGIN_API, "kind": "ExecCredential", "status": status}
    program.write_text(f"#!/bin/sh\necho run >> {folder}/runs\necho '{json.dumps(answer)}'\n")
    program.chmod(0o755)
    return {"apiVersion": PLUGIN_API, "command": "./login", "interactiveMode": "Never"}


def replace_port(path: pathlib.Path, port: int) -> None:
    path.write_text(path.read_text().replace("127.0.0.1:1", f"127.0.0.1:{port}"))


class SimpleServer:
    """Answers every request; knows what it was shown, and on how many connections."""

    def __init__(self) -> None:
        self.connections: list[asyncio.Task[Any] | None] = []
        self.authorizations: list[str] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections.append(asyncio.current_task())
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                lines = [line.partition(": ")[::2] for line in head.splitlines()]
                self.authorizations += [v for name, v in lines if name.lower() == "authorization"]
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}")
        except (asyncio.IncompleteReadError, ConnectionResetError):
            writer.close()


async def after_requests(path: pathlib.Path, count: int = 1) -> SimpleServer:
    """A server that got requests of a client with a kubeconfig."""
    simple = SimpleServer()
    async with await asyncio.start_server(simple.serve, "127.0.0.1", 0) as server:
        replace_port(path, server.sockets[0].getsockname()[1])
        async with connect(path) as kcp:
            for _ in range(count):
                await kcp.current.transport.ask("GET", "/version")
        await asyncio.gather(*filter(None, simple.connections))
    return simple


async def authorization_shown(path: pathlib.Path) -> str:
    return "".join((await after_requests(path)).authorizations)


async def test_basic_authentication(tmp_path: pathlib.Path) -> None:
    path = write(tmp_path, {"username": "ann", "password": "x:y"})
    assert await authorization_shown(path) == f"Basic {base64.b64encode(b'ann:x:y').decode()}"


async def test_tokens(tmp_path: pathlib.Path) -> None:
    assert await authorization_shown(write(tmp_path, {"token": "t"})) == "Bearer t"
    assert await authorization_shown(write(tmp_path, {})) == ""
    (tmp_path / "token").write_text("of a file\n")
    path = write(tmp_path, {"tokenFile": "token"})
    assert await authorization_shown(path) == "Bearer of a file"


async def test_a_plugin_beside_the_kubeconfig(tmp_path: pathlib.Path) -> None:
    """Its command is relative to the kubeconfig, wherever the program runs."""
    path = write(tmp_path, {"exec": write_plugin(tmp_path, token="fresh")})
    assert await authorization_shown(path) == "Bearer fresh"


async def test_another_certificate_of_a_plugin(tmp_path: pathlib.Path) -> None:
    """It is shown on new connections: those that are open were made with the one before."""
    status = {"clientCertificateData": "$(date +%N)", "clientKeyData": "key"}
    expired = {**status, "expirationTimestamp": "2001-01-01T00:00:00Z"}
    for given, connections in ((status, 1), (expired, 3)):
        plugin = write_plugin(tmp_path, **given)
        program = tmp_path / "login"
        program.write_text(program.read_text().replace("$(date +%N)", "'$(date +%N)'"))
        server = await after_requests(write(tmp_path, {"exec": plugin}), count=3)
        assert len(server.connections) == connections


@pytest.mark.parametrize(
    ("user", "cluster", "reason"),
    [
        ({}, {"proxy-url": "http://proxy:3128"}, "proxy-url is not supported"),
        ({"token": "t", "username": "ann"}, {}, "more than one authentication method"),
        ({"tokenFile": "t", "password": "x"}, {}, "more than one authentication method"),
    ],
)
def test_what_cannot_be_used_is_refused(
    tmp_path: pathlib.Path, user: Object, cluster: dict[str, str], reason: str
) -> None:
    with pytest.raises(CredentialError, match=reason):
        connect(write(tmp_path, user, **cluster))


def user_of(path: pathlib.Path) -> Object:
    found: Object = kubeconfig(connect(path).current)["users"][0]["user"]
    return found


def test_users_of_adapters(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files and programs are named so that they are found from any folder."""
    plugin = write_plugin(tmp_path, token="fresh")
    path = write(tmp_path, {"exec": plugin, "client-certificate-data": "", "token": ""})
    assert user_of(path) == {"exec": {**plugin, "command": str(tmp_path / "login")}}
    assert not (tmp_path / "runs").exists()
    basic = {"username": "ann", "password": "x"}
    assert user_of(write(tmp_path, basic)) == basic
    write(tmp_path, {"tokenFile": "token"})
    monkeypatch.chdir(tmp_path)
    assert user_of(pathlib.Path("config")) == {"tokenFile": str(tmp_path / "token")}


@pytest.fixture
def kopf(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in that shows what it is given."""
    library = types.ModuleType("kopf")
    library.ConnectionInfo = dict  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "kopf", library)


def info_of(kcp: Kcp) -> dict[str, Any]:
    return {name: value for name, value in for_kopf(kcp.current).items() if value is not None}


@pytest.mark.usefixtures("kopf")
def test_kopf(tmp_path: pathlib.Path) -> None:
    """It knows neither plugins nor files with tokens: each call reads them anew."""
    common = {"server": "http://127.0.0.1:1", "default_namespace": "default"}
    (tmp_path / "token").write_text("first\n")
    kcp = connect(write(tmp_path, {"tokenFile": "token"}))
    assert info_of(kcp) == {**common, "token": "first"}
    (tmp_path / "token").write_text("second\n")
    assert info_of(kcp) == {**common, "token": "second"}
    kcp = connect(write(tmp_path, {"username": "ann", "password": "x"}))
    assert info_of(kcp) == {**common, "username": "ann", "password": "x"}
    plugin = write_plugin(tmp_path, token="t", expirationTimestamp="2999-01-01T02:00:00+02:00")
    kcp = connect(write(tmp_path, {"exec": plugin}))
    expected = {**common, "token": "t", "expiration": datetime(2999, 1, 1)}  # noqa: DTZ001
    assert info_of(kcp) == expected == info_of(kcp)
    assert (tmp_path / "runs").read_text() == "run\nrun\n"


async def test_kr8s(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It does not know files with tokens."""
    given: list[Object] = []

    async def api(*, kubeconfig: Object) -> None:
        given.append(kubeconfig["users"][0]["user"])

    library, module = types.ModuleType("kr8s"), types.ModuleType("kr8s.asyncio")
    module.api, library.asyncio = api, module  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "kr8s", library)
    monkeypatch.setitem(sys.modules, "kr8s.asyncio", module)
    (tmp_path / "token").write_text("of a file\n")
    await for_kr8s(connect(write(tmp_path, {"tokenFile": "token"})).current)
    assert given == [{"token": "of a file"}]
