"""Custom resources whose versions a webhook converts."""

from __future__ import annotations

import json
from typing import Any

import pytest
from aiohttp import web

from pykcp.testing.client import TestClient, eventually

Object = dict[str, Any]

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
NAME = f"{CRDS}/boxes.example.com"
V1 = "/apis/example.com/v1/namespaces/default/boxes"
V2 = "/apis/example.com/v2/namespaces/default/boxes"


def version(name: str, properties: Object, *, storage: bool, **more: Any) -> Object:
    spec = {"type": "object", "properties": properties}
    schema = {"type": "object", "properties": {"spec": spec}}
    return {
        "name": name,
        "served": True,
        "storage": storage,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}},
        **more,
    }


def versions(storage: str) -> list[Object]:
    number = {"type": "integer"}
    return [
        version("v1", {"size": {"type": "string"}}, storage=storage == "v1"),
        version("v2", {"width": number, "height": number}, storage=storage == "v2"),
    ]


def install(client: TestClient, conversion: Object | None, given: list[Object]) -> None:
    spec = {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "boxes", "singular": "box", "kind": "Box", "listKind": "BoxList"},
        "versions": given,
    }
    if conversion:
        spec["conversion"] = conversion
    made = client.post(CRDS, {"metadata": {"name": "boxes.example.com"}, "spec": spec})
    assert made.status == 201, made
    last = given[-1]["name"]
    eventually(lambda: client.get(f"/apis/example.com/{last}/boxes").status == 200)


def change(client: TestClient, **spec: Any) -> None:
    """Change the definition and wait until the change is served."""
    changed = client.patch(NAME, {"spec": spec})
    assert changed.status == 200, changed


def box(name: str, api: str, **spec: Any) -> Object:
    return {
        "apiVersion": f"example.com/{api}",
        "kind": "Box",
        "metadata": {"name": name},
        "spec": spec,
    }


@pytest.fixture
def boxes(cluster: TestClient, converter: Any) -> TestClient:
    install(cluster, converter.strategy(), versions("v1"))
    return cluster


def test_written_in_one_version_and_read_in_both(boxes: TestClient, converter: Any) -> None:
    made = boxes.post(V2, box("a", "v2", width=3, height=4))
    assert made.status == 201, made
    assert made.json["apiVersion"] == "example.com/v2"
    assert made.json["spec"] == {"width": 3, "height": 4}
    assert boxes.get(f"{V1}/a").json["spec"] == {"size": "3x4"}
    assert boxes.get(f"{V2}/a").json["spec"] == {"width": 3, "height": 4}
    desired = [review["request"]["desiredAPIVersion"] for review in converter.reviews]
    assert desired[:2] == ["example.com/v1", "example.com/v2"]


def test_a_review_is_what_kubernetes_sends(boxes: TestClient, converter: Any) -> None:
    boxes.post(V1, box("a", "v1", size="3x4"))
    converter.reviews.clear()
    boxes.get(f"{V2}/a")
    (review,) = converter.reviews
    assert review["kind"] == "ConversionReview"
    assert review["apiVersion"] == "apiextensions.k8s.io/v1"
    (sent,) = review["request"]["objects"]
    assert (sent["apiVersion"], sent["kind"]) == ("example.com/v1", "Box")
    assert sent["spec"] == {"size": "3x4"}
    assert sent["metadata"]["name"] == "a"


def test_the_storage_version_needs_no_webhook(boxes: TestClient, converter: Any) -> None:
    assert boxes.post(V1, box("a", "v1", size="3x4")).status == 201
    assert boxes.get(f"{V1}/a").status == 200
    assert boxes.get(V1).status == 200
    assert boxes.delete(f"{V1}/a").status == 200
    assert converter.reviews == []


def test_a_list_is_one_call(boxes: TestClient, converter: Any) -> None:
    for number in range(20):
        boxes.post(V1, box(f"b{number:02}", "v1", size=f"{number}x1"))
    converter.reviews.clear()
    listed = boxes.get(V2).json
    assert [item["spec"]["width"] for item in listed["items"]] == list(range(20))
    assert {item["apiVersion"] for item in listed["items"]} == {"example.com/v2"}
    (review,) = converter.reviews
    assert len(review["request"]["objects"]) == 20


def test_updates_patches_and_apply_in_another_version(boxes: TestClient) -> None:
    made = boxes.post(V1, box("a", "v1", size="3x4")).json
    patched = boxes.patch(f"{V2}/a", {"spec": {"width": 30}})
    assert patched.json["spec"] == {"width": 30, "height": 4}
    assert boxes.get(f"{V1}/a").json["spec"] == {"size": "30x4"}
    current = boxes.get(f"{V2}/a").json
    current["spec"] = {"width": 5, "height": 6}
    assert boxes.put(f"{V2}/a", current).json["spec"] == {"width": 5, "height": 6}
    assert boxes.get(f"{V1}/a").json["spec"] == {"size": "5x6"}
    assert boxes.get(f"{V1}/a").json["metadata"]["uid"] == made["metadata"]["uid"]


def test_an_update_that_changes_nothing_is_not_written(boxes: TestClient) -> None:
    boxes.post(V1, box("a", "v1", size="3x4"))
    before = boxes.get(f"{V2}/a").json
    after = boxes.put(f"{V2}/a", before).json
    assert after["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]


def test_watches_convert_in_order(boxes: TestClient) -> None:
    boxes.post(V1, box("old", "v1", size="1x1"))
    events = boxes.watch(V2)
    first = next(events)
    assert (first["type"], first["object"]["spec"]) == ("ADDED", {"width": 1, "height": 1})
    for number in range(2, 6):
        boxes.patch(f"{V1}/old", {"spec": {"size": f"{number}x{number}"}})
    boxes.delete(f"{V1}/old")
    seen = [next(events) for _ in range(5)]
    assert [e["type"] for e in seen] == ["MODIFIED"] * 4 + ["DELETED"]
    assert [e["object"]["spec"]["width"] for e in seen] == [2, 3, 4, 5, 5]
    assert {e["object"]["apiVersion"] for e in seen} == {"example.com/v2"}
    events.close()


def test_a_watch_whose_conversion_fails_says_so_and_ends(boxes: TestClient, converter: Any) -> None:
    events = boxes.watch(V2, resourceVersion=boxes.get(V1).json["metadata"]["resourceVersion"])
    converter.respond = lambda review: web.Response(status=503)
    boxes.post(V1, box("a", "v1", size="1x1"))
    last = list(events)
    assert [e["type"] for e in last] == ["ERROR"]
    assert last[0]["object"]["message"].startswith(
        "conversion webhook for example.com/v1, Kind=Box failed: "
    )


def test_a_watch_whose_first_conversion_fails_ends(boxes: TestClient, converter: Any) -> None:
    """The answer has begun, so the error is an event; a client must not wait for more."""
    boxes.post(V1, box("a", "v1", size="1x1"))
    converter.respond = lambda review: web.Response(status=503)
    (last,) = list(boxes.watch(V2))
    assert (last["type"], last["object"]["kind"]) == ("ERROR", "Status")
    assert last["object"]["message"].startswith(
        "conversion webhook for example.com/v1, Kind=Box failed: "
    )


def test_objects_are_readable_after_the_storage_version_changed(
    boxes: TestClient, converter: Any
) -> None:
    boxes.post(V1, box("old", "v1", size="3x4"))
    change(boxes, versions=versions("v2"))
    assert boxes.get(NAME).json["status"]["storedVersions"] == ["v1", "v2"]
    assert boxes.post(V2, box("new", "v2", width=5, height=6)).status == 201
    assert boxes.get(f"{V2}/old").json["spec"] == {"width": 3, "height": 4}
    assert boxes.get(f"{V1}/new").json["spec"] == {"size": "5x6"}
    converter.reviews.clear()
    assert boxes.get(f"{V1}/old").json["spec"] == {"size": "3x4"}
    assert boxes.get(f"{V2}/new").json["spec"] == {"width": 5, "height": 6}
    assert converter.reviews == []


def test_an_update_that_changes_nothing_migrates(boxes: TestClient, converter: Any) -> None:
    boxes.post(V1, box("a", "v1", size="3x4"))
    change(boxes, versions=versions("v2"))
    before = boxes.get(f"{V2}/a").json
    after = boxes.put(f"{V2}/a", before).json
    assert after["metadata"]["resourceVersion"] != before["metadata"]["resourceVersion"]
    converter.reviews.clear()
    assert boxes.get(f"{V2}/a").json["spec"] == {"width": 3, "height": 4}
    assert converter.reviews == []
    boxes.patch(f"{NAME}/status", {"status": {"storedVersions": ["v2"]}})
    change(boxes, versions=versions("v2")[1:], conversion={"strategy": "None", "webhook": None})
    kept = boxes.get(f"{V2}/a").json
    assert (kept["apiVersion"], kept["spec"]) == ("example.com/v2", {"width": 3, "height": 4})


def test_a_definition_that_gets_a_webhook_later(cluster: TestClient, converter: Any) -> None:
    install(cluster, None, versions("v1")[:1])
    cluster.post(V1, box("a", "v1", size="3x4"))
    change(cluster, versions=versions("v2"), conversion=converter.strategy())
    eventually(lambda: cluster.get(V2).status == 200)
    assert cluster.get(f"{V2}/a").json["spec"] == {"width": 3, "height": 4}


def test_deletion_with_finalizers(boxes: TestClient) -> None:
    held = box("a", "v1", size="3x4")
    held["metadata"]["finalizers"] = ["example.com/hold"]
    boxes.post(V1, held)
    marked = boxes.delete(f"{V2}/a").json
    assert marked["metadata"]["deletionTimestamp"]
    assert marked["spec"] == {"width": 3, "height": 4}
    assert boxes.get(f"{V1}/a").json["spec"] == {"size": "3x4"}
    gone = boxes.patch(f"{V2}/a", {"metadata": {"finalizers": None}})
    assert gone.status == 200
    assert boxes.get(f"{V1}/a").status == 404


def test_old_review_version(cluster: TestClient, converter: Any) -> None:
    install(cluster, converter.strategy("v1beta1"), versions("v1"))
    cluster.post(V1, box("a", "v1", size="3x4"))
    assert cluster.get(f"{V2}/a").json["spec"] == {"width": 3, "height": 4}
    assert converter.reviews[-1]["apiVersion"] == "apiextensions.k8s.io/v1beta1"


WHO = "conversion webhook for example.com/v1, Kind=Box"
FAILURES: dict[str, tuple[Object, str]] = {
    "another name": (
        {"metadata": {"name": "b"}},
        f"{WHO} returned invalid object: must have the same name: a != b",
    ),
    "another uid": ({"metadata": {"uid": "x"}}, "must have the same UID: "),
    "another version": (
        {"apiVersion": "example.com/v3"},
        f"{WHO} returned invalid object at index 0: invalid groupVersion (expected example.com/v2, received example.com/v3)",
    ),
    "another kind": (
        {"kind": "Bag"},
        f"{WHO} returned invalid object at index 0: invalid kind (expected Box, received Bag)",
    ),
    "too few": ({"convertedObjects": []}, f"{WHO} returned 0 objects, expected 1"),
    "a failure": (
        {"result": {"status": "Failure", "message": "no boxes today"}},
        f"{WHO} failed: no boxes today",
    ),
    "no status": ({"result": {}}, f"{WHO} failed: response.result.status was '', not 'Success'"),
    "another question": ({"uid": "x"}, f"{WHO} failed: expected response.uid="),
    "bad labels": (
        {"metadata": {"labels": {"a": 1}}},
        f"{WHO} returned invalid metadata: metadata.labels[a] must be a string, but is int64",
    ),
}


@pytest.mark.parametrize("case", FAILURES, ids=str)
def test_what_a_webhook_may_not_do(boxes: TestClient, converter: Any, case: str) -> None:
    spoiled, expected = FAILURES[case]
    boxes.post(V1, box("a", "v1", size="3x4"))
    converter.respond = converter.spoiled(**spoiled)
    refused = boxes.get(f"{V2}/a")
    assert refused.status == 500
    assert expected in refused.json["message"]
    assert boxes.get(f"{V1}/a").status == 200


def test_labels_may_change_but_not_other_metadata(boxes: TestClient, converter: Any) -> None:
    boxes.post(V1, box("a", "v1", size="3x4"))
    before = boxes.get(f"{V1}/a").json["metadata"]
    converter.respond = converter.spoiled(
        metadata={"labels": {"from": "webhook"}, "annotations": None, "generation": 99}
    )
    after = boxes.get(f"{V2}/a").json["metadata"]
    assert after["labels"] == {"from": "webhook"}
    assert after["generation"] == before["generation"]
    assert after["annotations"] == {"kcp.io/cluster": before["annotations"]["kcp.io/cluster"]}


def test_a_webhook_that_is_not_there(cluster: TestClient, converter: Any) -> None:
    conversion = json.loads(json.dumps(converter.strategy()))
    conversion["webhook"]["clientConfig"]["url"] = "https://127.0.0.1:1/convert"
    install(cluster, conversion, versions("v1"))
    refused = cluster.post(V2, box("a", "v2", width=1, height=1))
    assert refused.status == 500
    assert refused.json["message"] == (
        "conversion webhook for example.com/v2, Kind=Box failed: "
        'Post "https://127.0.0.1:1/convert?timeout=30s": '
        "dial tcp 127.0.0.1:1: connect: connection refused"
    )


def test_text_instead_of_a_review(boxes: TestClient, converter: Any) -> None:
    boxes.post(V1, box("a", "v1", size="3x4"))
    converter.respond = lambda review: web.Response(text="hello")
    refused = boxes.get(f"{V2}/a")
    assert refused.status == 500
    assert "conversion webhook for example.com/v1, Kind=Box failed: " in refused.json["message"]
