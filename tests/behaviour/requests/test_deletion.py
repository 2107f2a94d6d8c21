"""Deletions: what watchers see, what options say, and names that come back."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from pykcp.testing.client import TestClient, eventually

LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"


def make(cluster: TestClient, name: str, *finalizers: str) -> dict[str, Any]:
    reply = cluster.post(LEASES, {"metadata": {"name": name, "finalizers": list(finalizers)}})
    assert reply.status == 201, reply
    made: dict[str, Any] = reply.json["metadata"]
    return made


def test_a_name_comes_back_as_another_object(cluster: TestClient) -> None:
    """Deleted and made again: a new uid, a higher version, and one DELETED in between."""
    first = make(cluster, "a")
    events = cluster.watch(LEASES, resourceVersion=first["resourceVersion"])
    cluster.delete(f"{LEASES}/a")
    second = make(cluster, "a")
    assert second["uid"] != first["uid"]
    got = list(itertools.islice(events, 2))
    events.close()
    assert [e["type"] for e in got] == ["DELETED", "ADDED"]
    versions = [int(e["object"]["metadata"]["resourceVersion"]) for e in got]
    assert int(first["resourceVersion"]) < versions[0] < versions[1]
    assert got[0]["object"]["metadata"]["uid"] == first["uid"]


def test_watchers_see_the_mark_and_the_end(cluster: TestClient) -> None:
    """With a finalizer: MODIFIED when it is marked, DELETED when the last finalizer goes."""
    version = make(cluster, "a", "example.com/wait")["resourceVersion"]
    events = cluster.watch(LEASES, resourceVersion=version)
    cluster.delete(f"{LEASES}/a")
    marked = next(events)
    assert marked["type"] == "MODIFIED"
    assert marked["object"]["metadata"]["deletionTimestamp"]
    cluster.patch(f"{LEASES}/a", {"metadata": {"finalizers": []}})
    assert next(events)["type"] == "DELETED"
    events.close()


def test_creating_what_is_being_deleted(cluster: TestClient) -> None:
    """The refusal says that the object is on its way out."""
    make(cluster, "a", "example.com/wait")
    cluster.delete(f"{LEASES}/a")
    reply = cluster.post(LEASES, {"metadata": {"name": "a"}})
    assert reply.status == 409
    assert reply.json["message"].startswith("object is being deleted: ")


def test_a_namespace_that_ends_takes_nothing_new(cluster: TestClient) -> None:
    """403 with the cause NamespaceTerminating; then everything in it is gone."""
    cluster.post("/api/v1/namespaces", {"metadata": {"name": "gone"}})
    leases = LEASES.replace("default", "gone")
    held = {"metadata": {"name": "held", "finalizers": ["example.com/wait"]}}
    assert cluster.post(leases, held).status == 201
    assert cluster.delete("/api/v1/namespaces/gone").json["status"]["phase"] == "Terminating"
    reply = cluster.post(leases, {"metadata": {"name": "late"}})
    assert reply.status == 403
    assert reply.json["details"]["causes"][0]["reason"] == "NamespaceTerminating"
    eventually(lambda: "deletionTimestamp" in cluster.get(f"{leases}/held").json["metadata"])
    cluster.patch(f"{leases}/held", {"metadata": {"finalizers": None}})
    eventually(lambda: cluster.get("/api/v1/namespaces/gone").status == 404)


def test_collections_mark_what_has_finalizers(cluster: TestClient) -> None:
    """What can go goes, what has a finalizer is marked."""
    make(cluster, "free")
    make(cluster, "held", "example.com/wait")
    assert cluster.delete(LEASES).status == 200
    assert cluster.get(f"{LEASES}/free").status == 404
    assert "deletionTimestamp" in cluster.get(f"{LEASES}/held").json["metadata"]


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0}, 200),
        ({"propagationPolicy": "Background"}, 200),
        ({"kind": "ConfigMap", "apiVersion": "v1"}, 400),
        ({"propagationPolicy": "Background", "orphanDependents": True}, 422),
        ({"gracePeriodSeconds": "soon"}, 400),
        ({"kind": [None]}, 400),
        ({"apiVersion": 7}, 400),
        ({"dryRun": [{}]}, 400),
        ({"preconditions": {"uid": {}}}, 400),
        ([], 400),
    ],
)
def test_options_in_the_body(cluster: TestClient, body: Any, code: int) -> None:
    """Understood or refused; refused ones delete nothing."""
    make(cluster, "a")
    assert cluster.delete(f"{LEASES}/a", body).status == code
    assert cluster.get(f"{LEASES}/a").status == (404 if code == 200 else 200)


def test_a_dry_run_deletes_nothing(cluster: TestClient) -> None:
    """dryRun in the body counts, for one and for many."""
    make(cluster, "a")
    for path in (f"{LEASES}/a", LEASES):
        assert cluster.delete(path, {"dryRun": ["All"]}).status == 200
    assert cluster.get(f"{LEASES}/a").status == 200
