from __future__ import annotations

import orjson
import pytest

from pykcp.apis.catalog import all_definitions
from pykcp.machinery.openapi import v2, v3
from pykcp.machinery.openapi.gnostic import encode_document
from pykcp.types import Object

DEFINITIONS = all_definitions()
LEASES = "/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"


def v3_document(name: str) -> Object:
    document: Object = orjson.loads(orjson.dumps(v3.document(DEFINITIONS, name)))
    return document


def references(value: object) -> set[str]:
    if isinstance(value, dict):
        found = {v for k, v in value.items() if k == "$ref" and isinstance(v, str)}
        return found.union(*(references(v) for v in value.values()))
    if isinstance(value, list):
        return set().union(*(references(v) for v in value))
    return set()


def test_names_of_documents() -> None:
    names = v3.group_versions(DEFINITIONS)
    assert names == sorted(names)
    assert {"api", "api/v1", "apis", "version", "apis/coordination.k8s.io"} <= set(names)
    assert "apis/core.kcp.io/v1alpha1" in names
    assert "apis/core.kcp.io" not in names  # upstream has none for custom resources


def test_unknown_documents_are_unknown() -> None:
    for name in ("apis/nope/v1", "apis/core.kcp.io", "api/v2", "nope", "apis/a/b/c"):
        with pytest.raises(KeyError):
            v3.document(DEFINITIONS, name)


@pytest.mark.parametrize("name", v3.group_versions(DEFINITIONS))
def test_every_reference_leads_to_a_component(name: str) -> None:
    document = v3_document(name)
    schemas = document["components"].get("schemas", {})
    assert references(document) == {f"#/components/schemas/{n}" for n in schemas}


def test_operations_of_a_namespaced_resource() -> None:
    paths = v3_document("apis/coordination.k8s.io/v1")["paths"]
    watch = "/apis/coordination.k8s.io/v1/watch"
    assert list(paths) == [
        "/apis/coordination.k8s.io/v1/",
        "/apis/coordination.k8s.io/v1/leases",
        LEASES,
        f"{LEASES}/{{name}}",
        f"{watch}/leases",
        f"{watch}/namespaces/{{namespace}}/leases",
        f"{watch}/namespaces/{{namespace}}/leases/{{name}}",
    ]
    create = paths[LEASES]["post"]
    assert create["operationId"] == "createCoordinationV1NamespacedLease"
    assert create["x-kubernetes-action"] == "post"
    assert create["x-kubernetes-group-version-kind"] == {
        "group": "coordination.k8s.io",
        "version": "v1",
        "kind": "Lease",
    }
    assert sorted(create["responses"]) == ["200", "201", "202", "401"]
    assert [p["name"] for p in paths[LEASES]["parameters"]] == ["namespace", "pretty"]
    patch = paths[f"{LEASES}/{{name}}"]["patch"]
    assert "application/strategic-merge-patch+json" in patch["requestBody"]["content"]


def test_custom_resources_have_no_strategic_merge_and_no_watch_paths() -> None:
    paths = v3_document("apis/core.kcp.io/v1alpha1")["paths"]
    assert not any("/watch/" in path for path in paths)
    patch = paths["/apis/core.kcp.io/v1alpha1/logicalclusters/{name}"]["patch"]
    assert "application/strategic-merge-patch+json" not in patch["requestBody"]["content"]


def test_subresources_of_another_group() -> None:
    document = v3_document("api/v1")
    path = "/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
    operation = document["paths"][path]["post"]
    assert operation["operationId"] == "createCoreV1NamespacedServiceAccountToken"
    assert operation["x-kubernetes-group-version-kind"]["kind"] == "TokenRequest"
    assert "io.k8s.api.authentication.v1.TokenRequest" in document["components"]["schemas"]


def test_components_name_their_kinds() -> None:
    schemas = v3_document("api/v1")["components"]["schemas"]
    config_map = schemas["io.k8s.api.core.v1.ConfigMap"]
    assert config_map["x-kubernetes-group-version-kind"] == [
        {"group": "", "version": "v1", "kind": "ConfigMap"}
    ]
    options = schemas["io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"]
    groups = {k["group"] for k in options["x-kubernetes-group-version-kind"]}
    assert {"", "core.kcp.io", "rbac.authorization.k8s.io"} <= groups


def test_operation_ids_are_unique() -> None:
    ids = [
        operation["operationId"]
        for item in v2.document(DEFINITIONS)["paths"].values()
        for method, operation in item.items()
        if method != "parameters"
    ]
    assert len(ids) == len(set(ids))


def test_v2_is_one_document_without_what_it_cannot_say() -> None:
    document = orjson.loads(orjson.dumps(v2.document(DEFINITIONS)))
    definitions = document["definitions"]
    assert references(document) == {f"#/definitions/{name}" for name in definitions} | {
        f"#/parameters/{name}" for name in document["parameters"]
    }
    quantity = definitions["io.k8s.apimachinery.pkg.api.resource.Quantity"]
    assert quantity["type"] == "string"
    text = orjson.dumps(definitions)
    assert b'"default":{}' not in text
    assert b"oneOf" not in orjson.dumps(definitions["io.kcp.core.v1alpha1.LogicalCluster"])


def _fields(data: bytes) -> list[tuple[int, bytes | int]]:
    """A protobuf message, one level deep."""
    out: list[tuple[int, bytes | int]] = []
    at = 0

    def varint() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(data):
        key = varint()
        if key & 7 == 2:
            length = varint()
            out.append((key >> 3, data[at : at + length]))
            at += length
        elif key & 7 == 1:
            out.append((key >> 3, data[at : at + 8]))
            at += 8
        else:
            out.append((key >> 3, varint()))
    return out


def _message(data: bytes | int, *path: int) -> bytes | int:
    for number in path:
        assert isinstance(data, bytes)
        data = next(value for n, value in _fields(data) if n == number)
    return data


def test_the_protobuf_form_says_the_same() -> None:
    schema = {
        "type": "object",
        "description": "d",
        "required": ["a"],
        "properties": {
            "a": {"type": "integer", "minimum": 1.5, "maxLength": 300},
            "b": {"type": "object", "additionalProperties": {"$ref": "#/definitions/X"}},
        },
        "x-kubernetes-map-type": "atomic",
    }
    document = {
        "swagger": "2.0",
        "info": {"title": "T", "version": "V"},
        "paths": {
            "/x": {
                "get": {
                    "operationId": "getX",
                    "parameters": [{"name": "q", "in": "query", "type": "string"}],
                    "responses": {"200": {"description": "OK", "schema": schema}},
                }
            }
        },
        "definitions": {"X": schema},
    }
    data = encode_document(document)
    assert _message(data, 1) == b"2.0"
    assert _message(data, 2, 2) == b"V"
    assert _message(data, 8, 2, 1) == b"/x"
    operation = (8, 2, 2, 2)
    assert _message(data, *operation, 5) == b"getX"
    assert _message(data, *operation, 8, 1, 2, 3, 4) == b"q"
    assert _message(data, *operation, 9, 1, 1) == b"200"
    written = _message(data, 9, 1, 2)
    assert written == _message(data, *operation, 9, 1, 2, 1, 2, 1)
    assert _message(written, 4) == b"d"
    assert _message(written, 19) == b"a"
    assert _message(written, 22, 1) == b"object"
    assert _message(written, 25, 1, 1) == b"a"
    assert _message(written, 25, 1, 2, 11) == 300
    assert _message(written, 31, 1) == b"x-kubernetes-map-type"
    assert _message(written, 31, 2, 2) == b'"atomic"\n'


def test_the_whole_document_can_be_written_as_protobuf() -> None:
    data = v2.protobuf(v2.document(DEFINITIONS))
    assert {n for n, _ in _fields(data)} == {1, 2, 8, 9, 10, 12, 13}


def test_a_reference_to_a_parameter_as_protobuf() -> None:
    parameter = {"name": "q", "in": "query", "type": "string"}
    item = {"get": {"parameters": [{"$ref": "#/parameters/q-1"}]}}
    data = encode_document({"paths": {"/x": item}, "parameters": {"q-1": parameter}})
    assert _message(data, 8, 2, 2, 2, 8, 2, 1) == b"#/parameters/q-1"
    assert _message(data, 10, 1, 1) == b"q-1"
    assert _message(data, 10, 1, 2, 2, 3, 4) == b"q"


def test_v2_says_parameters_once() -> None:
    document = v2.document(DEFINITIONS)
    shared = document["parameters"]
    assert list(shared) == sorted(shared)
    assert {"labelSelector", "namespace", "pretty", "shardSelector"} <= {
        p["name"] for p in shared.values()
    }
    assert not {"name", "dryRun", "fieldValidation"} & {p["name"] for p in shared.values()}
    bodies = [p["schema"]["$ref"] for p in shared.values() if p["in"] == "body"]
    assert sorted(ref.rpartition(".")[2] for ref in bodies) == ["DeleteOptions", "Patch"]
    item = document["paths"][f"{LEASES}/{{name}}"]
    put = item["put"]["parameters"]
    assert put[0]["schema"]["$ref"].endswith("coordination.v1.Lease")
    assert [p.get("name") for p in put] == ["body", "dryRun", None, "fieldValidation"]
    assert put[2]["$ref"].startswith("#/parameters/fieldManager-")
    assert [p.get("name") for p in item["parameters"]] == ["name", None, None]


@pytest.mark.parametrize(
    ("path", "method"),
    [
        (LEASES, "get"),
        (LEASES, "delete"),
        ("/apis/coordination.k8s.io/v1/leases", ""),
        ("/apis/coordination.k8s.io/v1/watch/namespaces/{namespace}/leases/{name}", ""),
    ],
)
def test_lists_and_watches_may_be_sharded(path: str, method: str) -> None:
    item = v3_document("apis/coordination.k8s.io/v1")["paths"][path]
    # what all methods of a path take is said for the path
    described = item[method] if method else item
    assert "shardSelector" in [p["name"] for p in described["parameters"]]
