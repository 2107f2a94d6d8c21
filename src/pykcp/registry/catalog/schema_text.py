"""APIResourceSchemas in their stored JSON: what they define, before they are bound.

A view has many of them, each may be as large as a request, and of most only the name matters.
So nothing more is decoded, the text is read again when it is needed, and a schema that nobody
binds is read as the CustomResourceDefinition that it would become: a large one is compiled by
worker processes like any other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from pykcp.machinery.schema.crd import KUBERNETES_KIND
from pykcp.types import Object

_COPIED = (
    "name",
    "served",
    "storage",
    "deprecated",
    "deprecationWarning",
    "subresources",
    "additionalPrinterColumns",
    "selectableFields",
)
_NO_SCHEMA = msgspec.Raw(b"{}")


@dataclass(frozen=True, slots=True)
class SchemaText:
    """A schema, and how to read its text."""

    uid: str
    group: str
    plural: str
    versions: tuple[str, ...]
    """The served ones."""
    read: Callable[[], bytes]


class _Metadata(msgspec.Struct):
    uid: str = ""
    annotations: dict[str, str] | None = None


class _Names(msgspec.Struct):
    plural: str


class _Version(msgspec.Struct):
    name: str
    served: bool = True


class _Spec(msgspec.Struct):
    names: _Names
    versions: tuple[_Version, ...]
    group: str = ""


class _Head(msgspec.Struct):
    metadata: _Metadata
    spec: _Spec


class _WholeSpec(msgspec.Struct):
    names: msgspec.Raw
    scope: str
    versions: tuple[dict[str, msgspec.Raw], ...]
    group: str = ""


class _Whole(msgspec.Struct):
    metadata: _Metadata
    spec: _WholeSpec


_decode_head = msgspec.json.Decoder(_Head).decode
_decode_whole = msgspec.json.Decoder(_Whole).decode


def schema_text(read: Callable[[], bytes]) -> SchemaText:
    head = _decode_head(read())
    spec = head.spec
    served = tuple(version.name for version in spec.versions if version.served)
    return SchemaText(head.metadata.uid, spec.group, spec.names.plural, served, read)


def as_definition(text: bytes) -> bytes:
    """The definition that a schema stands for, in JSON; schemas are copied, not decoded.

    Without conversion: nothing is stored while nobody binds the schema.
    """
    schema = _decode_whole(text)
    annotations = schema.metadata.annotations or {}
    kept = {k: v for k, v in annotations.items() if k == KUBERNETES_KIND}
    spec: dict[str, Any] = {
        "group": schema.spec.group,
        "names": schema.spec.names,
        "scope": schema.spec.scope,
        "versions": [_version(version) for version in schema.spec.versions],
    }
    made: Object = {
        "metadata": {"name": schema.metadata.uid, "annotations": kept},
        "spec": spec,
    }
    return msgspec.json.encode(made)


def _version(version: dict[str, msgspec.Raw]) -> Object:
    made: Object = {name: version[name] for name in _COPIED if name in version}
    made.setdefault("served", True)  # as the schema's own default is
    made.setdefault("storage", False)
    made["schema"] = {"openAPIV3Schema": version.get("schema", _NO_SCHEMA)}
    return made
