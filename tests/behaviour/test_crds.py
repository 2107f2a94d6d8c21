"""Custom resources: from their definition to their end."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from pykcp.testing.client import APPLY, JSON_PATCH, MERGE, TestClient, eventually
from pykcp.testing.clusters import make_cluster
from pykcp.testing.server import ServerProcess

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
WIDGETS = "/apis/example.com/v1/namespaces/default/widgets"
SPEC: dict[str, Any] = {
    "type": "object",
    "properties": {
        "size": {"type": "integer", "minimum": 1, "default": 3},
        "title": {"type": "string", "maxLength": 5},
        "replicas": {"type": "integer"},
        "parts": {"type": "object", "properties": {"a": {"type": "string"}}},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    },
    "x-kubernetes-validations": [
        {"rule": "self.size < 100", "message": "size must stay below 100"},
        {
            "rule": "!has(oldSelf.title) || has(self.title)",
            "message": "title may not be taken away",
        },
    ],
}


def version(name: str, *, storage: bool = True, **more: Any) -> dict[str, Any]:
    schema = {
        "type": "object",
        "properties": {"spec": SPEC, "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
    }  # fmt: skip
    return {
        "name": name, "served": True, "storage": storage, "schema": {"openAPIV3Schema": schema},
        "additionalPrinterColumns": [{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}],
        **more,
    }  # fmt: skip


def definition(*versions: dict[str, Any]) -> dict[str, Any]:
    return {
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget", "shortNames": ["w"]},
            "versions": list(versions or (version("v1"),)),
        },
    }


def define(cluster: TestClient, *versions: dict[str, Any]) -> None:
    made = cluster.post(CRDS, definition(*versions))
    assert made.status == 201, made
    eventually(lambda: cluster.get(WIDGETS).status == 200)


def widget(name: str = "w", api: str = "v1", **spec: Any) -> dict[str, Any]:
    return {"apiVersion": f"example.com/{api}", "kind": "Widget", "metadata": {"name": name}, "spec": spec}  # fmt: skip


def test_a_definition_is_established_fast(cluster: TestClient) -> None:
    """Within a second it is accepted, established and served."""
    began = time.monotonic()
    cluster.post(CRDS, definition())

    def conditions() -> dict[str, str]:
        found = cluster.get(f"{CRDS}/widgets.example.com").json.get("status", {})
        return {c["type"]: c["status"] for c in found.get("conditions") or ()}

    eventually(lambda: conditions().get("Established") == "True")
    assert conditions()["NamesAccepted"] == "True"
    eventually(lambda: cluster.post(WIDGETS, widget()).status == 201)
    assert time.monotonic() - began < 5


def test_discovery_and_openapi_follow(cluster: TestClient) -> None:
    """Clients find the new kind as soon as it is served, and no longer when it is gone."""
    assert "example.com" not in cluster.get("/apis").body.decode()
    define(cluster)
    resources = cluster.get("/apis/example.com/v1").json["resources"]
    assert {r["name"] for r in resources} == {"widgets"}
    assert resources[0]["shortNames"] == ["w"]
    document = cluster.get("/openapi/v3/apis/example.com/v1").json
    assert "com.example.v1.Widget" in document["components"]["schemas"]
    assert "com.example.v1.Widget" in cluster.get("/openapi/v2").json["definitions"]
    cluster.delete(f"{CRDS}/widgets.example.com")
    eventually(lambda: cluster.get("/apis/example.com/v1").status == 404)
    assert "example.com" not in cluster.get("/apis").body.decode()


def test_defaults_and_pruning(cluster: TestClient) -> None:
    """Defaults are filled in, unknown fields are dropped (and told), free ones are kept."""
    define(cluster)
    reply = cluster.post(WIDGETS, widget(nosuch=1, free={"any": "thing"}))
    assert reply.json["spec"] == {"size": 3, "free": {"any": "thing"}}
    assert reply.header_all("warning") == ['299 - "unknown field \\"spec.nosuch\\""']
    refused = cluster.post(WIDGETS, widget("x", nosuch=1), fieldValidation="Strict")
    assert refused.status == 400
    assert 'strict decoding error: unknown field "spec.nosuch"' in refused.json["message"]


def test_validation(cluster: TestClient) -> None:
    """Types, limits and CEL rules, each with its path and text."""
    define(cluster)

    def refusal(**spec: Any) -> str:
        reply = cluster.post(WIDGETS, widget(**spec))
        assert reply.status == 422, reply
        text: str = reply.json["message"]
        return text

    assert refusal(size=0) == (
        'Widget.example.com "w" is invalid: spec.size: Invalid value: 0: '
        "spec.size in body should be greater than or equal to 1"
    )
    assert 'spec.size: Invalid value: "string": spec.size in body must be of type integer' in refusal(size="x")  # fmt: skip
    assert "spec.title: Too long: may not be more than 5 bytes" in refusal(title="toolong")
    assert "size must stay below 100" in refusal(size=100)
    cluster.post(WIDGETS, widget(title="a"))
    reply = cluster.patch(f"{WIDGETS}/w", {"spec": {"title": None}})
    assert (reply.status, "title may not be taken away" in reply.json["message"]) == (422, True)


def test_tables_have_the_definitions_columns(cluster: TestClient) -> None:
    """Name, the columns of the definition, and nothing made up."""
    define(cluster)
    cluster.post(WIDGETS, widget(size=7))
    accept = "application/json;as=Table;v=v1;g=meta.k8s.io"
    table = cluster.get(WIDGETS, accept=accept).json
    assert [c["name"] for c in table["columnDefinitions"]] == ["Name", "Size"]
    assert table["rows"][0]["cells"] == ["w", 7]


@pytest.fixture
def scaled(cluster: TestClient) -> str:
    """An object with two replicas."""
    paths = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
    define(cluster, version("v1", subresources={"scale": paths}))
    assert cluster.post(WIDGETS, widget(replicas=2)).status == 201
    return f"{WIDGETS}/w"


def test_status_and_scale(cluster: TestClient) -> None:
    """Subresources change their part only; scale is read and written as a Scale."""
    subresources = {
        "status": {},
        "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"},
    }
    define(cluster, version("v1", subresources=subresources))
    body = {**widget(replicas=2), "status": {"replicas": 9}}
    assert "status" not in cluster.post(WIDGETS, body).json
    changed = cluster.patch(f"{WIDGETS}/w/status", {"status": {"replicas": 1}, "spec": {"size": 9}})
    assert (changed.json["status"], changed.json["spec"]["size"]) == ({"replicas": 1}, 3)
    scale = cluster.get(f"{WIDGETS}/w/scale").json
    assert (scale["kind"], scale["spec"], scale["status"]["replicas"]) == ("Scale", {"replicas": 2}, 1)  # fmt: skip
    assert cluster.put(f"{WIDGETS}/w/scale", {**scale, "spec": {"replicas": 5}}).status == 200
    found = cluster.get(f"{WIDGETS}/w").json
    assert found["spec"]["replicas"] == 5
    assert found["metadata"]["generation"] == 2


@pytest.mark.parametrize(
    ("patch", "strict", "status"),
    [
        ({"spec": {"replicas": 5}}, "", 200),
        ({"spec": {"replicas": "x"}}, "", 422),
        ({"spec": {"replicas": 1.5}}, "", 422),
        ({"spec": {"replicas": 10**12}}, "", 422),
        ({"spec": []}, "", 422),
        ({"metadata": {"labels": "x"}}, "", 422),
        ({"kind": "X"}, "", 422),
        ({"apiVersion": "v1"}, "", 422),
        ({"metadata": {"name": "other"}}, "", 400),
        ({"metadata": None}, "", 400),
        ({"spec": {"replicas": 5, "x": 1}}, "", 200),
        ({"spec": {"replicas": 5, "x": 1}}, "Strict", 422),
        ([{"op": "replace", "path": "/spec/replicas", "value": True}], "", 422),
        ([{"op": "replace", "path": "/spec/replicas", "value": 6}], "", 200),
    ],
)
def test_patches_of_a_scale(
    scaled: str, cluster: TestClient, patch: Any, strict: str, status: int
) -> None:
    """What the patch makes of the scale must be a Scale of the same name."""
    form = JSON_PATCH if isinstance(patch, list) else MERGE
    query = {"fieldValidation": strict} if strict else {}
    reply = cluster.patch(f"{scaled}/scale", patch, form, **query)
    assert reply.status == status, reply


@pytest.mark.parametrize("padding", [0, 600_000])
def test_what_a_patch_of_a_scale_says_in_vain_is_warned_of(
    cluster: TestClient, padding: int
) -> None:
    paths = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
    define(cluster, version("v1", subresources={"scale": paths}))
    notes = {"annotations": {"note": "x" * min(padding, 200_000)}}
    widget = {"metadata": {"name": "w", **notes}, "spec": {"replicas": 1}}
    head = {"apiVersion": "example.com/v1", "kind": "Widget"}
    assert cluster.patch(f"{WIDGETS}/w", {**head, **widget}, APPLY, fieldManager="me").status == 201
    reply = cluster.patch(f"{WIDGETS}/w/scale", {"spec": {"nosuch": 1}}, MERGE)
    assert (reply.status, reply.header_all("warning")) == (
        200,
        ['299 - "unknown field \\"spec.nosuch\\""'],
    )
    text = '{"apiVersion":"autoscaling/v1","kind":"Scale","metadata":{"name":"w"},"spec":{"replicas":1,"replicas":1}}'  # fmt: skip
    reply = cluster.patch(f"{WIDGETS}/w/scale", text, APPLY, fieldManager="me")
    assert (reply.status, reply.header_all("warning")) == (
        200,
        ['299 - "line 1: key \\"replicas\\" already set in map"'],
    )
    missing = cluster.patch(f"{WIDGETS}/none/scale", "{:", APPLY, fieldManager="me")
    assert (missing.status, missing.json["reason"]) == (404, "NotFound")


def test_apply_through_scale(cluster: TestClient) -> None:
    """Appliers of a scale share the number, conflict about it, and are recorded in the object."""
    paths = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
    define(cluster, version("v1", subresources={"scale": paths}))
    cluster.post(WIDGETS, widget(replicas=2), fieldManager="maker")

    def apply(replicas: int | None, manager: str, **query: str) -> Any:
        spec = {} if replicas is None else {"spec": {"replicas": replicas}}
        scale = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "w"}}
        sent = {**scale, **spec}
        return cluster.patch(f"{WIDGETS}/w/scale", sent, APPLY, fieldManager=manager, **query)

    conflict = apply(3, "a")
    assert (conflict.status, conflict.json["details"]["causes"][0]["message"]) == (
        409,
        'conflict with "maker" using autoscaling/v1',
    )
    assert apply(2, "a").json["spec"] == {"replicas": 2}
    assert apply(2, "b").json["spec"] == {"replicas": 2}
    found = cluster.get(f"{WIDGETS}/w").json
    owners = {e["manager"]: e for e in found["metadata"]["managedFields"]}
    for manager in ("a", "b"):
        assert (owners[manager]["operation"], owners[manager]["subresource"]) == ("Apply", "scale")
        assert owners[manager]["fieldsV1"] == {"f:spec": {"f:replicas": {}}}
    assert apply(None, "b").json["spec"] == {"replicas": 2}
    found = cluster.get(f"{WIDGETS}/w").json
    assert "b" not in {e["manager"] for e in found["metadata"]["managedFields"]}
    refused = apply("many", "a")  # type: ignore[arg-type]
    assert "expected numeric (int or float), got string" in refused.json["message"]
    refused = apply(3, "a", force="true")
    assert refused.json["message"].startswith("failed to convert new object (/w; autoscaling/v1")


@pytest.mark.parametrize(
    "config",
    [
        {"apiVersion": "autoscaling/v2", "kind": "Scale"},
        {"apiVersion": "autoscaling/v1", "kind": "Widget"},
        {"apiVersion": "v1", "kind": "Scale"},
        {},
    ],
)
def test_what_is_applied_to_a_scale_is_a_scale(
    scaled: str, cluster: TestClient, config: dict[str, str]
) -> None:
    sent = {**config, "metadata": {"name": "w"}, "spec": {"replicas": 2}}
    reply = cluster.patch(f"{scaled}/scale", sent, APPLY, fieldManager="a")
    assert (reply.status, reply.json["message"].partition(":")[0]) == (400, "invalid object type")


@pytest.mark.parametrize(("strict", "status"), [("Strict", 400), ("Warn", 200), ("Ignore", 200)])
def test_unknown_fields_of_a_scale(
    scaled: str, cluster: TestClient, strict: str, status: int
) -> None:
    scale = {"metadata": {"name": "w"}, "spec": {"replicas": 5, "x": 1}}
    reply = cluster.put(f"{scaled}/scale", scale, fieldValidation=strict)
    assert reply.status == status, reply
    assert cluster.get(scaled).json["spec"]["replicas"] == (2 if status == 400 else 5)


@pytest.mark.parametrize(
    ("patch", "message"),
    [
        ({"kind": None}, "Object 'Kind' is missing in '{"),
        ([{"op": "remove", "path": "/kind"}], "Object 'Kind' is missing in '{"),
        ([{"op": "replace", "path": "", "value": {}}], "Object 'Kind' is missing in '{}'"),
        ({"metadata": {"resourceVersion": None}}, "must be specified for an update"),
        ({"metadata": {"resourceVersion": ""}}, "must be specified for an update"),
        ({"metadata": {"resourceVersion": "0"}}, "must be specified for an update"),
        (
            [{"op": "remove", "path": "/metadata/resourceVersion"}],
            "must be specified for an update",
        ),
    ],
)
def test_patches_that_take_away_what_is_needed(
    cluster: TestClient, patch: Any, message: str
) -> None:
    define(cluster)
    cluster.post(WIDGETS, widget(size=4))
    form = JSON_PATCH if isinstance(patch, list) else MERGE
    reply = cluster.patch(f"{WIDGETS}/w", patch, form)
    assert (reply.status, message in reply.json["message"]) == (422, True), reply


def test_whole_numbers_anywhere(cluster: TestClient) -> None:
    """A number without a fraction is an integer, also where the schema says nothing."""
    define(cluster)
    free = '{"a": 1.0, "b": [2.0, {"c": 1e2, "d": -0.0}], "e": {"f": {"g": 3.0}}, "h": 1.5}'
    whole = b'{"a":1,"b":[2,{"c":100,"d":0}],"e":{"f":{"g":3}},"h":1.5}'
    made = '{"kind": "Widget", "apiVersion": "example.com/v1", "metadata": {"name": "w"}, "spec": {"free": %s}}'
    assert whole in cluster.post(WIDGETS, made % free).body
    assert cluster.delete(f"{WIDGETS}/w").status == 200
    cluster.post(WIDGETS, widget(size=4))
    for form, sent in (
        (MERGE, '{"spec": {"free": %s}}'),
        (JSON_PATCH, '[{"op": "replace", "path": "/spec/free", "value": %s}]'),
        (APPLY, made),
    ):
        query = {"fieldManager": "a", "force": "true"} if form == APPLY else {}
        reply = cluster.patch(f"{WIDGETS}/w", sent % free, form, **query)
        assert (reply.status, whole in reply.body) == (200, True), reply
        cluster.patch(f"{WIDGETS}/w", {"spec": {"free": None}})


def test_nulls_that_an_apply_leaves(cluster: TestClient) -> None:
    """Where no type is named null passes validation, but storage does not keep it."""
    v1 = version("v1")
    spec = v1["schema"]["openAPIV3Schema"]["properties"]["spec"]
    any_value = {"x-kubernetes-preserve-unknown-fields": True}
    properties = {**spec["properties"], "any": any_value}
    v1["schema"]["openAPIV3Schema"]["properties"]["spec"] = {**spec, "properties": properties}
    define(cluster, v1)
    sent = widget(any=None, free={"x": None})
    reply = cluster.patch(f"{WIDGETS}/w", sent, APPLY, fieldManager="a")
    assert (reply.status, reply.json["spec"]) == (201, {"size": 3, "free": {"x": None}})
    owned = reply.json["metadata"]["managedFields"][0]["fieldsV1"]["f:spec"]
    assert "f:any" in owned
    assert cluster.patch(f"{WIDGETS}/w", sent, APPLY, fieldManager="b").status == 409


def test_an_apply_that_empties_a_map(cluster: TestClient) -> None:
    """It stays, without members."""
    define(cluster)
    path, query = f"{WIDGETS}/w", {"fieldManager": "a"}
    assert cluster.patch(path, widget(parts={"a": "1"}), APPLY, **query).status == 201
    emptied = cluster.patch(path, widget(parts={}), APPLY, **query)
    assert (emptied.status, emptied.json["spec"]["parts"]) == (200, {})
    assert "parts" not in cluster.patch(path, widget(), APPLY, **query).json["spec"]


def test_versions(cluster: TestClient) -> None:
    """One object under each served version; the storage version decides how it is kept."""
    define(cluster, version("v1"), version("v2", storage=False))
    cluster.post(WIDGETS, widget(size=4))
    newer = cluster.get(WIDGETS.replace("/v1/", "/v2/") + "/w").json
    assert (newer["apiVersion"], newer["spec"]) == ("example.com/v2", {"size": 4})
    group = cluster.get("/apis/example.com").json
    assert [v["version"] for v in group["versions"]] == ["v2", "v1"]
    stored = cluster.get(f"{CRDS}/widgets.example.com").json["status"]["storedVersions"]
    assert stored == ["v1"]
    body = cluster.get(f"{CRDS}/widgets.example.com").json
    body["spec"]["versions"][1]["served"] = False
    assert cluster.put(f"{CRDS}/widgets.example.com", body).status == 200
    eventually(lambda: cluster.get(WIDGETS.replace("/v1/", "/v2/")).status == 404)


def test_apply(cluster: TestClient) -> None:
    """Server-side apply works on custom resources by their schema."""
    define(cluster)
    one = cluster.patch(f"{WIDGETS}/w", widget(size=5), APPLY, fieldManager="one")
    assert one.status == 201
    two = cluster.patch(f"{WIDGETS}/w", widget(size=6), APPLY, fieldManager="two")
    assert (two.status, 'conflict with "one"' in two.json["message"]) == (409, True)


def test_deletion_takes_objects_and_ends_watches(cluster: TestClient) -> None:
    """Its objects are deleted, watchers are told and let go, and the path is gone."""
    define(cluster)
    cluster.post(WIDGETS, widget())
    events = cluster.watch(WIDGETS)
    assert next(events)["type"] == "ADDED"
    rest: list[dict[str, Any]] = []
    reader = threading.Thread(target=lambda: rest.extend(events))
    reader.start()
    assert cluster.delete(f"{CRDS}/widgets.example.com").status == 200
    reader.join(20)
    assert not reader.is_alive()
    assert [e["type"] for e in rest][:1] == ["DELETED"]
    eventually(lambda: cluster.get(f"{CRDS}/widgets.example.com").status == 404)
    assert cluster.get(WIDGETS).status == 404
    define(cluster)
    assert cluster.get(WIDGETS).json["items"] == []


def test_the_same_name_in_two_clusters(shard: ServerProcess) -> None:
    """Each cluster has its own definition, schema and objects; a third has none."""
    one, two, three = (make_cluster(shard, f"crd-iso{n}") for n in range(3))
    define(one)
    other = version("v1")
    other["schema"]["openAPIV3Schema"]["properties"]["spec"] = {
        "type": "object", "properties": {"colour": {"type": "string", "default": "red"}},
    }  # fmt: skip
    define(two, other)
    assert one.post(WIDGETS, widget()).json["spec"] == {"size": 3}
    assert two.post(WIDGETS, widget()).json["spec"] == {"colour": "red"}
    assert three.get(WIDGETS).status == 404
    one.delete(f"{CRDS}/widgets.example.com")
    eventually(lambda: one.get(WIDGETS).status == 404)
    assert two.get(f"{WIDGETS}/w").json["spec"] == {"colour": "red"}


def test_definitions_that_are_refused(cluster: TestClient) -> None:
    """A name that does not fit, a schema that is not structural, a rule that does not compile."""
    body = definition()
    body["metadata"]["name"] = "other.example.com"
    assert 'must be spec.names.plural+"."+spec.group' in cluster.post(CRDS, body).json["message"]
    body = definition()
    body["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = {"type": "string"}
    assert cluster.post(CRDS, body).status == 422
    bad = version("v1")
    bad["schema"]["openAPIV3Schema"] = {
        "type": "object", "x-kubernetes-validations": [{"rule": "self.nosuch > 1"}],
    }  # fmt: skip
    reply = cluster.post(CRDS, definition(bad))
    assert (reply.status, "undefined field 'nosuch'" in reply.json["message"]) == (422, True)


def test_rules_are_not_run_on_an_object_without_a_name(cluster: TestClient) -> None:
    """A missing name is one of the errors for which upstream leaves the rules out."""
    define(cluster, version("v1"))
    nameless = {"apiVersion": "example.com/v1", "kind": "Widget", "spec": {"size": 100}}
    reply = cluster.post(WIDGETS, nameless)
    assert (reply.status, [cause["field"] for cause in reply.json["details"]["causes"]]) == (
        422,
        ["metadata.name", "<nil>"],
    )
    assert "some validation rules were not checked" in reply.json["message"]


def test_openapi_of_objects_as_tools_look_for_it(cluster: TestClient) -> None:
    """Openings of descriptions that tools rely on; a type that preserves everything is plain."""
    free = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    define(
        cluster,
        version("v1"),
        version("v2", storage=False, schema={"openAPIV3Schema": {**free, "description": "Free."}}),
    )
    found = cluster.get("/openapi/v2").json["definitions"]
    plain = found["com.example.v2.Widget"]
    assert plain.pop("x-kubernetes-group-version-kind")
    assert plain == {"type": "object"}
    newer = cluster.get("/openapi/v3/apis/example.com/v1").json["components"]["schemas"]
    for schemas in (found, newer):
        for name in ("Widget", "WidgetList"):
            texts = {
                field: schemas[f"com.example.v1.{name}"]["properties"][field]["description"]
                for field in ("apiVersion", "kind", "metadata")
            }
            assert texts["apiVersion"].startswith("APIVersion defines")
            assert texts["kind"].startswith("Kind is a string value")
            assert texts["metadata"].startswith("Standard ")
