"""Patch bodies read as Go reads them: the same acceptance, the same words when refused.

The fast decoder decides; only a refused body is scanned again, byte by byte, to say
what Go's scanner would have said. Under field validation a body is also searched for
keys given twice, which Go reports by path and a dict cannot show.
"""

from __future__ import annotations

import json
import re
from typing import Any

import orjson

from pykcp.types import JSON

_MAX_DEPTH = 10_000
_SPACE = b" \t\r\n"
_DIGITS = b"0123456789"
_HEX = b"0123456789abcdefABCDEF"


class BadJSON(ValueError):
    """The body is not JSON; the message is Go's."""


def decode(body: bytes) -> JSON:
    """The value of a body; BadJSON with Go's words when it has none."""
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        message = syntax_error(body)
        if message is not None:
            raise BadJSON(message) from error
    # Go takes what the fast decoder will not: broken UTF-8, lone surrogates, numbers that
    # are out of range. It also nests ten times deeper than anything here could follow.
    try:
        return json.loads(body.decode("utf-8", "replace"))
    except RecursionError as error:
        raise BadJSON("exceeded max depth") from error
    except ValueError as error:
        raise BadJSON(str(error)) from error


def encode(value: JSON) -> bytes:
    """A value as compact JSON; also one that the fast encoder finds too deep or too big."""
    try:
        return orjson.dumps(value)
    except orjson.JSONEncodeError:
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode(
            "utf-8", "surrogatepass"
        )


def type_word(value: JSON) -> str:
    """What Go calls a value that does not fit its target."""
    match value:
        case bool():
            return "bool"
        case str():
            return "string"
        case int() | float():
            return "number"
        case list():
            return "array"
        case dict():
            return "object"
    return "null"


def duplicate_fields(body: bytes) -> list[str]:
    """The paths of keys given more than once, in order, as strict decoding names them."""
    seen = False

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal seen
        out = dict(items)
        seen = seen or len(out) != len(items)
        return out

    text = body.decode("utf-8", "replace")
    try:
        json.loads(text, object_pairs_hook=pairs)
        if not seen:
            return []
        found: list[str] = []
        _walk_pairs(json.loads(text, object_pairs_hook=_Pairs), "", found)
    except (ValueError, RecursionError):
        return []
    return found


class _Pairs(list[tuple[str, Any]]):
    """An object as its members were written."""


def _walk_pairs(value: Any, path: str, found: list[str]) -> None:
    if isinstance(value, _Pairs):
        counts: dict[str, int] = {}
        for key, item in value:
            here = f"{path}.{key}" if path else key
            counts[key] = counts.get(key, 0) + 1
            if counts[key] == 2:
                found.append(f'duplicate field "{here}"')
            _walk_pairs(item, here, found)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            _walk_pairs(item, f"{path}[{index}]", found)


def syntax_error(body: bytes) -> str | None:
    """What Go's scanner says of a body that is not JSON, or None if it takes it."""
    try:
        position = _skip(body, _scan_value(body, _skip(body, 0)))
    except _Refused as refused:
        return str(refused)
    if position < len(body):
        return _unexpected(body, position, "after top-level value").args[0]  # type: ignore[no-any-return]
    return None


class _Refused(ValueError):
    """Where the scan ended."""


def _unexpected(body: bytes, position: int, where: str) -> _Refused:
    if position >= len(body):
        # Go tries a space at the end, which within a literal or a number is one too many.
        if where.startswith(("in ", "after decimal")):
            return _Refused(f"invalid character ' ' {where}")
        return _Refused("unexpected end of JSON input")
    return _Refused(f"invalid character {_quote_byte(body[position])} {where}")


def _quote_byte(byte: int) -> str:
    if byte == 0x27:
        return "'\\''"
    if byte == 0x22:
        return "'\"'"
    from pykcp.machinery.status import go_quote

    return "'" + go_quote(chr(byte))[1:-1] + "'"


def _skip(body: bytes, position: int) -> int:
    while position < len(body) and body[position] in _SPACE:
        position += 1
    return position


def _scan_value(body: bytes, position: int) -> int:
    """The position after the value that starts here. Containers are a loop, not a recursion."""
    stack: list[int] = []
    while True:
        position = _skip(body, position)
        char = body[position : position + 1]
        if char in (b"{", b"["):
            if len(stack) >= _MAX_DEPTH:
                raise _Refused("exceeded max depth")
            stack.append(body[position])
            position = _skip(body, position + 1)
            closing = b"}" if char == b"{" else b"]"
            if body[position : position + 1] == closing:
                stack.pop()
                position += 1
            elif char == b"{":
                position = _scan_key(body, position)
                continue
            else:
                continue
        else:
            position = _scan_scalar(body, position)
        position = _after_value(body, position, stack)
        if not stack:
            return position


def _after_value(body: bytes, position: int, stack: list[int]) -> int:
    """Close what ends here; the position of the next value, or after the last one."""
    while stack:
        position = _skip(body, position)
        char = body[position : position + 1]
        in_object = stack[-1] == 0x7B
        if char == b",":
            if in_object:
                return _scan_key(body, _skip(body, position + 1))
            return position + 1
        if char != (b"}" if in_object else b"]"):
            where = "after object key:value pair" if in_object else "after array element"
            raise _unexpected(body, position, where)
        stack.pop()
        position += 1
    return position


def _scan_key(body: bytes, position: int) -> int:
    if body[position : position + 1] != b'"':
        raise _unexpected(body, position, "looking for beginning of object key string")
    position = _skip(body, _scan_string(body, position + 1))
    if body[position : position + 1] != b":":
        raise _unexpected(body, position, "after object key")
    return position + 1


def _scan_scalar(body: bytes, position: int) -> int:
    char = body[position : position + 1]
    if char == b'"':
        return _scan_string(body, position + 1)
    if char in (b"t", b"f", b"n"):
        return _scan_word(body, position, {b"t": b"true", b"f": b"false", b"n": b"null"}[char])
    if char and (char in _DIGITS or char == b"-"):
        return _scan_number(body, position)
    raise _unexpected(body, position, "looking for beginning of value")


def _scan_word(body: bytes, position: int, word: bytes) -> int:
    for offset, expected in enumerate(word):
        if body[position + offset : position + offset + 1] != bytes((expected,)):
            raise _unexpected(
                body,
                position + offset,
                f"in literal {word.decode()} (expecting {_quote_byte(expected)})",
            )
    return position + len(word)


def _scan_string(body: bytes, position: int) -> int:
    while True:
        if position >= len(body):
            raise _unexpected(body, position, "")
        byte = body[position]
        if byte == 0x22:
            return position + 1
        if byte < 0x20:
            raise _unexpected(body, position, "in string literal")
        position += 1
        if byte != 0x5C:
            continue
        escape = body[position : position + 1]
        if not escape or escape not in b'bfnrt\\/"u':
            raise _unexpected(body, position, "in string escape code")
        position += 1
        if escape == b"u":
            for _ in range(4):
                digit = body[position : position + 1]
                if not digit or digit not in _HEX:
                    raise _unexpected(body, position, "in \\u hexadecimal character escape")
                position += 1


_DIGIT_RUN = re.compile(rb"[0-9]*")


def _scan_number(body: bytes, position: int) -> int:
    if body[position : position + 1] == b"-":
        position += 1
    if body[position : position + 1] == b"0":
        position += 1
    else:
        position = _scan_digits(body, position, "in numeric literal")
    if body[position : position + 1] == b".":
        position = _scan_digits(body, position + 1, "after decimal point in numeric literal")
    if body[position : position + 1] in (b"e", b"E"):
        position += 1
        if body[position : position + 1] in (b"+", b"-"):
            position += 1
        position = _scan_digits(body, position, "in exponent of numeric literal")
    return position


def _scan_digits(body: bytes, position: int, where: str) -> int:
    match = _DIGIT_RUN.match(body, position)
    assert match is not None
    if match.end() == position:
        raise _unexpected(body, position, where)
    return match.end()
