"""Protobuf bodies: what is written is read again, and garbage is refused, not fatal."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykcp.apis.catalog import ResourceDefinition, builtin_definitions
from pykcp.apis.protobuf import codecs
from pykcp.machinery.protobuf import (
    ProtobufError,
    close_envelope,
    field,
    open_envelope,
    parse_numbers,
    read_fields,
)
from pykcp.machinery.schema.model import Schema

NATIVE = [
    pytest.param(
        definition, version, id=f"{definition.group or 'core'}/{version}/{definition.kind}"
    )
    for definition in builtin_definitions()
    if definition.native
    for version in definition.versions
]
_DEPTH = 7


def sample(schema: Schema, depth: int = 0) -> Any:
    """A value with every field that the schema knows, down to some depth; None where it ends."""
    if schema.codec:
        return _special(schema, depth)
    match schema.type:
        case "string" if schema.format == "byte":
            return base64.b64encode(b"\0\xffbytes").decode()
        case "string":
            return "text ü"
        case "integer":
            return -7
        case "boolean":
            return True
        case "number":
            return 1.5
        case "array":
            assert schema.items is not None
            return _filled([sample(schema.items, depth + 1)], depth)
    if schema.additional is not None:
        inner = sample(schema.additional, depth + 1)
        return None if inner is None else {"key": inner, "": inner}
    if depth > _DEPTH:
        return None
    found = {name: sample(inner, depth + 1) for name, inner in schema.properties.items()}
    return {name: value for name, value in found.items() if value is not None}


def _filled(items: list[Any], depth: int) -> list[Any] | None:
    return None if items[0] is None else items * 2


def _special(schema: Schema, depth: int) -> Any:
    match schema.codec:
        case "time":
            return "2026-01-02T03:04:05Z"
        case "micro-time":
            return "2026-01-02T03:04:05.000006Z"
        case "quantity":
            return "100m"
        case "int-or-string":
            return "http"
        case "schema-or-bool":
            return False
        case "schema-or-array" | "schema-or-strings":
            assert schema.inner is not None
            return sample(schema.inner, depth + 1)
    return {"any": ["json", 1, None]}


@pytest.mark.parametrize(("definition", "version"), NATIVE)
def test_every_built_in_kind_survives_the_round_trip(
    definition: ResourceDefinition, version: str
) -> None:
    """An object with every field set is the same after it was written and read."""
    schema = definition.schema(version)
    obj = sample(schema)
    for name in ("apiVersion", "kind"):  # they are in the envelope
        obj.pop(name, None)
    codec = codecs().of(schema)
    assert codec.read(codec.write(obj)) == obj


@pytest.mark.parametrize(("definition", "version"), NATIVE)
def test_lists_survive_the_round_trip(definition: ResourceDefinition, version: str) -> None:
    """A list of a kind is the same after it was written and read."""
    schema = definition.list_schema(version)
    if schema is None:
        pytest.skip("nothing to list")
    listed = {"metadata": {"resourceVersion": "7", "continue": "x", "remainingItemCount": 3}}
    listed["items"] = [{"metadata": {"name": "a"}}, {"metadata": {"name": "b"}}]  # type: ignore[assignment]
    codec = codecs().of(schema)
    assert codec.read(codec.write(listed)) == listed


def test_the_envelope_names_the_type() -> None:
    """Four magic bytes, the type and the object's bytes."""
    body = close_envelope("v1", "ConfigMap", b"\x0a\x00")
    assert body.startswith(b"k8s\0")
    assert open_envelope(body) == ("v1", "ConfigMap", b"\x0a\x00")
    with pytest.raises(ProtobufError, match="does not appear to be a protobuf message"):
        open_envelope(b"{}")


def test_empty_times_are_none() -> None:
    """A time message without content is no time, not the beginning of 1970."""
    definition = next(d for d in builtin_definitions() if d.plural == "configmaps")
    codec = codecs().of(definition.schema("v1"))
    raw = field(1, field(8, b""))  # metadata.creationTimestamp
    assert codec.read(raw) == {"metadata": {"creationTimestamp": None}}


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"\x0a\x05a", id="length beyond the end"),
        pytest.param(b"\x08" + b"\xff" * 11, id="varint without end"),
        pytest.param(b"\x0b", id="group"),
        pytest.param(b"\x02\x00", id="field number 0"),
        pytest.param(b"\x09\x00", id="short fixed64"),
    ],
)
def test_broken_messages_are_refused(data: bytes) -> None:
    """What is not protobuf raises ProtobufError."""
    with pytest.raises(ProtobufError):
        list(read_fields(data))


def test_numbers_are_read_from_their_table() -> None:
    """Package lines, then messages with their fields; dots are embedded structs."""
    table = parse_numbers("package a.b\n  One x=1 y=2.1\n\npackage c\n  Two z=3\n")
    assert table == {"a.b.One": {"x": (1,), "y": (2, 1)}, "c.Two": {"z": (3,)}}


def test_deep_schemas_are_refused() -> None:
    """The one message that holds itself, thousands of levels deep, is refused, not fatal."""
    definition = next(d for d in builtin_definitions() if d.kind == "CustomResourceDefinition")
    inner = b""
    for _ in range(20_000):
        inner = field(28, inner)  # JSONSchemaProps.not
    version = field(4, field(1, inner))
    with pytest.raises(ProtobufError, match="exceeded max depth"):
        codecs().of(definition.schema("v1")).read(field(2, field(7, version)))


SCHEMAS = [d.schema(v) for d in builtin_definitions() if d.native for v in d.versions]


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(SCHEMAS), st.binary(max_size=200))
def test_garbage_is_refused_cleanly(schema: Schema, data: bytes) -> None:
    """Any bytes are either read or refused with ProtobufError."""
    try:
        codecs().of(schema).read(data)
    except ProtobufError:
        return


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(SCHEMAS), st.data())
def test_damaged_messages_are_refused_cleanly(schema: Schema, data: st.DataObject) -> None:
    """Messages with a byte changed, a piece missing or one too many: read or ProtobufError."""
    whole = bytearray(codecs().of(schema).write(sample(schema)))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, max(len(whole) - 1, 0)))
        whole[at : at + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=3))
    try:
        codecs().of(schema).read(bytes(whole))
    except ProtobufError:
        return
