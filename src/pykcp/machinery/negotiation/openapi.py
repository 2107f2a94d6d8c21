"""Structural schemas out of a server's OpenAPI documents, v3 or v2, for kinds that no CRD defines.

A structural schema holds no references, so every type is written out where it is used; a type that
contains itself has none. Types whose Go code reads and writes them in a form of their own are
replaced by what describes that form.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from pykcp.types import Object

_META = "io.k8s.apimachinery.pkg.apis.meta.v1."
_OBJECT_META = f"{_META}ObjectMeta"
_PRESERVE = "x-kubernetes-preserve-unknown-fields"
_INT_OR_STRING: Final[Object] = {
    "x-kubernetes-int-or-string": True,
    "anyOf": [{"type": "integer"}, {"type": "string"}],
}
_JSON: Final[Object] = {_PRESERVE: True}
_OPEN_OBJECT: Final[Object] = {"type": "object", _PRESERVE: True}
_TIME: Final[Object] = {"type": "string", "format": "date-time"}
_KNOWN: Final[Mapping[str, Object]] = {
    f"{_META}Time": _TIME,
    f"{_META}MicroTime": _TIME,
    f"{_META}Duration": {"type": "string"},
    f"{_META}FieldsV1": _OPEN_OBJECT,
    "io.k8s.apimachinery.pkg.api.resource.Quantity": _INT_OR_STRING,
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": _INT_OR_STRING,
    "io.k8s.apimachinery.pkg.runtime.RawExtension": _OPEN_OBJECT,
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSON": _JSON,
    # Labels and annotations of templates would be pruned if only known fields were kept.
    _OBJECT_META: _OPEN_OBJECT,
}
_COPIED: Final = (
    "description", "type", "format", "enum", "pattern", "minimum", "maximum", "exclusiveMinimum",
    "exclusiveMaximum", "multipleOf", "minLength", "maxLength", "minItems", "maxItems",
    "uniqueItems", "minProperties", "maxProperties", "nullable", _PRESERVE,
    "x-kubernetes-int-or-string", "x-kubernetes-embedded-resource", "x-kubernetes-map-type",
    "x-kubernetes-validations",
)  # fmt: skip
_PREFIXES: Final[tuple[str, ...]] = ("#/components/schemas/", "#/definitions/")
_PROTOCOL: Final = "protocol"


class Unconvertible(Exception):
    """A type that no structural schema describes."""


def models_of(document: Object) -> Mapping[str, Object]:
    """The types of an OpenAPI document of either version, by name."""
    models: Mapping[str, Object] = (document.get("components") or {}).get("schemas") or {}
    return models or document.get("definitions") or {}


def kinds_of_models(models: Mapping[str, Object]) -> Iterator[tuple[tuple[str, str, str], str]]:
    """Which type describes a kind: (group, version, kind) and its name."""
    for name, model in models.items():
        kinds: list[Object] = model.get("x-kubernetes-group-version-kind") or []
        if len(kinds) == 1:  # options and the like are of every group
            yield (kinds[0]["group"], kinds[0]["version"], kinds[0]["kind"]), name


def structural_schema(models: Mapping[str, Object], name: str) -> Object:
    """The schema of a kind. Raises Unconvertible."""
    schema = _Writer(models).node({"$ref": _PREFIXES[0] + name}, ())
    properties = dict(schema.get("properties") or {})
    if "metadata" in properties:
        properties["metadata"] = {"type": "object"}  # the server knows what is in it
    required = [word for word in schema.get("required") or () if word != "metadata"]
    out = {**schema, "type": "object", "properties": properties}
    if required:
        out["required"] = required
    else:
        out.pop("required", None)
    return out


class _Writer:
    def __init__(self, models: Mapping[str, Object]) -> None:
        self._models = models

    def node(self, node: Object, above: tuple[str, ...]) -> Object:
        """A node without references; `above`: the types that it is written inside of."""
        name = _reference(node)
        if name:
            return self._referenced(node, name, above)
        out: Object = {key: node[key] for key in _COPIED if key in node}
        if out.get("format") == "int-or-string":
            return _described(_INT_OR_STRING, node)
        if _has_meaning(node.get("default")):
            out["default"] = node["default"]
        if node.get("properties"):
            out["properties"] = {
                key: self.node(child, above) for key, child in node["properties"].items()
            }
        if node.get("required"):
            out["required"] = sorted(node["required"])
        self._additional(node, out, above)
        if out.get("type") == "array":
            self._items(node, out, above)
        if not out.get("type") and not out.get("x-kubernetes-int-or-string"):
            return _described(_JSON, node)  # no type is any value
        return out

    def _referenced(self, node: Object, name: str, above: tuple[str, ...]) -> Object:
        known = _KNOWN.get(name)
        if known is not None:
            return _described(known, node)
        if name in above:
            raise Unconvertible(f"the type {name} contains itself")
        model = self._models.get(name)
        if model is None:
            raise Unconvertible(f"the type {name} is not in the document")
        out = _described(self.node(model, (*above, name)), node)
        if _has_meaning(node.get("default")):
            out["default"] = node["default"]
        return out

    def _additional(self, node: Object, out: Object, above: tuple[str, ...]) -> None:
        additional = node.get("additionalProperties")
        if isinstance(additional, dict):
            out["additionalProperties"] = self.node(additional, above)
        elif additional:
            out[_PRESERVE] = True
        elif out.get("type") == "object" and not node.get("properties"):
            out[_PRESERVE] = True  # an object about which nothing is said

    def _items(self, node: Object, out: Object, above: tuple[str, ...]) -> None:
        items = self.node(node.get("items") or {}, above)
        kind, keys = _list_type(node, items)
        out["x-kubernetes-list-type"] = kind
        if keys:
            out["x-kubernetes-list-map-keys"] = keys
            items = _with_required(items, keys)
        out["items"] = items


def _reference(node: Object) -> str:
    """The type that a node refers to; v3 wraps references that have a description or a default."""
    wrapped = node.get("allOf")
    reference = node.get("$ref") or (
        wrapped[0].get("$ref") if isinstance(wrapped, list) and len(wrapped) == 1 else ""
    )
    for prefix in _PREFIXES:
        if reference and reference.startswith(prefix):
            return str(reference.removeprefix(prefix))
    return ""


def _described(known: Object, node: Object) -> Object:
    description = node.get("description")
    return {**known, "description": description} if description else dict(known)


def _has_meaning(default: object) -> bool:
    """Whether a default is more than the zero value of Go, which need not be written."""
    return default not in (None, "", 0, {}, []) or default is False


def _list_type(node: Object, items: Object) -> tuple[str, list[str]]:
    given = node.get("x-kubernetes-list-type")
    if given:
        return given, list(node.get("x-kubernetes-list-map-keys") or ())
    if "merge" not in str(node.get("x-kubernetes-patch-strategy", "")).split(","):
        return "atomic", []
    if items.get("type") != "object":
        return "set", []
    key = node.get("x-kubernetes-patch-merge-key")
    if key and key in (items.get("properties") or {}):
        return "map", [key]
    return "atomic", []


def _with_required(items: Object, keys: list[str]) -> Object:
    """Items of a list that is a map have their keys, or a default for them."""
    properties = dict(items.get("properties") or {})
    protocol = properties.get(_PROTOCOL)
    if _PROTOCOL in keys and protocol is not None and "default" not in protocol:
        # OpenAPI v2 tells no defaults; without this one ports would have to name their protocol.
        properties[_PROTOCOL] = {**protocol, "default": "TCP"}
        items = {**items, "properties": properties}
    missing = [key for key in keys if "default" not in (properties.get(key) or {})]
    return {**items, "required": sorted({*(items.get("required") or ()), *missing})}
