"""The client without `await`, and the kubeconfig of a workspace."""

from __future__ import annotations

import pathlib

import pytest

from pykcp.client import NotFound
from pykcp.client.adapters import write_kubeconfig
from pykcp.client.sync import connect
from pykcp.testing.server import ServerProcess


def test_the_same_without_await(shard: ServerProcess, tmp_path: pathlib.Path) -> None:
    with connect(shard.kubeconfig, context="root") as kcp:
        root = kcp.workspace("root")
        team = root.create("sync")
        assert team.path in [child.path for child in root]
        maps = team.objects("cm")
        team.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}})
        assert maps.get("a")["kind"] == "ConfigMap"
        events = maps.watch("default", fields="metadata.name=a")
        assert next(events).type == "ADDED"
        maps.patch("a", {"data": {"x": "1"}})
        assert next(events).object["data"] == {"x": "1"}
        events.close()  # type: ignore[attr-defined]
        assert "a" in [obj["metadata"]["name"] for obj in maps]
        assert "a" in [obj["metadata"]["name"] for page in maps.pages(size=1) for obj in page]
        with pytest.raises(NotFound):
            maps.get("none")
        path = write_kubeconfig(team, tmp_path / "kubeconfig")
        assert path.stat().st_mode & 0o077 == 0
        with connect(path) as other:
            assert other.current.get("configmaps", "a")["data"] == {"x": "1"}
        assert team.delete(wait=True)
