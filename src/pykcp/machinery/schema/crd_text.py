"""A CustomResourceDefinition read from its stored JSON, without its schemas if it is large.

Who looks for a resource, lists what a cluster serves or settles names does not need schemas,
and decoding a large one takes tens of milliseconds. So they are skipped, and how large they
are is kept instead.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec
import orjson

from pykcp.types import Object

WHOLE_UP_TO = 32 * 1024
"""Octets of a definition that is decoded as a whole."""
SIMPLE_UP_TO = 16 * 1024
LARGE_SCHEMA = 64 * 1024
"""The weight above which a schema is only compiled by worker processes."""
_RULE = 4096
"""What a CEL rule weighs: compiling it takes as long as so many octets of schema."""
_EXPRESSION_CHARACTER = 20
_EXPRESSION_WORDS = (b'"rule"', b'"messageExpression"')
_EXPRESSION = re.compile(rb'"(?:rule|messageExpression)":\s*"([^"\\]*(?:\\.[^"\\]*)*)"')


class CrdText(NamedTuple):
    crd: Object
    """As it is stored; versions have no schema unless `is_whole`."""
    is_whole: bool
    schemas: Mapping[str, bytes]
    """Of the versions; the whole definition if it `is_whole`."""
    spec: bytes
    """The text of a large definition's spec, which stands for its content."""

    def weights(self) -> dict[str, int]:
        """Of the versions' schemas."""
        known = {text: _weight(text) for text in set(self.schemas.values())}
        return {version: known[text] for version, text in self.schemas.items()}


def read_crd(value: bytes) -> CrdText:
    if len(value) <= WHOLE_UP_TO:
        crd: Object = orjson.loads(value)
        return CrdText(crd, True, {v["name"]: value for v in crd["spec"]["versions"]}, b"")
    outer = _outer.decode(value)
    spec = _spec.decode(outer.spec)
    schemas = {version.name: bytes(version.schema) for version in spec.versions}
    head: Object = {"metadata": outer.metadata, "spec": _as_json(spec)}
    if outer.status is not None:
        head["status"] = outer.status
    return CrdText(head, False, schemas, bytes(outer.spec))


def defined_resource(value: bytes) -> tuple[str, str]:
    """Group and plural of what a stored definition defines; nothing else of it is read."""
    spec = _names.decode(value).spec
    return spec.group, spec.names.plural


def schema_of(value: bytes, version: str) -> Object | None:
    """The schema of one version of a stored definition."""
    spec = _spec.decode(_outer.decode(value).spec)
    for candidate in spec.versions:
        if candidate.name == version:
            found: Object | None = (orjson.loads(bytes(candidate.schema)) or {}).get(
                "openAPIV3Schema"
            )
            return found
    return None


def _weight(text: bytes) -> int:
    rules = text.count(b'"rule":')
    if not rules:
        return len(text)
    length = sum(len(found[1]) for found in _EXPRESSION.finditer(text))
    return len(text) + _RULE * rules + _EXPRESSION_CHARACTER * length


def is_simple(text: bytes) -> bool:
    """Whether an object with schemas, in JSON, is small and takes no longer than a small schema.

    False where letters are escaped or colons are spaced, since rules would not be seen.
    """
    if not text or len(text) > SIMPLE_UP_TO or b"\\u" in text:
        return False
    has_spaces = any(text.count(word) != text.count(word + b":") for word in _EXPRESSION_WORDS)
    return not has_spaces and _weight(text) <= LARGE_SCHEMA


class _Version(msgspec.Struct, rename="camel"):
    name: str
    served: bool = True
    storage: bool = False
    deprecated: bool | None = None
    deprecation_warning: str | None = None
    schema: msgspec.Raw = msgspec.field(default_factory=lambda: msgspec.Raw(b"null"))
    subresources: Any = None
    additional_printer_columns: Any = None
    selectable_fields: Any = None


class _Spec(msgspec.Struct, rename="camel"):
    group: str
    names: Any
    scope: str
    versions: list[_Version]
    conversion: Any = None


class _Outer(msgspec.Struct):
    metadata: Any
    spec: msgspec.Raw
    status: Any = None


class _Plural(msgspec.Struct):
    plural: str


class _Named(msgspec.Struct):
    group: str
    names: _Plural


class _OnlyNames(msgspec.Struct):
    spec: _Named


_names = msgspec.json.Decoder(_OnlyNames)
_outer = msgspec.json.Decoder(_Outer)
_spec = msgspec.json.Decoder(_Spec)


_OPTIONAL = (
    ("deprecated", "deprecated"),
    ("deprecation_warning", "deprecationWarning"),
    ("subresources", "subresources"),
    ("additional_printer_columns", "additionalPrinterColumns"),
    ("selectable_fields", "selectableFields"),
)


def _as_json(spec: _Spec) -> Object:
    out: Object = {"group": spec.group, "names": spec.names, "scope": spec.scope}
    if spec.conversion is not None:
        out["conversion"] = spec.conversion
    out["versions"] = [_version_as_json(version) for version in spec.versions]
    return out


def _version_as_json(version: _Version) -> Object:
    out: Object = {"name": version.name, "served": version.served, "storage": version.storage}
    for attribute, name in _OPTIONAL:
        value = getattr(version, attribute)
        if value is not None:
            out[name] = value
    return out
