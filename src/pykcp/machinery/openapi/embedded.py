"""Published schemas of custom resources, completed with type and object metadata."""

from __future__ import annotations

from pykcp.machinery.openapi.operations import META
from pykcp.machinery.schema.kinds import STANDARD_TEXTS
from pykcp.machinery.schema.openapi_json import ReferenceWriter
from pykcp.types import Object

_PARTS = ("items", "additionalProperties", "not")
_API_VERSION = "apiVersion defines the group and version of the object."
_KIND = "kind is a string value that names the type of the object."


def with_embedded(json: Object, reference: ReferenceWriter) -> None:
    """Fill in, in place, the type fields of embedded objects and the types of int-or-strings."""
    for child in json.get("properties", {}).values():
        with_embedded(child, reference)
    for part in _PARTS:
        inner = json.get(part)
        if isinstance(inner, dict):
            with_embedded(inner, reference)
    if json.get("x-kubernetes-embedded-resource"):
        embed(json, reference)
    if json.get("x-kubernetes-int-or-string") and not {"anyOf", "allOf"} & json.keys():
        json["anyOf"] = [{"type": "integer"}, {"type": "string"}]


def embed(json: Object, reference: ReferenceWriter) -> None:
    """Say of an embedded object, in place, what every object has."""
    metadata = reference(f"{META}.ObjectMeta", {"description": STANDARD_TEXTS["metadata"]})
    json["properties"] = {
        **json.get("properties", {}),
        "apiVersion": {"type": "string", "description": _API_VERSION},
        "kind": {"type": "string", "description": _KIND},
        "metadata": metadata,
    }
    required = list(json.get("required", ()))
    json["required"] = required + [n for n in ("kind", "apiVersion") if n not in required]
