"""Answers in protobuf, for clients that prefer it."""

from __future__ import annotations

import orjson

from pykcp.apis.protobuf import message_of
from pykcp.machinery.protobuf.wire import ProtobufError, close_envelope, field, open_envelope
from pykcp.machinery.status import InternalError
from pykcp.types import Object

CONTENT_TYPE = "application/vnd.kubernetes.protobuf"
_ITEMS = 2
"""The number of that field in every list."""
STREAM_TYPE = f"{CONTENT_TYPE};stream=watch"


def encode(obj: Object) -> bytes:
    """An object, list or status as an enveloped message. Raises ProtobufError."""
    api_version, kind = obj.get("apiVersion", ""), obj["kind"]
    message = message_of(api_version, kind)
    if message is None:
        raise ProtobufError(f"{kind} of {api_version} has no protobuf form")
    return close_envelope(api_version, kind, message.write(obj))


def list_items(api_version: str, kind: str, objects: list[Object]) -> bytes:
    """Some items of a list, as `encode_list` takes them."""
    message = message_of(api_version, kind)
    assert message is not None
    return b"".join([field(_ITEMS, message.write(obj)) for obj in objects])


def items_of(api_version: str, kind: str, texts: list[bytes]) -> bytes:
    """The same of objects in JSON; for worker processes."""
    return list_items(api_version, kind, [orjson.loads(text) for text in texts])


def encode_list(head: Object, items: bytes) -> bytes:
    """A list whose items are encoded already."""
    api_version, kind = head["apiVersion"], head["kind"]
    message = message_of(api_version, kind)
    assert message is not None
    return close_envelope(api_version, kind, message.write({**head, "items": []}) + items)


def decode(body: bytes) -> Object | None:
    """An enveloped message as the JSON values it stands for; None if its kind is not known."""
    api_version, kind, raw = open_envelope(body)
    message = message_of(api_version, kind)
    if message is None:
        return None
    return {"kind": kind, "apiVersion": api_version, **message.read(raw)}


def framed(event_type: str, text: bytes) -> bytes:
    """A watch event of an object in JSON; for worker processes."""
    return frame(event_type, orjson.loads(text))


def frame(event_type: str, obj: Object) -> bytes:
    """A watch event, with its length in front.

    An object that has no protobuf form is reported as an error: the stream has begun.
    """
    try:
        encoded = encode(obj)
    except ProtobufError as error:
        event_type, encoded = "ERROR", encode(InternalError(str(error)).to_json())
    message = field(1, event_type.encode()) + field(2, field(1, encoded))
    return len(message).to_bytes(4, "big") + message
