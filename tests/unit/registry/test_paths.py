"""From paths to logical clusters, while the workspaces on the way change."""

from __future__ import annotations

from pykcp.machinery.kcp import clusters
from pykcp.machinery.kcp.hashes import home_cluster_name
from pykcp.machinery.resources import WORKSPACES
from pykcp.registry import codec
from pykcp.registry.keys import kind_prefix, object_key
from pykcp.registry.paths import PathIndex, ResolvedStep
from pykcp.storage.interface import Entry
from pykcp.storage.memory import MemoryStore
from pykcp.storage.operations import DeleteKey, PutKey


def _key(parent: str, name: str) -> str:
    return object_key(kind_prefix(WORKSPACES), parent, "", name)


def _workspace(parent: str, name: str, cluster: str, phase: str = "Ready") -> PutKey:
    obj = {"metadata": {"name": name}, "spec": {"cluster": cluster}, "status": {"phase": phase}}
    return PutKey(_key(parent, name), codec.encode(obj, parent))


async def test_a_walk_is_right_after_every_change_on_its_way() -> None:
    store = MemoryStore()
    await store.start()
    paths = PathIndex(store)

    def leads_to() -> ResolvedStep | None:
        return paths.walk("root:org:team")

    assert leads_to() is None
    await store.write([_workspace("root", "org", "c1"), _workspace("c1", "team", "c2")])
    assert leads_to() == leads_to() == ResolvedStep("c2")
    await store.write([_workspace("root", "other", "c9")])
    assert leads_to() == ResolvedStep("c2")
    await store.write([_workspace("c1", "team", "c2", "Unavailable")])
    assert leads_to() == ResolvedStep("c2", is_available=False)
    await store.write([_workspace("c3", "team", "c4"), _workspace("root", "org", "c3")])
    assert leads_to() == leads_to() == ResolvedStep("c4")
    await store.write([DeleteKey(_key("root", "org"), codec.encode({"metadata": {}}, "root"))])
    assert leads_to() is None
    await store.stop()


async def test_the_nearest_cluster_is_where_a_path_cannot_be_followed_further() -> None:
    store = MemoryStore()
    await store.start()
    paths = PathIndex(store)
    away = _workspace("c1", "away", "c8", "Unavailable")
    await store.write([_workspace("root", "org", "c1"), _workspace("c1", "team", "c2"), away])
    assert paths.nearest("root:org:team") == ("c1", "team")
    assert paths.nearest("root:org:team:x:y") == ("c2", "x")
    assert paths.nearest("root:nobody:x") == ("root", "nobody")
    assert paths.nearest("root:org:away:x:y") == ("c1", "away")
    assert paths.nearest("user:alice") == ("user", "alice")
    assert paths.nearest("user:alice:x:y") == (home_cluster_name("alice"), "x")
    await store.stop()


class _CountingStore(MemoryStore):
    reads = 0

    def get(self, key: str) -> Entry | None:
        self.reads += 1
        return super().get(key)


async def test_a_path_is_followed_once_and_to_a_limited_depth() -> None:
    """Workspaces that lead to themselves, as deep as one likes."""
    store = _CountingStore()
    await store.start()
    paths = PathIndex(store)
    await store.write([_workspace("root", "a", "root"), _workspace("root", "b", "")])
    deepest = clusters.SEPARATOR.join(["root", *"a" * (clusters.MAX_DEPTH - 1)])
    assert paths.walk(deepest) == ResolvedStep("root")
    assert paths.walk(f"{deepest}:a") is None
    assert paths.nearest(f"{deepest}:a") == ("root", "a")
    store.reads = 0
    endless = "root" + ":b" * 500_000
    assert paths.walk(endless) is None
    assert paths.nearest(endless) == ("root", "b")
    assert store.reads == 2
    await store.stop()


async def test_only_valid_paths_are_remembered() -> None:
    """So that what is remembered need not be judged again."""
    store = MemoryStore()
    await store.start()
    paths = PathIndex(store)
    await store.write([_workspace("Root", "org", "c1"), _workspace("root", "org", "c1")])
    assert paths.walk("Root:org") == paths.walk("root:org") == ResolvedStep("c1")
    for path in ("*", "system:admin", "c1"):
        paths.walk(path)
    assert paths.walks == {"root:org": ResolvedStep("c1")}
    await store.stop()
