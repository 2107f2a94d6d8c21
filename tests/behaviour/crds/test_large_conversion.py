"""Objects and schemas that are too large for the event loop, of kinds that a webhook converts.

They are to be served as small ones are; that worker processes do it is seen in a metric.
"""

from __future__ import annotations

import re
from typing import Any

import pytest
from tests.behaviour.crds.test_conversion_webhook import V1, V2, box, install, version

from pykcp.testing.client import APPLY, TestClient
from pykcp.testing.server import ServerProcess

Object = dict[str, Any]
TEXT = "x" * 60_000


def versions(extra: Object) -> list[Object]:
    number, note = {"type": "integer"}, {"type": "string"}
    return [
        version("v1", {"size": {"type": "string"}, "note": note, **extra}, storage=True),
        version("v2", {"width": number, "height": number, "note": note, **extra}, storage=False),
    ]


@pytest.fixture
def large(cluster: TestClient, converter: Any) -> TestClient:
    install(cluster, converter.strategy(), versions({}))
    assert cluster.post(V2, box("a", "v2", width=3, height=4, note=TEXT)).status == 201
    return cluster


def jobs(shard: ServerProcess) -> int:
    found = re.search(rb"pykcp_worker_jobs_total (\d+)", shard.client().get("/metrics").body)
    return int(found[1]) if found else 0


def test_large_objects_are_written_and_read_in_both_versions(
    large: TestClient, shard: ServerProcess
) -> None:
    assert jobs(shard) > 0
    assert large.get(f"{V1}/a").json["spec"] == {"size": "3x4", "note": TEXT}
    assert large.get(f"{V2}/a").json["spec"] == {"width": 3, "height": 4, "note": TEXT}
    assert large.get(V2).json["items"][0]["spec"]["width"] == 3
    patched = large.patch(f"{V2}/a", {"spec": {"width": 30}})
    assert patched.json["spec"]["width"] == 30, patched
    assert large.patch(f"{V1}/a", {"spec": {"size": "5x6"}}).json["spec"]["size"] == "5x6"
    current = large.get(f"{V2}/a").json
    assert (current["spec"]["width"], current["spec"]["height"]) == (5, 6)
    current["spec"]["height"] = 7
    replaced = large.put(f"{V2}/a", current)
    assert (replaced.status, replaced.json["spec"]["height"]) == (200, 7)
    assert large.get(f"{V1}/a").json["spec"]["size"] == "5x7"
    again = large.put(f"{V2}/a", replaced.json).json
    assert again["metadata"]["resourceVersion"] == replaced.json["metadata"]["resourceVersion"]
    assert large.delete(f"{V2}/a").status == 200
    assert large.get(f"{V1}/a").status == 404


def test_managers_of_both_versions_are_kept(large: TestClient) -> None:
    applied = box("a", "v1", size="3x4")
    made = large.patch(f"{V1}/a?fieldManager=one&force=true", applied, APPLY)
    assert made.status == 200, made
    refused = large.patch(f"{V2}/a?fieldManager=two", box("a", "v2", width=9, height=4), APPLY)
    assert refused.status == 409, refused
    forced = large.patch(
        f"{V2}/a?fieldManager=two&force=true", box("a", "v2", width=9, height=4), APPLY
    )
    assert forced.status == 200, forced
    assert large.get(f"{V1}/a").json["spec"]["size"] == "9x4"
    entries = forced.json["metadata"]["managedFields"]
    managers = {(entry["manager"], entry["apiVersion"]) for entry in entries}
    assert ("two", "example.com/v2") in managers


def test_large_objects_fail_with_the_same_words(large: TestClient, converter: Any) -> None:
    converter.respond = converter.spoiled(result={"status": "Failed", "message": "not today"})
    told = large.get(f"{V2}/a")
    assert told.status == 500
    words = "conversion webhook for example.com/v1, Kind=Box failed: not today"
    assert told.json["message"] == words
    refused = large.patch(f"{V2}/a", {"spec": {"width": 30}})
    assert (refused.status, refused.json["message"]) == (500, words)
    created = large.post(V2, box("b", "v2", width=3, height=4, note=TEXT))
    assert created.status == 500
    assert created.json["message"].endswith("Kind=Box failed: not today")


def test_a_small_object_may_become_a_large_one(cluster: TestClient, converter: Any) -> None:
    install(cluster, converter.strategy(), versions({}))
    plain = converter.respond

    def grow(review: Object) -> Object:
        found: Object = plain(review)
        for obj in found["response"]["convertedObjects"]:
            obj["spec"]["note"] = "x" * 300_000
        return found

    converter.respond = grow
    made = cluster.post(V2, box("a", "v2", width=3, height=4))
    assert made.status == 201, made
    assert len(cluster.get(f"{V1}/a").json["spec"]["note"]) == 300_000
    patched = cluster.patch(f"{V2}/a", {"spec": {"width": 5}})
    assert patched.status == 200, patched
    assert cluster.get(f"{V1}/a").json["spec"]["size"] == "5x4"


def test_small_objects_of_a_large_schema(
    cluster: TestClient, converter: Any, shard: ServerProcess
) -> None:
    before = jobs(shard)
    extra = {f"p{number}": {"type": "string", "default": "d"} for number in range(1_000)}
    install(cluster, converter.strategy(), versions(extra))
    made = cluster.post(V2, box("a", "v2", width=3, height=4, unknown=1))
    assert made.status == 201, made
    spec = made.json["spec"]
    assert (spec["width"], spec["p999"], "unknown" in spec) == (3, "d", False)
    assert cluster.get(f"{V1}/a").json["spec"]["size"] == "3x4"
    bad = cluster.post(V2, box("b", "v2", width="wide", height=4))
    assert bad.status == 422, bad
    patched = cluster.patch(f"{V2}/a", {"spec": {"width": 5}})
    assert patched.json["spec"]["width"] == 5
    assert cluster.get(f"{V1}/a").json["spec"]["size"] == "5x4"
    assert jobs(shard) > before
