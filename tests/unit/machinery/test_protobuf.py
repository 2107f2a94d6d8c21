"""Protobuf forms: the bytes that Go writes, the JSON that Go prints, and garbage is refused."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykcp.apis.catalog import builtin_definitions
from pykcp.apis.protobuf import message_of
from pykcp.machinery.protobuf.messages import Messages
from pykcp.machinery.protobuf.tables import parse_table
from pykcp.machinery.protobuf.wire import (
    ProtobufError,
    close_envelope,
    field,
    open_envelope,
    read_fields,
)

TABLES = Path(__file__).parents[3] / "src/pykcp/apis/kube/messages"
_LINES = (Path(__file__).parent / "protobuf_objects.txt").read_text(encoding="utf-8").splitlines()
SERVED = [
    pytest.param(json.loads(text), base64.b64decode(body), id=json.loads(text)["kind"])
    for text, body in zip(_LINES[1::2], _LINES[2::2], strict=True)
]
NATIVE = [
    pytest.param(
        definition.api_version(version),
        definition.kind,
        id=f"{definition.group or 'core'}/{version}/{definition.kind}",
    )
    for definition in builtin_definitions()
    if definition.native
    for version in definition.versions
]


@pytest.mark.parametrize(("obj", "body"), SERVED)
def test_objects_are_written_as_kube_apiserver_writes_them(
    obj: dict[str, Any], body: bytes
) -> None:
    """The same object gives the same bytes, octet by octet."""
    api_version, kind = obj.get("apiVersion", ""), obj["kind"]
    message = message_of(api_version, kind)
    assert message is not None
    assert close_envelope(api_version, kind, message.write(obj)) == body


@pytest.mark.parametrize(("obj", "body"), SERVED)
def test_objects_are_read_as_kube_apiserver_prints_them(obj: dict[str, Any], body: bytes) -> None:
    """A message gives the JSON that the server answers with."""
    api_version, kind, raw = open_envelope(body)
    message = message_of(api_version, kind)
    assert message is not None
    assert message.read(raw) == {k: v for k, v in obj.items() if k not in ("kind", "apiVersion")}


@pytest.mark.parametrize(("api_version", "kind"), NATIVE)
def test_every_built_in_kind_has_a_message(api_version: str, kind: str) -> None:
    """Kinds and their lists; an object with nothing set survives the round trip."""
    for name in (kind, f"{kind}List"):
        message = message_of(api_version, name)
        assert message is not None
        empty = message.read(b"")
        assert message.read(message.write(empty)) == empty


def test_every_message_of_the_tables_can_be_compiled() -> None:
    """Every type that a field names exists."""
    tables = {path.stem: path.read_text(encoding="utf-8") for path in TABLES.glob("*.messages")}
    messages = Messages(tables.__getitem__)
    for group, text in tables.items():
        for name in parse_table(text):
            message = messages.named(f"{group}/{name}")
            assert message is not None
            written = message.write({})
            assert message.write(message.read(written)) == written


@pytest.mark.parametrize(
    ("api_version", "kind"),
    [
        ("v1", "Widget"),
        ("v9", "Pod"),
        ("example.com/v1", "Pod"),
        ("core/v1", "Pod"),
        ("meta/v1", "ObjectMeta"),
        ("../kube/v1", "Pod"),
    ],
)
def test_other_kinds_have_none(api_version: str, kind: str) -> None:
    """Only Kubernetes' own kinds, at versions that it serves."""
    assert message_of(api_version, kind) is None


TABLE = """# a comment
version v1
Thing name=1:! count=2:i size=3:l? data=4:y tags=5:[] sizes=6:[]l labels=7:{} *=8:Inner other=9:Thing?
Inner inner=1 always=2:b! when=3:Time list=4:<> any=5:Raw? port=6:IntOrString?
"""


def _thing() -> Any:
    return Messages({"g": TABLE}.__getitem__).named("g/v1.Thing")


@pytest.mark.parametrize(
    ("given", "read"),
    [
        pytest.param({}, {"name": "", "always": False, "when": None}, id="empty"),
        pytest.param(
            {"name": "ü", "count": 0, "size": 0, "data": "", "tags": []},
            {"name": "ü", "size": 0, "always": False, "when": None},
            id="zeros are dropped, but not behind pointers",
        ),
        pytest.param(
            {"sizes": [-1, 1 << 40], "labels": {"b": "", "": "x"}, "inner": "i", "list": ["a", ""]},
            {
                "name": "", "sizes": [-1, 1 << 40], "labels": {"": "x", "b": ""}, "inner": "i",
                "always": False, "when": None, "list": ["a", ""],
            },
            id="lists, maps, embedded structs",
        ),
        pytest.param(
            {"when": "2020-01-02T03:04:05+02:00", "any": {"a": [None]}, "port": "http"},
            {
                "name": "", "always": False, "when": "2020-01-02T01:04:05Z", "any": {"a": [None]},
                "port": "http",
            },
            id="times, JSON, names of ports",
        ),
        pytest.param(
            {"other": {"other": {"name": "deep"}}, "port": 80, "when": "0001-01-01T00:00:00Z"},
            {
                "name": "", "always": False, "when": None, "port": 80,
                "other": {
                    "name": "", "always": False, "when": None,
                    "other": {"name": "deep", "always": False, "when": None},
                },
            },
            id="messages within themselves",
        ),
    ],
)  # fmt: skip
def test_forms(given: dict[str, Any], read: dict[str, Any]) -> None:
    """What Go prints of an object after it went through protobuf."""
    thing = _thing()
    assert thing.read(thing.write(given)) == read


def test_numbers_may_be_packed() -> None:
    """A list of numbers may come as one field."""
    assert _thing().read(field(6, b"\x01\x02"))["sizes"] == [1, 2]


def test_unknown_fields_are_dropped() -> None:
    """Fields of later versions do not disturb."""
    assert _thing().read(field(99, b"x") + field(1, b"n"))["name"] == "n"


@pytest.mark.parametrize(
    "obj",
    [
        {"name": 1},
        {"count": "1"},
        {"count": 1.5},
        {"labels": ["a"]},
        {"tags": [1]},
        {"always": "yes"},
        {"when": "yesterday"},
        {"when": "2020-01-01T00:00:00"},
        {"other": "text"},
        {"port": {}},
    ],
)
def test_objects_of_another_form_are_refused(obj: dict[str, Any]) -> None:
    """A value that Go's type cannot hold has no protobuf form."""
    with pytest.raises(ProtobufError, match="has no protobuf form"):
        _thing().write(obj)


def test_the_envelope_names_the_type() -> None:
    """Four magic bytes, the type and the object's bytes."""
    body = close_envelope("v1", "ConfigMap", b"\x0a\x00")
    assert body.startswith(b"k8s\0")
    assert open_envelope(body) == ("v1", "ConfigMap", b"\x0a\x00")
    with pytest.raises(ProtobufError, match="does not appear to be a protobuf message"):
        open_envelope(b"{}")


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


def test_deep_schemas_are_refused() -> None:
    """The one message that holds itself, thousands of levels deep, is refused, not fatal."""
    inner = b""
    for _ in range(20_000):
        inner = field(28, inner)  # JSONSchemaProps.not
    message = message_of("apiextensions.k8s.io/v1", "CustomResourceDefinition")
    assert message is not None
    with pytest.raises(ProtobufError, match="exceeded max depth"):
        message.read(field(2, field(7, field(4, field(1, inner)))))


BODIES = [(obj.values[0], open_envelope(obj.values[1])[2]) for obj in SERVED]


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(BODIES), st.binary(max_size=200))
def test_garbage_is_refused_cleanly(served: tuple[dict[str, Any], bytes], data: bytes) -> None:
    """Any bytes are either read or refused with ProtobufError."""
    message = message_of(served[0].get("apiVersion", ""), served[0]["kind"])
    assert message is not None
    try:
        message.read(data)
    except ProtobufError:
        return


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(BODIES), st.data())
def test_damaged_messages_are_refused_cleanly(
    served: tuple[dict[str, Any], bytes], data: st.DataObject
) -> None:
    """Messages with a byte changed, a piece missing or one too many: read or ProtobufError."""
    message = message_of(served[0].get("apiVersion", ""), served[0]["kind"])
    assert message is not None
    whole = bytearray(served[1])
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, max(len(whole) - 1, 0)))
        whole[at : at + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=3))
    try:
        message.read(bytes(whole))
    except ProtobufError:
        return
