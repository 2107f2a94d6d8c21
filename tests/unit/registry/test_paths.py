"""From paths to logical clusters, while the workspaces on the way change."""

from __future__ import annotations

from pykcp.machinery.resources import WORKSPACES
from pykcp.registry import codec
from pykcp.registry.keys import kind_prefix, object_key
from pykcp.registry.paths import PathIndex, Place
from pykcp.storage.interface import Delete, Put
from pykcp.storage.memory import MemoryStore


def _key(parent: str, name: str) -> str:
    return object_key(kind_prefix(WORKSPACES), parent, "", name)


def _workspace(parent: str, name: str, cluster: str, phase: str = "Ready") -> Put:
    obj = {"metadata": {"name": name}, "spec": {"cluster": cluster}, "status": {"phase": phase}}
    return Put(_key(parent, name), codec.encode(obj, parent))


async def test_a_walk_is_right_after_every_change_on_its_way() -> None:
    store = MemoryStore()
    await store.start()
    paths = PathIndex(store)

    def leads_to() -> Place | None:
        return paths.walk("root:org:team")

    assert leads_to() is None
    await store.write([_workspace("root", "org", "c1"), _workspace("c1", "team", "c2")])
    assert leads_to() == leads_to() == Place("c2")
    await store.write([_workspace("root", "other", "c9")])
    assert leads_to() == Place("c2")
    await store.write([_workspace("c1", "team", "c2", "Unavailable")])
    assert leads_to() == Place("c2", is_available=False)
    await store.write([_workspace("c3", "team", "c4"), _workspace("root", "org", "c3")])
    assert leads_to() == leads_to() == Place("c4")
    await store.write([Delete(_key("root", "org"), codec.encode({"metadata": {}}, "root"))])
    assert leads_to() is None
    await store.stop()
