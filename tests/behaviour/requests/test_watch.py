"""Watches: every change once, in order, from where the client was."""

from __future__ import annotations

import itertools

import pytest

from pykcp.testing.client import TestClient

# Leases: no controller makes any of its own.
LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"


def _lease(name: str, labels: dict[str, str] | None = None, **data: str) -> dict[str, object]:
    holder = data.get("v", "nobody")
    return {"metadata": {"name": name, "labels": labels or {}}, "spec": {"holderIdentity": holder}}


def test_a_watch_from_a_list_misses_nothing(cluster: TestClient) -> None:
    """Events after the list's resource version come in order, each once."""
    version = cluster.get(LEASES).json["metadata"]["resourceVersion"]
    cluster.post(LEASES, _lease("a", v="1"))
    cluster.patch(f"{LEASES}/a", {"spec": {"holderIdentity": "2"}})
    cluster.delete(f"{LEASES}/a")
    events = cluster.watch(LEASES, resourceVersion=version)
    got = list(itertools.islice(events, 3))
    events.close()
    assert [e["type"] for e in got] == ["ADDED", "MODIFIED", "DELETED"]
    versions = [int(e["object"]["metadata"]["resourceVersion"]) for e in got]
    assert versions == sorted(versions)
    assert len(set(versions)) == 3
    assert got[0]["object"]["kind"] == "Lease"


def test_selectors_turn_changes_into_arrivals_and_departures(cluster: TestClient) -> None:
    """An object that starts to match is ADDED, one that stops matching is DELETED."""
    version = cluster.get(LEASES).json["metadata"]["resourceVersion"]
    events = cluster.watch(LEASES, resourceVersion=version, labelSelector="app=web")
    cluster.post(LEASES, _lease("b", {"app": "db"}))
    cluster.patch(f"{LEASES}/b", {"metadata": {"labels": {"app": "web"}}})
    cluster.patch(f"{LEASES}/b", {"spec": {"holderIdentity": "y"}})
    cluster.patch(f"{LEASES}/b", {"metadata": {"labels": {"app": None}}})
    got = list(itertools.islice(events, 3))
    events.close()
    assert [e["type"] for e in got] == ["ADDED", "MODIFIED", "DELETED"]


@pytest.mark.parametrize(
    "query",
    [
        {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"},
        {},
        {"resourceVersion": "0"},
    ],
)
def test_streaming_list_ends_with_a_marked_bookmark(
    cluster: TestClient, query: dict[str, str]
) -> None:
    """The state, then a bookmark that says so, then changes; also for watches from the beginning."""
    for name in ("s1", "s2"):
        cluster.post(LEASES, _lease(name))
    events = cluster.watch(LEASES, allowWatchBookmarks="true", **query)
    first = list(itertools.islice(events, 3))
    assert sorted(e["object"]["metadata"]["name"] for e in first[:2]) == ["s1", "s2"]
    assert first[2]["type"] == "BOOKMARK"
    assert first[2]["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    cluster.post(LEASES, _lease("s3"))
    assert next(events)["object"]["metadata"]["name"] == "s3"
    events.close()


@pytest.mark.parametrize("include", ["None", "Metadata", "Object"])
def test_bookmarks_of_tables_have_a_row(cluster: TestClient, include: str) -> None:
    """A row of an object without anything but the mark, whatever rows of objects include."""
    cluster.post(LEASES, _lease("t1"))
    events = cluster.watch(
        LEASES,
        accept="application/json;as=Table;g=meta.k8s.io;v=v1",
        allowWatchBookmarks="true",
        includeObject=include,
        timeoutSeconds="1",
    )
    marks = [event["object"] for event in events if event["type"] == "BOOKMARK"]
    first, last = marks[0], marks[-1]
    assert list(first["metadata"]) == ["resourceVersion"]
    (row,) = first["rows"]
    assert row["cells"] == ["", "", "<unknown>"]
    shown = row["object"]
    assert shown["kind"] == ("Lease" if include == "Object" else "PartialObjectMetadata")
    assert shown["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    assert (last["rows"][0]["object"] is None) is (include == "None")


def test_a_watch_ends_when_its_time_is_over(cluster: TestClient) -> None:
    """timeoutSeconds ends the stream cleanly, with a last bookmark for those who want one."""
    events = cluster.watch(LEASES, timeoutSeconds="1", allowWatchBookmarks="true")
    rest = list(events)
    assert rest[-1]["type"] == "BOOKMARK"


def test_an_impossible_revision_is_expired(cluster: TestClient) -> None:
    """A revision from before the store's memory gives 410 as an event, as upstream does."""
    answer = cluster.get(LEASES, resourceVersion="999999999", resourceVersionMatch="Exact")
    assert answer.status in {400, 410, 504}
