"""The version that a stored object says it is of."""

from __future__ import annotations

import pytest

from pykcp.registry import codec

MARK = codec.version_suffix("example.com/v2")


def stored(mark: bytes, **body: object) -> bytes:
    obj = {"apiVersion": "x/v1", "kind": "X", "metadata": {"name": "a"}, **body}
    return codec.fill(codec.encode(obj, "root", mark), 7)


@pytest.mark.parametrize("text", ["", "a }", ' "apiVersion":"b" }', ',"apiVersion":"c" }'])
def test_a_mark_is_found_whatever_the_object_says(text: str) -> None:
    marked, plain = stored(MARK, spec={"text": text}), stored(b"", spec={"text": text})
    assert codec.stored_version(marked) == "example.com/v2"
    assert codec.stored_version(plain) == ""
    assert codec.without_version(marked) == plain
    assert codec.without_version(plain) == plain


def test_a_marked_value_is_json_with_its_version() -> None:
    found = codec.decode(stored(MARK, spec={"a": 1}))
    assert found["apiVersion"] == "example.com/v2"
    assert found["spec"] == {"a": 1}
    assert found["metadata"]["resourceVersion"] == "7"


def test_the_last_state_keeps_its_version() -> None:
    again = codec.fill(codec.reopen(stored(MARK)), 9)
    assert codec.stored_version(again) == "example.com/v2"
    assert codec.revision_of(again) == 9
