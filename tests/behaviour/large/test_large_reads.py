"""What must be decoded to be shown is made by worker processes if it is large, or becomes so."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
import yaml

from pykcp.testing.client import JSON_PATCH, MERGE, TestClient, eventually
from pykcp.testing.server import ServerProcess

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
WIDGETS = "/apis/example.com/v1/namespaces/default/widgets"
TABLE = "as=Table;v=v1;g=meta.k8s.io"
PARTIAL = "as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
PARTIAL_LIST = "as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
FREE: dict[str, Any] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
EMPTY = 2_000
"""Elements that are small before their defaults."""


def jobs(shard: ServerProcess) -> float:
    lines = shard.client().get("/metrics").body.decode().splitlines()
    return float(next(x for x in lines if x.startswith("pykcp_worker_jobs_total ")).split()[1])


def definition(spec: dict[str, Any], versions: int = 1) -> dict[str, Any]:
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
    column = {"name": "Size", "type": "integer", "jsonPath": ".spec.size"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget"},
            "versions": [
                {
                    "name": f"v{n + 1}",
                    "served": True,
                    "storage": n == 0,
                    "schema": schema,
                    "additionalPrinterColumns": [column],
                }
                for n in range(versions)
            ],
        },
    }


def defaulted(count: int) -> dict[str, Any]:
    """A list of objects with so many defaults each."""
    numbers = {f"d{n}": {"type": "integer", "default": 1} for n in range(count)}
    return {
        "type": "object",
        "properties": {
            "size": {"type": "integer"},
            "list": {"type": "array", "items": {"type": "object", "properties": numbers}},
        },
    }


def widget(name: str, **spec: Any) -> dict[str, Any]:
    kind = {"apiVersion": "example.com/v1", "kind": "Widget"}
    return {**kind, "metadata": {"name": name}, "spec": spec}


def serve(cluster: TestClient, made: dict[str, Any]) -> None:
    assert cluster.post(CRDS, made).status == 201
    eventually(lambda: cluster.get(WIDGETS).status == 200)


def change_schema(cluster: TestClient, spec: dict[str, Any]) -> None:
    live = cluster.get(f"{CRDS}/widgets.example.com").json
    live["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"] = spec
    assert cluster.put(f"{CRDS}/widgets.example.com", live).status == 200


def accepting(cluster: TestClient, path: str, accept: str, **query: Any) -> Any:
    reply = cluster.get(path, headers={"Accept": accept}, **query)
    assert reply.status == 200, reply
    return yaml.safe_load(reply.body) if "yaml" in accept else reply.json


def test_defaults_that_make_a_small_object_long(shard: ServerProcess, cluster: TestClient) -> None:
    serve(cluster, definition(defaulted(10)))
    before = jobs(shard)
    short = cluster.post(WIDGETS, widget("short", list=[{}])).json
    assert jobs(shard) == before
    made = cluster.post(WIDGETS, widget("long", list=[{}] * EMPTY))
    assert made.status == 201, made
    full = {f"d{n}": 1 for n in range(10)}
    assert made.json["spec"]["list"] == [full] * EMPTY
    assert jobs(shard) > before
    short["spec"]["list"] = [{}] * (EMPTY + 1)
    changed = cluster.put(f"{WIDGETS}/short", short)
    assert changed.json["spec"]["list"] == [full] * (EMPTY + 1), changed
    patched = cluster.patch(f"{WIDGETS}/short", {"spec": {"list": [{}] * EMPTY}}, MERGE)
    assert patched.json["spec"]["list"] == [full] * EMPTY
    applied = cluster.patch(
        f"{WIDGETS}/new?fieldManager=m",
        widget("new", list=[{}] * EMPTY),
        "application/apply-patch+yaml",
    )
    assert (applied.status, applied.json["spec"]["list"]) == (201, [full] * EMPTY)


def test_defaults_are_limited(cluster: TestClient) -> None:
    """Names count: most defaults are shorter than theirs."""
    serve(cluster, definition(defaulted(500)))
    refused = cluster.post(WIDGETS, widget("a", list=[{}] * 4_000))
    assert (refused.status, refused.json["reason"]) == (413, "RequestEntityTooLarge")
    assert "defaults add more than" in refused.json["message"]


def test_copies_of_a_patch(shard: ServerProcess, cluster: TestClient) -> None:
    serve(cluster, definition(FREE))
    assert cluster.post(WIDGETS, widget("a", a=[{}] * 5_000)).status == 201
    before = jobs(shard)
    copies = [{"op": "copy", "from": "/spec/a", "path": f"/spec/b{n}"} for n in range(20)]
    changed = cluster.patch(f"{WIDGETS}/a", copies, JSON_PATCH)
    assert changed.status == 200, changed
    assert changed.json["spec"]["b19"] == [{}] * 5_000
    assert jobs(shard) > before


@pytest.mark.parametrize("length", [10, 1_000_000], ids=["small", "large"])
def test_objects_of_an_earlier_schema(cluster: TestClient, length: int) -> None:
    """In all forms, whatever their size."""
    serve(cluster, definition(FREE))
    made = cluster.post(WIDGETS, widget("a", text="x" * length, size=3, gone=1))
    assert made.status == 201, made
    text = {"type": "string"}
    number = {"type": "integer"}
    properties = {"text": text, "size": number, "added": {**text, "default": "y"}}
    change_schema(cluster, {"type": "object", "properties": properties})
    wanted = {"text": "x" * length, "size": 3, "added": "y"}
    eventually(lambda: cluster.get(f"{WIDGETS}/a").json["spec"] == wanted)
    for query in ({}, {"pretty": 1}):
        assert cluster.get(f"{WIDGETS}/a", **query).json["spec"] == wanted
        (item,) = cluster.get(WIDGETS, **query).json["items"]
        assert item["spec"] == wanted
        assert (item["kind"], item["apiVersion"]) == ("Widget", "example.com/v1")
    assert accepting(cluster, f"{WIDGETS}/a", "application/yaml")["spec"] == wanted
    with contextlib.closing(cluster.watch(WIDGETS, resourceVersion="0")) as events:
        assert next(events)["object"]["spec"] == wanted
    since = str(int(made.json["metadata"]["resourceVersion"]) - 1)
    with contextlib.closing(cluster.watch(WIDGETS, resourceVersion=since)) as events:
        assert next(events)["object"]["spec"] == wanted
    unchanged = cluster.patch(f"{WIDGETS}/a?dryRun=All", {"metadata": {"labels": {}}}, MERGE)
    assert unchanged.json["spec"] == wanted


@pytest.mark.parametrize("media_type", ["application/json", "application/yaml"])
@pytest.mark.parametrize("length", [10, 1_000_000], ids=["small", "large"])
def test_tables_and_metadata(cluster: TestClient, media_type: str, length: int) -> None:
    serve(cluster, definition(FREE))
    made = cluster.post(WIDGETS, widget("a", text="x" * length, size=3)).json
    version = made["metadata"]["resourceVersion"]
    for path in (f"{WIDGETS}/a", WIDGETS):
        table = accepting(cluster, path, f"{media_type};{TABLE}", includeObject="Object")
        assert (table["kind"], table["apiVersion"]) == ("Table", "meta.k8s.io/v1")
        assert int(table["metadata"]["resourceVersion"]) >= int(version)
        assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Size"]
        (row,) = table["rows"]
        assert (row["cells"], row["object"]) == (["a", 3], made)
        table = accepting(cluster, path, f"{media_type};{TABLE}")
        assert table["rows"][0]["object"]["metadata"] == made["metadata"]
    shown = accepting(cluster, f"{WIDGETS}/a", f"{media_type};{PARTIAL}")
    assert (shown["kind"], shown["metadata"]) == ("PartialObjectMetadata", made["metadata"])
    shown = accepting(cluster, WIDGETS, f"{media_type};{PARTIAL_LIST}")
    assert shown["kind"] == "PartialObjectMetadataList"
    assert [item["metadata"] for item in shown["items"]] == [made["metadata"]]


def test_objects_that_reads_make_long(shard: ServerProcess, cluster: TestClient) -> None:
    """Stored small, before their schema had defaults."""
    serve(cluster, definition(defaulted(0)))
    for name in ("a", "b", "c"):
        assert cluster.post(WIDGETS, widget(name, list=[{}] * EMPTY)).status == 201
    change_schema(cluster, defaulted(10))
    wanted = [{f"d{n}": 1 for n in range(10)}] * EMPTY
    eventually(lambda: cluster.get(f"{WIDGETS}/a").json["spec"]["list"] == wanted)
    before = jobs(shard)
    found = cluster.get(WIDGETS).json["items"]
    assert [item["spec"]["list"] for item in found] == [wanted] * 3
    assert jobs(shard) >= before + 3
    table = accepting(cluster, WIDGETS, f"application/json;{TABLE}", includeObject="Object")
    assert [row["object"]["spec"]["list"] for row in table["rows"]] == [wanted] * 3


def test_table_watches_of_large_objects(shard: ServerProcess, cluster: TestClient) -> None:
    """Rows come in order, small ones behind large ones; columns come once."""
    kind = {"apiVersion": "v1", "kind": "ConfigMap"}
    large = {**kind, "metadata": {"name": "large", "labels": {"t": "1"}}}
    large["data"] = {"a": "x" * 200_000}
    small = {**kind, "metadata": {"name": "small", "labels": {"t": "1"}}}
    since = cluster.get(CONFIG_MAPS).json["metadata"]["resourceVersion"]
    before = jobs(shard)
    forms = (f"application/json;{TABLE}", f"application/json;{PARTIAL}")
    with contextlib.ExitStack() as opened:
        watches = [
            opened.enter_context(
                contextlib.closing(
                    cluster.watch(CONFIG_MAPS, form, resourceVersion=since, labelSelector="t")
                )
            )
            for form in (*forms, *forms)
        ]
        assert cluster.post(CONFIG_MAPS, large).status == 201
        assert cluster.post(CONFIG_MAPS, small).status == 201
        assert cluster.patch(f"{CONFIG_MAPS}/large", {"data": {"b": "y"}}, MERGE).status == 200
        assert cluster.delete(f"{CONFIG_MAPS}/large").status == 200
        for events in watches:
            got = [next(events) for _ in range(4)]
            assert [event["type"] for event in got] == ["ADDED", "ADDED", "MODIFIED", "DELETED"]
            objects = [event["object"] for event in got]
            if objects[0]["kind"] == "Table":
                assert [bool(table["columnDefinitions"]) for table in objects] == [True] + [
                    False
                ] * 3
                objects = [table["rows"][0]["object"] for table in objects]
            assert {each["kind"] for each in objects} == {"PartialObjectMetadata"}
            names = [each["metadata"]["name"] for each in objects]
            assert names == ["large", "small", "large", "large"]
    assert jobs(shard) > before


def test_discovery_of_many_versions(cluster: TestClient) -> None:
    """Made elsewhere, once; the same in all forms."""
    serve(cluster, definition({"type": "object"}, 600))
    for path in ("/apis/example.com", "/apis"):
        shown = cluster.get(path).json
        assert len(json.dumps(shown)) > 32 * 1024
        for _ in range(2):
            assert accepting(cluster, path, "application/yaml") == shown
        assert accepting(cluster, path, "application/json", pretty=1) == shown
        encoded = cluster.get(path, headers={"Accept": "application/vnd.kubernetes.protobuf"})
        assert encoded.header("content-type") == "application/vnd.kubernetes.protobuf"
        assert encoded.body.startswith(b"k8s\0")
        assert b"v600" in encoded.body
