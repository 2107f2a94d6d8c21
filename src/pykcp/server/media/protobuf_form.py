"""Answers in protobuf, for clients that read nothing else."""

from __future__ import annotations

from functools import cache

from pykcp.apis.catalog import builtin_definitions
from pykcp.apis.loader import library
from pykcp.apis.protobuf import codecs
from pykcp.machinery.protobuf import close_envelope, field, open_envelope
from pykcp.machinery.schema.model import Schema
from pykcp.types import Object

CONTENT_TYPE = "application/vnd.kubernetes.protobuf"
STREAM_TYPE = f"{CONTENT_TYPE};stream=watch"
_META_KINDS = ("Status", "PartialObjectMetadata", "PartialObjectMetadataList")
_TOKEN_REQUEST = ("authentication.k8s.io/v1", "TokenRequest")


@cache
def _schemas() -> dict[tuple[str, str], Schema]:
    """Schemas of everything that is ever answered, by apiVersion and kind."""
    found: dict[tuple[str, str], Schema] = {}
    for definition in builtin_definitions():
        if not definition.native:
            continue
        for version in definition.versions:
            api_version = definition.api_version(version)
            found[api_version, definition.kind] = definition.schema(version)
            list_schema = definition.list_schema(version)
            if list_schema is not None:
                found[api_version, definition.list_kind] = list_schema
    for kind in _META_KINDS:
        schema = library().kind("kube/meta_v1", kind)
        for api_version in ("v1", "meta.k8s.io/v1", "meta.k8s.io/v1beta1"):
            found[api_version, kind] = schema
    found[_TOKEN_REQUEST] = library().kind("kube/authentication_v1", "TokenRequest")
    return found


def encode(obj: Object) -> bytes:
    """An object, list or status as an enveloped message."""
    api_version, kind = obj["apiVersion"], obj["kind"]
    codec = codecs().of(_schemas()[api_version, kind])
    return close_envelope(api_version, kind, codec.write(obj))


def decode(body: bytes) -> Object | None:
    """An enveloped message as the JSON values it stands for; None if its kind is not known."""
    api_version, kind, raw = open_envelope(body)
    schema = _schemas().get((api_version, kind))
    if schema is None:
        return None
    return {"kind": kind, "apiVersion": api_version, **codecs().of(schema).read(raw)}


def frame(event_type: str, obj: Object) -> bytes:
    """A watch event, with its length in front."""
    message = field(1, event_type.encode()) + field(2, field(1, encode(obj)))
    return len(message).to_bytes(4, "big") + message
