"""OpenAPI documents, made by worker processes: definitions as bytes in, a document out."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import orjson

from pykcp.apis.catalog import definition_of
from pykcp.apis.loader import shared_type
from pykcp.caching import BoundedCache
from pykcp.machinery.openapi import v2, v3
from pykcp.machinery.schema.crd import SchemaStore, definition_from_crd
from pykcp.machinery.schema.definition import ResourceDefinition
from pykcp.registry.catalog.custom import as_kubernetes
from pykcp.types import Object

V2_JSON, V2_PROTOBUF = "v2.json", "v2.protobuf"
_KEEP = 512


class DefinitionRef(NamedTuple):
    """A definition by its name, or by the JSON of a CustomResourceDefinition."""

    group: str
    plural: str
    source: bytes
    """Empty for built-in kinds."""
    verbs: tuple[str, ...]


def make(name: str, is_view: bool, refs: Sequence[DefinitionRef]) -> bytes:
    """The document of this name: one of the two forms of v2, or a group version of v3."""
    return document(name, tuple(_definition(ref) for ref in refs), is_view=is_view)


def document(name: str, definitions: tuple[ResourceDefinition, ...], *, is_view: bool) -> bytes:
    if name in (V2_JSON, V2_PROTOBUF):
        made = v2.document(definitions)
        _describe(made["definitions"], definitions)
        return v2.protobuf(made) if name == V2_PROTOBUF else orjson.dumps(made)
    made = v3.document(definitions, name, is_view=is_view)
    _describe(made["components"].get("schemas", {}), definitions)
    return orjson.dumps(made)


def _describe(components: Object, definitions: tuple[ResourceDefinition, ...]) -> None:
    """Add the texts of Kubernetes' kinds for workloads, whose definitions have none."""
    if any(definition.is_kubernetes for definition in definitions):
        from pykcp.apis.kube.workloads.descriptions import describe

        describe(components, definitions)


_definitions: BoundedCache[tuple[bytes, tuple[str, ...]], ResourceDefinition] = BoundedCache(
    "", _KEEP
)
_schemas = SchemaStore(shared_type)


def _definition(ref: DefinitionRef) -> ResourceDefinition:
    if not ref.source:
        return replace(definition_of(ref.group, ref.plural), verbs=ref.verbs)
    key = (hashlib.blake2b(ref.source, digest_size=16).digest(), ref.verbs)
    found = _definitions.get(key)
    if found is None:
        made = as_kubernetes(definition_from_crd(orjson.loads(ref.source), _schemas))
        found = _definitions.put(key, replace(made, verbs=ref.verbs, fingerprint=key[0].hex()))
    return found
