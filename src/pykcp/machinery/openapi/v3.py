"""OpenAPI v3 documents."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from pykcp.machinery.openapi import documents
from pykcp.machinery.openapi.components import GVK, Types
from pykcp.machinery.openapi.embedded import with_embedded
from pykcp.machinery.openapi.operations import Operation, Parameter
from pykcp.machinery.schema.definition import ResourceDefinition
from pykcp.machinery.schema.openapi_json import to_json, v3_reference
from pykcp.types import Object

CODES = {200: "OK", 201: "Created", 202: "Accepted"}

SECURITY = {
    "BearerToken": {
        "type": "apiKey",
        "description": "Bearer Token authentication",
        "name": "authorization",
        "in": "header",
    }
}


def group_versions(
    definitions: Sequence[ResourceDefinition], *, is_view: bool = False
) -> list[str]:
    """Names of the documents: `api/v1`, `apis/apps/v1`, `version`, …"""
    return documents.names(definitions, is_view=is_view)


def document(
    definitions: Sequence[ResourceDefinition], name: str, *, is_view: bool = False
) -> Object:
    """One document; KeyError if there is none of that name."""
    contents = documents.contents(definitions, name, is_view=is_view)
    components: Object = {}
    schemas = component_schemas(contents.types, referenced(contents.operations))
    if schemas:
        components["schemas"] = schemas
    if contents.custom:
        info = {"title": documents.CUSTOM_TITLE, "version": documents.CUSTOM_VERSION}
    else:
        info = {"title": documents.TITLE, "version": documents.VERSION}
        components["securitySchemes"] = SECURITY
    return {
        "openapi": "3.0.0",
        "info": info,
        "paths": paths_of(contents.operations, _operation, _parameter),
        "components": components,
    }


def referenced(operations: Iterable[Operation]) -> set[str]:
    """Components that the operations mention."""
    out: set[str] = set()
    for operation in operations:
        out.update(operation.responses.values())
        out.add(operation.body)
    out.discard("")
    return out


def component_schemas(types: Types, names: Iterable[str]) -> Object:
    """The schemas of these components and of all they refer to."""
    out: Object = {}
    for name, schema in types.closure(names).items():
        json = to_json(schema, v3_reference, root=True)
        if not schema.go_type:
            with_embedded(json, v3_reference)
        json.update(types.extensions(name))
        out[name] = json
    return out


def _shared_parameters(operations: Sequence[Operation]) -> set[str]:
    """Parameters that every operation on a path has; they are said once, for the path."""
    names = [{p.name for p in operation.parameters} for operation in operations]
    return set.intersection(*names) if names else set()


def _by_path(operations: Iterable[Operation]) -> dict[str, list[Operation]]:
    out: dict[str, list[Operation]] = {}
    for operation in operations:
        out.setdefault(operation.path, []).append(operation)
    return dict(sorted(out.items()))


def paths_of(
    operations: Iterable[Operation],
    describe: Callable[[Operation, set[str]], Object],
    parameter: Callable[[Parameter], Object],
) -> Object:
    """The paths of a document; `describe` leaves out the parameters that it is given."""
    out: Object = {}
    for path, here in _by_path(operations).items():
        shared = _shared_parameters(here)
        item: Object = {op.method: describe(op, shared) for op in here}
        common = [parameter(p) for p in here[0].parameters if p.name in shared]
        if common:
            item["parameters"] = common
        out[path] = item
    return out


def _operation(operation: Operation, shared: set[str]) -> Object:
    out: Object = {
        "tags": list(operation.tags),
        "description": operation.description,
        "operationId": operation.id,
    }
    own = [_parameter(p) for p in operation.parameters if p.name not in shared]
    if own:
        out["parameters"] = own
    if operation.body:
        body: Object = {"content": _content(operation.body, operation.consumes)}
        if operation.body_required:
            body["required"] = True
        out["requestBody"] = body
    out["responses"] = {
        **{str(code): _response(operation, code) for code in operation.responses},
        "401": {"description": "Unauthorized"},
    }
    if operation.action:
        out["x-kubernetes-action"] = operation.action
    if operation.gvk is not None:
        out[GVK] = operation.gvk
    return out


def _response(operation: Operation, code: int) -> Object:
    content = _content(operation.responses[code], operation.produces)
    return {"description": CODES[code], "content": content}


def _content(component: str, media_types: Iterable[str]) -> Object:
    schema: Any = {"$ref": f"#/components/schemas/{component}"} if component else {"type": "string"}
    return {media_type: {"schema": schema} for media_type in sorted(media_types)}


def _parameter(parameter: Parameter) -> Object:
    out: Object = {
        "name": parameter.name,
        "in": parameter.place,
        "description": parameter.description,
    }
    if parameter.place == "path":
        out["required"] = True
    out["schema"] = {"type": parameter.type, "uniqueItems": True}
    return out
