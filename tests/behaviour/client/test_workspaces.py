"""Workspaces as objects of Python."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest
import yaml

from pykcp.client import (
    AlreadyExists,
    CredentialError,
    Forbidden,
    Kcp,
    NotFound,
    ServiceUnavailable,
    Workspace,
    connect,
)
from pykcp.client.adapters import write_kubeconfig
from pykcp.testing.server import ServerProcess


async def test_the_tree(team: Workspace) -> None:
    assert team.parent is not None
    assert team.parent.path == "root"
    dev = await team.create("dev", labels={"stage": "dev"})
    assert dev == team / "dev"
    assert dev.path == f"{team.path}:dev"
    assert [child.name async for child in team] == ["dev"]
    assert (await dev.read())["metadata"]["labels"]["stage"] == "dev"
    assert await dev.exists()
    assert not await (team / "prod").exists()
    same = Workspace(team.transport, await dev.cluster())
    await dev.apply(config_map("a"))
    assert (await same.get("configmaps", "a"))["data"] == {"key": "value"}


async def test_types(team: Workspace) -> None:
    org = await team.create("org", type="root:universal")
    assert (await org.read())["spec"]["type"]["name"] == "universal"
    with pytest.raises(Forbidden, match="workspacetypes"):
        await team.create("x", type="root:nosuch")


async def test_deletion_can_be_waited_for(team: Workspace) -> None:
    dev = await team.create("dev")
    assert await dev.delete(wait=True)
    assert not await dev.exists()
    assert not await dev.delete()
    assert not await dev.delete(wait=True)


async def test_what_is_awaited_is_named(team: Workspace) -> None:
    with pytest.raises(TimeoutError, match=r'workspaces "ghost".*never seen'):
        await (team / "ghost").wait(timeout=0.2)
    await team.apply(config_map("a"))
    with pytest.raises(TimeoutError, match=r'configmaps "a".*last seen as'):
        await team.objects("cm").wait("a", lambda _: False, timeout=0.2)


async def test_mistakes(team: Workspace, shard: ServerProcess) -> None:
    await team.create("dev")
    with pytest.raises(AlreadyExists) as found:
        await team.create("dev")
    assert f"in workspace {team.path}" in found.value.__notes__
    with pytest.raises(NotFound, match='does not serve "widgets"'):
        await team.objects("widgets").list()
    with pytest.raises(ValueError, match="no parent"):
        await Workspace(team.transport, "root").delete()


def test_kubeconfigs(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    with pytest.raises(CredentialError, match="set KUBECONFIG or name a file"):
        connect()
    (tmp_path / "none").write_text("apiVersion: v1")
    with pytest.raises(CredentialError, match="current-context is not set"):
        connect()


async def test_a_credential_plugin(shard: ServerProcess, tmp_path: pathlib.Path) -> None:
    """It is run once, before the first request, and again when its credentials have expired."""
    config = yaml.safe_load(shard.kubeconfig.read_text())
    (token,) = [u["user"]["token"] for u in config["users"] if u["name"] == "kcp-admin"]
    program, version = tmp_path / "login", "client.authentication.k8s.io/v1"
    status = {"token": token, "expirationTimestamp": "2999-01-01T00:00:00Z"}
    answer = {"apiVersion": version, "kind": "ExecCredential", "status": status}

    def write(answer: dict[str, Any]) -> None:
        program.write_text(f"#!/bin/sh\necho run >> {tmp_path}/runs\necho '{json.dumps(answer)}'\n")

    program.touch(mode=0o755)
    write(answer)
    for user in config["users"]:
        plugin = {"apiVersion": version, "command": str(program), "interactiveMode": "Never"}
        user["user"] = {"exec": plugin}
    path = tmp_path / "config"
    path.write_text(yaml.safe_dump(config))
    async with connect(path, context="root") as kcp:
        await kcp.current.objects("namespaces").get("default")
        await kcp.current.objects("namespaces").get("default")
        assert (tmp_path / "runs").read_text() == "run\n"
        adapted = write_kubeconfig(kcp.current, tmp_path / "adapted")
    async with connect(adapted) as kcp:  # it renews its credentials itself
        await kcp.current.objects("namespaces").get("default")
        assert (tmp_path / "runs").read_text() == "run\nrun\n"
        (tmp_path / "runs").unlink()
    write({**answer, "status": {**status, "expirationTimestamp": "2001-01-01T00:00:00Z"}})
    async with connect(path, context="root") as kcp:
        await kcp.current.objects("namespaces").list()
        assert (tmp_path / "runs").read_text().count("run") > 2
    write({})
    async with connect(path, context="root") as kcp:
        with pytest.raises(CredentialError, match="getting credentials"):
            await kcp.current.objects("namespaces").list()


async def test_a_server_that_is_gone(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "config"
    path.write_text(
        """{"current-context": "a", "contexts": [{"name": "a", "context": {"cluster": "a"}}],
        "clusters": [{"name": "a", "cluster": {"server": "http://127.0.0.1:1/clusters/root"}}]}"""
    )
    async with connect(path) as kcp:
        assert kcp.current.path == "root"
        with pytest.raises(ServiceUnavailable, match="cannot be reached"):
            await kcp.current.get("configmaps", "a")


async def test_the_current_workspace(kcp: Kcp) -> None:
    assert kcp.current.path == "root"


def config_map(name: str, **data: str) -> dict[str, object]:
    data = data or {"key": "value"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}
