"""Types that a cluster accepts no longer: nothing new goes there, and what is there can be removed."""

from __future__ import annotations

import json

from tests.behaviour.multicluster.test_types import (
    CRD,
    CRDS,
    STRING,
    THINGS,
    Behind,
    definition,
    thing,
)

from pykcp.multicluster.names import CLUSTER_LABEL, SYNC_STATE
from pykcp.testing.client import TestClient, eventually
from pykcp.testing.multicluster.workspaces import (
    CLUSTERS,
    IMPORTS,
    NEGOTIATED,
    cluster_object,
    condition_of,
)
from pykcp.testing.server import ServerProcess
from pykcp.types import Object

ALL_THINGS = "/apis/example.com/v1/things"


def with_status(fields: Object) -> Object:
    """The definition of a type with these fields, and a status."""
    made = definition(fields)
    (version,) = made["spec"]["versions"]
    version["subresources"] = {"status": {}}
    properties = version["schema"]["openAPIV3Schema"]["properties"]
    properties["status"] = {"type": "object", "properties": {"phase": STRING}}
    return made


class Retired:
    """A workspace with an object in a cluster whose type has just become another one."""

    def __init__(self, shard: ServerProcess, workspace: TestClient) -> None:
        self.workspace = workspace
        self.behind = Behind(shard, workspace)
        self.inside = self.behind.add("a", None)
        assert self.inside.post(CRDS, with_status({"x": STRING, "y": STRING})).status == 201
        eventually(lambda: self.behind.state("a") == "Accepted", 30)
        body = thing("one", x="1")
        body["metadata"]["labels"] = {CLUSTER_LABEL: "a"}
        assert workspace.post(THINGS, body).status == 201
        eventually(self.copies)

    def copies(self) -> list[Object]:
        answer = self.inside.get(ALL_THINGS)
        assert answer.status == 200
        found: list[Object] = answer.json["items"]
        return found

    def object(self) -> Object | None:
        answer = self.workspace.get(f"{THINGS}/one")
        return answer.json if answer.status == 200 else None

    def state(self) -> Object:
        """What the syncer notes on the object."""
        notes = (self.object() or {})["metadata"].get("annotations") or {}
        found: Object = json.loads(notes.get(SYNC_STATE, "{}"))
        return found

    def lose_a_field(self) -> None:
        crd = self.inside.get(CRD).json
        crd["spec"] = with_status({"x": STRING})["spec"]
        assert self.inside.put(CRD, crd).status == 200
        eventually(lambda: self.behind.state("a") == "Incompatible", 30)


def test_an_incompatible_type_is_reported_and_can_be_deleted(
    shard: ServerProcess, workspace: TestClient
) -> None:
    retired = Retired(shard, workspace)
    retired.lose_a_field()
    (copy,) = retired.copies()
    place = copy["metadata"]["namespace"]
    path = f"/apis/example.com/v1/namespaces/{place}/things/one"
    # Statuses go on, edits wait with a reason.
    phase = {"status": {"phase": "Running"}}
    assert retired.inside.patch(f"{path}/status", phase).status == 200
    eventually(lambda: (retired.object() or {}).get("status") == {"phase": "Running"})
    assert workspace.patch(f"{THINGS}/one", {"spec": {"x": "2"}}).status == 200
    eventually(lambda: retired.state().get("reason") == "TypeNotAccepted")
    assert retired.copies()[0]["spec"] == {"x": "1"}
    assert workspace.delete(f"{THINGS}/one").status == 200
    eventually(lambda: retired.object() is None)
    assert retired.copies() == []


def test_a_cluster_with_an_incompatible_type_can_be_deleted(
    shard: ServerProcess, workspace: TestClient
) -> None:
    retired = Retired(shard, workspace)
    retired.lose_a_field()
    assert workspace.delete(f"{CLUSTERS}/a").status == 200
    eventually(lambda: workspace.get(f"{CLUSTERS}/a").status == 404, 30)
    assert retired.copies() == []
    left = retired.object() or {}
    assert "finalizers" not in left["metadata"]


def test_a_cluster_releases_objects_of_types_that_it_does_not_list(
    shard: ServerProcess, workspace: TestClient
) -> None:
    """As an earlier version left them, for instance."""
    retired = Retired(shard, workspace)
    left = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "left", "finalizers": ["workloads.kcp.dev/syncer-a"]},
    }
    maps = "/api/v1/namespaces/default/configmaps"
    assert workspace.post(maps, left).status == 201
    listed = workspace.get(f"{CLUSTERS}/a").json["status"]["syncedResources"]
    assert [one["resource"] for one in listed] == ["things"]
    assert workspace.delete(f"{CLUSTERS}/a").status == 200
    eventually(lambda: workspace.get(f"{CLUSTERS}/a").status == 404, 30)
    assert "finalizers" not in workspace.get(f"{maps}/left").json["metadata"]
    assert retired.copies() == []


def test_a_type_that_is_not_wanted_is_listed_until_it_is_gone(
    shard: ServerProcess, workspace: TestClient
) -> None:
    retired = Retired(shard, workspace)
    patch = {"spec": {"syncResources": ["configmaps"]}}
    assert workspace.patch(f"{CLUSTERS}/a", patch).status == 200

    def things() -> Object:
        status = workspace.get(f"{CLUSTERS}/a").json["status"]
        found = (one for one in status["syncedResources"] if one["resource"] == "things")
        return next(found, {})

    eventually(lambda: things().get("state") == "Incompatible", 30)
    assert things()["message"].startswith("it is not synchronized any more")
    assert len(retired.copies()) == 1
    assert workspace.delete(f"{THINGS}/one").status == 200
    eventually(lambda: retired.object() is None)
    assert retired.copies() == []
    eventually(lambda: not things(), 30)


def test_the_list_of_a_cluster_that_reports_by_itself_gets_shorter(workspace: TestClient) -> None:
    assert workspace.post(CLUSTERS, cluster_object("none", mode="None")).status == 201
    cluster = workspace.get(f"{CLUSTERS}/none").json
    schema = definition({"x": STRING})["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    imported = {
        "apiVersion": "apiresource.kcp.dev/v1alpha1",
        "kind": "APIResourceImport",
        "metadata": {"name": "things.none.v1.example.com"},
        "spec": {
            "groupVersion": {"group": "example.com", "version": "v1"},
            "scope": "Namespaced",
            "plural": "things",
            "singular": "thing",
            "kind": "Thing",
            "listKind": "ThingList",
            "location": "none",
            "schemaUpdateStrategy": "UpdateUnpublished",
            "openAPIV3Schema": schema,
        },
    }
    assert cluster["metadata"]["uid"]
    assert workspace.post(IMPORTS, imported).status == 201

    def listed() -> dict[str, str]:
        status = workspace.get(f"{CLUSTERS}/none").json.get("status") or {}
        return {one["resource"]: one["state"] for one in status.get("syncedResources") or ()}

    eventually(lambda: listed().get("things") == "Accepted", 30)
    assert condition_of(workspace, NEGOTIATED, "things.v1.example.com", "Published")
    assert workspace.delete(f"{IMPORTS}/things.none.v1.example.com").status == 200
    eventually(lambda: "things" not in listed(), 30)
    assert listed().get("configmaps") == "Accepted"
