"""Other workspaces that a syncer follows over HTTP."""

from __future__ import annotations

from collections.abc import Iterable

import orjson

from pykcp.clients.http.client import HttpClient
from pykcp.clients.http.interface import Server
from pykcp.clients.interface import Change
from pykcp.machinery.resources import CONFIG_MAPS
from pykcp.multicluster.syncer.consumers import ViewClient, WorkspaceLeaves
from pykcp.types import Object


class Held:
    """What is known of all workspaces, by workspace and name."""

    def __init__(self) -> None:
        self.found: set[tuple[str, str]] = set()

    def put(self, value: bytes) -> Change | None:
        self.found.add(_place(value))
        return None

    def remove(self, value: bytes) -> Change | None:
        self.found.discard(_place(value))
        return None

    def begin_replacing(self) -> None:
        raise AssertionError("that would be about all workspaces")

    def end_replacing(self) -> Iterable[Change]:
        raise AssertionError("that would be about all workspaces")

    def contents(self) -> Iterable[Change]:
        return ()

    async def settle(self) -> None:
        """Nothing to wait for."""


def _place(value: bytes) -> tuple[str, str]:
    metadata = orjson.loads(value)["metadata"]
    return metadata["annotations"]["kcp.io/cluster"], metadata["name"]


def value(workspace: str, name: str) -> bytes:
    metadata: Object = {"name": name, "namespace": "default"}
    metadata["annotations"] = {"kcp.io/cluster": workspace}
    return orjson.dumps({"metadata": metadata, "data": {"a": "b"}})


def test_a_list_replaces_the_objects_of_its_own_workspace() -> None:
    held = Held()
    one, two = WorkspaceLeaves(held), WorkspaceLeaves(held)
    for name in ("x", "y"):
        one.put(value("one", name))
    two.put(value("two", "x"))
    one.begin_replacing()
    one.put(value("one", "y"))
    assert held.found == {("one", "x"), ("one", "y"), ("two", "x")}  # until the list is complete
    list(one.end_replacing())
    assert held.found == {("one", "y"), ("two", "x")}
    two.remove(value("two", "x"))
    assert held.found == {("one", "y")}
    assert (len(one), len(two)) == (1, 0)


def test_other_workspaces_are_asked_for_by_the_view() -> None:
    client = ViewClient(HttpClient(Server("http", "hub", 80)), "syncer")
    maps = "/api/v1/namespaces/default/configmaps"
    assert client.collection("root:team", CONFIG_MAPS, "default") == f"/clusters/root:team{maps}"
    client.open_view("/services/syncer/abc/east/1", "root:team", "abc")
    for own in ("root:team", "abc"):
        assert client.collection(own, CONFIG_MAPS, "default") == f"/clusters/{own}{maps}"
    far = "/services/syncer/abc/east/1/clusters/def"
    assert client.collection("def", CONFIG_MAPS, "default") == f"{far}{maps}"
    assert client.object("def", CONFIG_MAPS, "x", "default") == f"{far}{maps}/x"
