"""Large writes, which worker processes compute, are answered as small ones are."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest

from pykcp.server.media import protobuf_form
from pykcp.testing.client import APPLY, JSON_PATCH, MERGE, STRATEGIC, TestClient, eventually
from pykcp.testing.server import ServerProcess

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
WIDGETS = "/apis/example.com/v1/namespaces/default/widgets"
SMALL, LARGE = "x" * 10, "x" * 100_000


def jobs(shard: ServerProcess) -> float:
    lines = shard.client().get("/metrics").body.decode().splitlines()
    return float(next(x for x in lines if x.startswith("pykcp_worker_jobs_total ")).split()[1])


def config_map(name: str, filler: str, **more: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "labels": {"a": "b"}},
        "data": {"filler": filler, "k": "v"},
        **more,
    }


def shape(answer: Any, name: str, filler: str) -> Any:
    """An answer without what differs between any two objects."""
    text = json.dumps(answer.json).replace(filler, "FILLER").replace(name, "NAME")
    seen = json.loads(text)
    metadata = seen.get("metadata", {})
    for field in ("uid", "resourceVersion", "creationTimestamp"):
        metadata.pop(field, None)
    for entry in metadata.get("managedFields", ()):
        entry.pop("time", None)
    return answer.status, seen


STEPS = {
    "create": lambda c, n, f: c.post(CONFIG_MAPS, config_map(n, f)),
    "again": lambda c, n, f: c.post(CONFIG_MAPS, config_map(n, f)),
    "dry run": lambda c, n, f: c.post(f"{CONFIG_MAPS}?dryRun=All", config_map(f"{n}-dry", f)),
    "generated, dry": lambda c, n, f: c.post(
        f"{CONFIG_MAPS}?dryRun=All",
        config_map("", f, metadata={"name": f"{n}-g", "generateName": "g-"}),
    ),
    "update": lambda c, n, f: c.put(
        f"{CONFIG_MAPS}/{n}", config_map(n, f, data={"filler": f, "more": "m"})
    ),
    "merge patch": lambda c, n, f: c.patch(f"{CONFIG_MAPS}/{n}", {"data": {"k2": f}}, MERGE),
    "strategic patch": lambda c, n, f: c.patch(
        f"{CONFIG_MAPS}/{n}", {"metadata": {"labels": {"c": "d"}}, "data": {"k2": None}}, STRATEGIC
    ),
    "JSON patch": lambda c, n, f: c.patch(
        f"{CONFIG_MAPS}/{n}", [{"op": "add", "path": "/data/j", "value": f}], JSON_PATCH
    ),
    "apply, conflict": lambda c, n, f: c.patch(
        f"{CONFIG_MAPS}/{n}?fieldManager=other", config_map(n, f + "y"), APPLY
    ),
    "apply, forced": lambda c, n, f: c.patch(
        f"{CONFIG_MAPS}/{n}?fieldManager=other&force=true", config_map(n, f + "y"), APPLY
    ),
    "apply creates": lambda c, n, f: c.patch(
        f"{CONFIG_MAPS}/{n}-new?fieldManager=other", config_map(f"{n}-new", f), APPLY
    ),
    "unchanged": lambda c, n, f: c.patch(f"{CONFIG_MAPS}/{n}", {"metadata": {}}, MERGE),
    "bad name": lambda c, n, f: c.post(CONFIG_MAPS, config_map(f"{n}_", f)),
    "bad key": lambda c, n, f: c.post(CONFIG_MAPS, config_map(f"{n}-k", f, data={"a b": f})),
    "wrong type": lambda c, n, f: c.post(
        CONFIG_MAPS, config_map(f"{n}-t", f, data={"a": {"b": f}})
    ),
    "strict": lambda c, n, f: c.post(
        f"{CONFIG_MAPS}?fieldValidation=Strict", config_map(f"{n}-s", f, nosuch=f)
    ),
    "warn": lambda c, n, f: c.post(CONFIG_MAPS, config_map(f"{n}-w", f, nosuch=1)),
    "missing": lambda c, n, f: c.patch(f"{CONFIG_MAPS}/{n}-no", {"data": {"a": f}}, MERGE),
    "malformed patch": lambda c, n, f: c.patch(f"{CONFIG_MAPS}/{n}-no", [f], JSON_PATCH),
    "other name": lambda c, n, f: c.put(f"{CONFIG_MAPS}/{n}", config_map(f"{n}-other", f)),
    "stale": lambda c, n, f: c.put(
        f"{CONFIG_MAPS}/{n}", config_map(n, f, metadata={"name": n, "resourceVersion": "1"})
    ),
    "finalizer": lambda c, n, f: c.patch(
        f"{CONFIG_MAPS}/{n}", {"metadata": {"finalizers": ["example.com/x"]}}, MERGE
    ),
    "delete": lambda c, n, f: c.delete(f"{CONFIG_MAPS}/{n}"),
    "last finalizer": lambda c, n, f: c.patch(
        f"{CONFIG_MAPS}/{n}", {"metadata": {"finalizers": None}}, MERGE
    ),
    "gone": lambda c, n, f: c.get(f"{CONFIG_MAPS}/{n}"),
}


def test_answers_are_those_of_small_writes(shard: ServerProcess, cluster: TestClient) -> None:
    before = jobs(shard)
    for step, send in STEPS.items():
        small = send(cluster, "small", SMALL)
        large = send(cluster, "large", LARGE)
        assert shape(large, "large", LARGE) == shape(small, "small", SMALL), step
        assert large.header_all("warning") == small.header_all("warning"), step
    assert jobs(shard) >= before + 20


def test_a_yaml_body(cluster: TestClient) -> None:
    text = f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: text}}\ndata:\n  k: {LARGE}\n"
    made = cluster.post(CONFIG_MAPS, text.encode(), content_type="application/yaml")
    assert made.status == 201, made
    assert cluster.get(f"{CONFIG_MAPS}/text").json["data"]["k"] == LARGE


def test_what_is_small_by_nature_must_be_small(cluster: TestClient) -> None:
    """Options are read on the event loop, where long YAML would take seconds."""
    assert cluster.post(CONFIG_MAPS, config_map("kept", SMALL)).status == 201
    options = "{" + ", ".join(f"k{n}: [a, {{c: d}}]" for n in range(20_000)) + "}"
    for body, form in (
        (options, "application/yaml"),
        ("a: &a [x, x]\nb: [*a, *a]\n", "application/yaml"),
        (json.dumps({"dryRun": ["All"] * 20_000}), "application/json"),
    ):
        refused = cluster.request("DELETE", f"{CONFIG_MAPS}/kept", body, form)
        assert (refused.status, refused.json["reason"]) == (413, "RequestEntityTooLarge")
    kept = cluster.request("DELETE", f"{CONFIG_MAPS}/kept", "dryRun: [All]", "application/yaml")
    assert kept.status == 200, kept
    assert cluster.get(f"{CONFIG_MAPS}/kept").status == 200


def test_large_lists_in_other_forms(cluster: TestClient) -> None:
    """They are not held as a whole: protobuf is made by pages, and JSON is YAML, too."""
    names = [f"m{number:02}" for number in range(19)]
    for name in names:
        assert cluster.post(CONFIG_MAPS, config_map(name, "x" * 900_000)).status == 201

    def listed(accept: str, **query: Any) -> Any:
        reply = cluster.get(CONFIG_MAPS, headers={"Accept": accept}, **query)
        assert reply.status == 200, reply
        return reply

    for reply, form in (
        (listed("application/yaml"), "application/yaml"),
        (listed("application/json", pretty=1), "application/json"),
    ):
        assert reply.header("content-type") == form
        found = reply.json
        assert (found["kind"], found["apiVersion"]) == ("ConfigMapList", "v1")
        assert [item["metadata"]["name"] for item in found["items"]][-19:] == names
    encoded = listed("application/vnd.kubernetes.protobuf").body
    decoded = protobuf_form.decode(encoded)
    assert decoded is not None
    assert [item["metadata"]["name"] for item in decoded["items"]][-19:] == names
    assert decoded["metadata"]["resourceVersion"] == found["metadata"]["resourceVersion"]
    partial = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
    pretty = listed(partial, pretty=1).json
    assert [item["metadata"]["name"] for item in pretty["items"]][-19:] == names


def definition(count: int, **more: Any) -> dict[str, Any]:
    fields: dict[str, Any] = {
        f"f{i}": {"type": "string", "maxLength": 5, "description": "a field of a large schema"}
        for i in range(count)
    }
    spec = {
        "type": "object",
        "properties": {**fields, "size": {"type": "integer", "default": 3}},
        "x-kubernetes-validations": [{"rule": "self.size < 100", "message": "too large"}],
        **more,
    }
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}},
        "additionalPrinterColumns": [{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}],
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [version],
        },
    }


def widget(name: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "example.com/v1",
        "kind": "Widget",
        "metadata": {"name": name},
        "spec": spec,
    }


def test_a_kind_with_a_large_schema(shard: ServerProcess, cluster: TestClient) -> None:
    assert cluster.post(CRDS, definition(2000)).status == 201
    eventually(lambda: cluster.get(WIDGETS).status == 200)
    before = jobs(shard)
    made = cluster.post(WIDGETS, widget("a", f1="x", nosuch="y"))
    assert made.status == 201, made
    assert made.json["spec"] == {"f1": "x", "size": 3}
    assert "unknown field" in (made.header("warning") or "")
    assert jobs(shard) > before
    refused = cluster.post(WIDGETS, widget("b", f1="too long", size=100))
    assert refused.status == 422
    assert "spec.f1: Too long" in refused.json["message"]
    refused = cluster.post(WIDGETS, widget("b", size=100))
    assert "too large" in refused.json["message"]
    applied = cluster.patch(f"{WIDGETS}/a?fieldManager=m", widget("a", f2="z"), APPLY)
    assert applied.json["spec"] == {"f1": "x", "f2": "z", "size": 3}
    document = cluster.get("/openapi/v3/apis/example.com/v1").json
    shown = document["components"]["schemas"]["com.example.v1.Widget"]["properties"]["spec"]
    assert len(shown["properties"]) == 2001
    assert cluster.get("/openapi/v2").status == 200


def test_a_changed_large_schema_holds_for_what_is_stored(cluster: TestClient) -> None:
    """Reads, lists and watches show stored objects under the schema of today."""
    assert cluster.post(CRDS, definition(2000)).status == 201
    eventually(lambda: cluster.get(WIDGETS).status == 200)
    assert cluster.post(WIDGETS, widget("a", f1999="x")).status == 201
    live = cluster.get(f"{CRDS}/widgets.example.com").json
    spec = live["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    del spec["properties"]["f1999"]
    spec["properties"]["added"] = {"type": "string", "default": "new"}
    assert cluster.put(f"{CRDS}/widgets.example.com", live).status == 200
    wanted = {"size": 3, "added": "new"}
    eventually(lambda: cluster.get(f"{WIDGETS}/a").json["spec"] == wanted)
    assert cluster.get(WIDGETS).json["items"][0]["spec"] == wanted
    with contextlib.closing(cluster.watch(WIDGETS, resourceVersion="0")) as events:
        assert next(events)["object"]["spec"] == wanted


@pytest.mark.parametrize("size", [10, 2000])
def test_two_versions(cluster: TestClient, size: int) -> None:
    """Each version shows what its own schema knows, whatever its size."""
    crd = definition(size)
    first = crd["spec"]["versions"][0]
    second = json.loads(json.dumps(first))
    second |= {"name": "v2", "storage": False}
    fields = second["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    del fields["f1"]
    crd["spec"]["versions"].append(second)
    assert cluster.post(CRDS, crd).status == 201
    newer = WIDGETS.replace("/v1/", "/v2/")
    eventually(lambda: cluster.get(newer).status == 200)
    assert cluster.post(WIDGETS, widget("a", f1="x", f2="y")).status == 201
    shown = cluster.get(f"{newer}/a").json
    assert shown["apiVersion"] == "example.com/v2"
    assert shown["spec"] == {"f2": "y", "size": 3}
    made = cluster.post(newer, {**widget("b", f2="y"), "apiVersion": "example.com/v2"})
    assert made.status == 201, made
    assert made.json["apiVersion"] == "example.com/v2"
    assert cluster.get(f"{WIDGETS}/b").json["spec"] == {"f2": "y", "size": 3}
