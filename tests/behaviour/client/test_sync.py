"""The client without `await`, and the kubeconfig of a workspace."""

from __future__ import annotations

import pathlib

import pytest

from pykcp.client import NotFound
from pykcp.client.adapters import write_kubeconfig
from pykcp.client.sync import SyncProvider, SyncReconciliation, connect
from pykcp.testing.apis import EXPORTS, RESOURCE, make
from pykcp.testing.exports import schema
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


def config_map(name: str) -> dict[str, object]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}


def test_more_of_objects(shard: ServerProcess) -> None:
    with connect(shard.kubeconfig, context="root") as kcp:
        team = kcp.workspace("root").create("faces")
        assert team == kcp.workspace("root:faces")
        assert len({team, kcp.workspace("root:faces")}) == 1
        maps = team.objects("cm", "default")
        assert maps.kind().plural == "configmaps"
        team.create_object(config_map("a"))
        found, version = maps.list_with_version(fields="metadata.name=a")
        assert [obj["kind"] for obj in found] == ["ConfigMap"]
        assert int(version) > 0
        assert repr(maps) == "<Objects configmaps.v1 in root:faces>"
        assert team.delete()


@pytest.mark.parametrize("subtree", [False, True])
def test_an_informer(shard: ServerProcess, subtree: bool) -> None:
    with connect(shard.kubeconfig, context="root") as kcp:
        team = kcp.workspace("root").create("informed-")
        team.apply(config_map("a"))
        with team.informer("configmaps", "default", subtree=subtree) as informer:
            informer.synced()
            heard: list[str] = []
            informer.on(lambda event: heard.append(event.object["metadata"]["name"]))
            assert "a" in heard
            assert informer.get("a", "default") is not None
            assert informer.get("b", "default") is None
            assert len(informer) == len(informer.list())
            events = informer.events()
            team.apply(config_map("b"))
            assert "b" in (event.object["metadata"]["name"] for event in events)
            assert heard[-1] == "b"
            events.close()  # type: ignore[attr-defined]
        with pytest.raises(NotFound), team.informer("nosuch", subtree=subtree):
            pass
        assert team.delete()


def test_a_handler_cannot_wait_for_the_client(shard: ServerProcess) -> None:
    """It would wait for itself."""
    with connect(shard.kubeconfig, context="root") as kcp:
        with pytest.raises(RuntimeError, match="cannot wait for the client"):
            kcp._portal.call(kcp.current.exists)
        assert kcp.current.path == "root"


def test_a_provider(shard: ServerProcess) -> None:
    with connect(shard.kubeconfig, context="root") as kcp:
        team = kcp.workspace("root").create("provided")
        provider, consumer = team.create("provider"), team.create("consumer")
        provider.apply(schema("widgets", "example.org", "v1"))
        name = "v1.widgets.example.org"
        resource = {**RESOURCE, "group": "example.org", "name": "widgets", "schema": name}
        provider.apply(make(EXPORTS, "widgets", {"resources": [resource]}))
        consumer.bind("widgets", provider.path)
        widget = {"apiVersion": "example.org/v1", "kind": "Widget", "metadata": {"name": "w"}}
        consumer.apply(widget)
        runtime = SyncProvider(provider, "widgets", "widgets.example.org")
        with pytest.raises(ValueError, match="register a reconcile function"):
            runtime.run()
        calls: list[str] = []

        @runtime.reconciler
        def reconcile(item: SyncReconciliation) -> None:
            calls.append(item.place.name)
            if len(calls) == 1:
                raise ValueError("the first try fails")
            assert item.object == item.workspace.get(item.kind, "w")
            item.objects.patch("w", {"metadata": {"labels": {"seen": "yes"}}})
            runtime.stop()

        runtime.run()
        assert calls[:2] == ["w", "w"]
        assert consumer.get("widgets", "w")["metadata"]["labels"] == {"seen": "yes"}
        assert team.delete()
