"""The OpenAPI v2 document: everything in one, for clients that know nothing newer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pykcp.machinery.openapi import documents
from pykcp.machinery.openapi.components import GVK, Types
from pykcp.machinery.openapi.embedded import embed
from pykcp.machinery.openapi.operations import Operation, Parameter
from pykcp.machinery.openapi.shared_parameters import SharedParameters
from pykcp.machinery.openapi.v3 import CODES, SECURITY, paths_of, referenced
from pykcp.machinery.schema.definition import ResourceDefinition
from pykcp.machinery.schema.openapi_json import to_json, v2_reference
from pykcp.types import Object


def document(definitions: Sequence[ResourceDefinition]) -> Object:
    contents = documents.everything(definitions)
    shared = SharedParameters()
    return {
        "swagger": "2.0",
        "info": {"title": documents.TITLE, "version": documents.VERSION},
        "paths": _paths(contents.operations, shared),
        "definitions": _definitions(contents.types, referenced(contents.operations)),
        "parameters": shared.definitions(),
        "securityDefinitions": SECURITY,
        "security": [{"BearerToken": []}],
    }


def protobuf(made: Object) -> bytes:
    """A document in the protobuf form that kubectl asks for."""
    from pykcp.machinery.openapi.gnostic import encode_document

    return encode_document(made)


def _definitions(types: Types, names: Iterable[str]) -> Object:
    out: Object = {}
    for name, schema in types.closure(names).items():
        json = to_json(schema, v2_reference, root=True)
        if schema.codec in _V2_STRINGS:
            json = {"description": schema.description, "type": "string"}
            if schema.format:
                json["format"] = schema.format
        is_custom = not schema.go_type
        if is_custom and json.get("x-kubernetes-preserve-unknown-fields"):
            json = {"type": "object"}  # readers would take what is listed for all there is
        simplify(json, custom=is_custom)
        json.update(types.extensions(name))
        out[name] = json
    return out


_V2_STRINGS = frozenset(("quantity", "int-or-string"))
"""Types of several JSON types, which v2 cannot say."""


def simplify(json: Object, *, custom: bool) -> None:
    """Drop, in place, what v2 cannot say, or what its readers make mistakes over."""
    json.pop("default", None)
    for keyword in ("oneOf", "anyOf", "allOf", "not"):
        json.pop(keyword, None)
    if custom and (json.pop("nullable", False) or json.get("x-kubernetes-preserve-unknown-fields")):
        for keyword in ("type", "items", "properties", "additionalProperties", "required"):
            json.pop(keyword, None)
    for child in json.get("properties", {}).values():
        simplify(child, custom=custom)
    for part in ("items", "additionalProperties"):
        inner = json.get(part)
        if isinstance(inner, dict):
            simplify(inner, custom=custom)
    if custom and json.get("x-kubernetes-embedded-resource") and "type" in json:
        embed(json, v2_reference)


def _paths(operations: Iterable[Operation], shared: SharedParameters) -> Object:
    return paths_of(
        operations,
        lambda operation, common: _operation(operation, common, shared),
        lambda parameter: shared.place(_parameter(parameter)),
    )


def _operation(operation: Operation, common: set[str], shared: SharedParameters) -> Object:
    out: Object = {
        "description": operation.description,
        "consumes": list(operation.consumes),
        "produces": list(operation.produces),
        "schemes": ["https"],
        "tags": list(operation.tags),
        "operationId": operation.id,
    }
    parameters = [_parameter(p) for p in operation.parameters if p.name not in common]
    if operation.body:
        parameters.insert(0, _body(operation))
    if parameters:
        out["parameters"] = [shared.place(p) for p in parameters]
    out["responses"] = {
        **{str(code): _response(operation, code) for code in operation.responses},
        "401": {"description": "Unauthorized"},
    }
    if operation.action:
        out["x-kubernetes-action"] = operation.action
    if operation.gvk is not None:
        out[GVK] = operation.gvk
    return out


def _body(operation: Operation) -> Object:
    body: Object = {"name": "body", "in": "body"}
    if operation.body_required:
        body["required"] = True
    return {**body, "schema": {"$ref": f"#/definitions/{operation.body}"}}


def _response(operation: Operation, code: int) -> Object:
    component = operation.responses[code]
    schema = {"$ref": f"#/definitions/{component}"} if component else {"type": "string"}
    return {"description": CODES[code], "schema": schema}


def _parameter(parameter: Parameter) -> Object:
    out: Object = {
        "uniqueItems": True,
        "type": parameter.type,
        "description": parameter.description,
        "name": parameter.name,
        "in": parameter.place,
    }
    if parameter.place == "path":
        out["required"] = True
    return out
