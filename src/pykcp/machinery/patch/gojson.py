"""Parsing of patch bodies like Go: the same input is accepted, with the same error messages.

The fast decoder decides; only a refused body is scanned again, to say what Go's scanner
would have said. Under field validation a body is also searched for keys given twice, which
Go reports by path and a dict cannot show.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from functools import cache
from typing import Any

import orjson

from pykcp.machinery.lazy_path import LazyPath, spelled
from pykcp.types import JSON

_MAX_DEPTH = 10_000
MAX_PROBLEMS = 100
"""How many repeated or unknown fields strict decoding names; Go's own limit."""
TOO_DEEP = "exceeded max depth"
_DIGITS = b"0123456789"
_HEX = b"0123456789abcdefABCDEF"


class BadJSON(ValueError):
    """The body is not JSON; the message is Go's."""


class NumberTooLarge(BadJSON):
    """The body is JSON, but no float can hold a number in it."""


def decode(body: bytes) -> JSON:
    """The value of a body; BadJSON with Go's words when it has none."""
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        message = syntax_error(body)
        if message is not None:
            raise BadJSON(message) from error
    # Go takes what the fast decoder will not: broken UTF-8 and lone surrogates. It also nests
    # ten times deeper than anything here could follow.
    try:
        return _decode_slowly(body)
    except RecursionError as error:
        raise BadJSON(TOO_DEEP) from error


def _decode_slowly(body: bytes) -> JSON:
    text = body.decode("utf-8", "replace")
    value = json.loads(text, parse_float=_float, parse_int=_integer)
    try:
        orjson.dumps(value)
    except orjson.JSONEncodeError:
        text = json.dumps(value, ensure_ascii=False)
        if not _SURROGATE.search(text):
            return value  # deep, or with a number that is large
        return json.loads(_SURROGATE.sub("\ufffd", text))
    return value


_SURROGATE = re.compile("[\ud800-\udfff]")


def _integer(text: str) -> float:
    """What fits into 64 bits; all else is a float in Go."""
    if len(text) < _LONG_INTEGER and -(1 << 63) <= (value := int(text)) < 1 << 64:
        return value
    return _float(text)


_LONG_INTEGER = 21


def _float(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise NumberTooLarge(f"json: cannot unmarshal number {text} into Go value of type float64")
    return value


MAX_NESTING = 254
"""How deep objects may be. Go's limit is higher, and nothing that is deeper has any use."""


def check_depth(body: bytes, value: JSON) -> None:
    """BadJSON if a value is nested too deeply to be written again."""
    if body.count(b"[") + body.count(b"{") > MAX_NESTING:
        try:
            orjson.dumps(value)
        except orjson.JSONEncodeError as error:
            raise BadJSON(TOO_DEEP) from error


def encode(value: JSON) -> bytes:
    """A value as compact JSON; also one that the fast encoder finds too deep or too big."""
    try:
        return orjson.dumps(value)
    except orjson.JSONEncodeError:
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode(
            "utf-8", "surrogatepass"
        )


def shown(value: JSON) -> str:
    """A value in a message: as compact JSON, if it is not too deep for that."""
    try:
        return encode(value).decode("utf-8", "replace")
    except RecursionError:
        return "..."


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


def may_have_duplicates(raw: bytes, value: JSON) -> bool:
    """Whether the text can have repeated keys; False is certain, True is not.

    Each key has its colon. Written out again, the value has those of the distinct keys and
    as many in strings as the text (as long as none is written as an escape).
    """
    try:
        written = orjson.dumps(value)
    except TypeError:  # nested too deeply to be written, which is looked into later
        return True
    return raw.count(b":") != written.count(b":") or (b"\\" in raw and b"\\u" in raw)


def duplicates_of(body: bytes, value: JSON) -> list[str]:
    """`duplicate_fields` of a body whose value is at hand: most have none, which is soon seen."""
    return duplicate_fields(body) if may_have_duplicates(body, value) else []


def duplicate_fields(body: bytes, select: Callable[[Any], Any] = lambda it: it) -> list[str]:
    """The paths of keys given more than once, in order, as strict decoding names them.

    `select` takes out of the document what is not looked at. Nothing for a body that is not JSON, or nested too deeply to be read in this way.
    """
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
        return repeated_keys(select(json.loads(text, object_pairs_hook=Pairs)))
    except (ValueError, RecursionError):
        return []


class Pairs(list[tuple[str, Any]]):
    """An object as it was written: keys in order, repeated ones included."""

    __slots__ = ()


def repeated_keys(document: Any) -> list[str]:
    """`duplicate field "spec.x"` for each key that an object of `Pairs` has more than once."""
    found: list[str] = []
    _walk_pairs(document, None, found)
    return found


def _walk_pairs(value: Any, path: LazyPath, found: list[str]) -> None:
    if isinstance(value, Pairs):
        told: dict[str, bool] = {}
        for key, item in value:
            if key not in told:
                told[key] = False
            elif not told[key] and len(found) < MAX_PROBLEMS:
                told[key] = True
                found.append(duplicate_field((path, f".{key}")))
            if isinstance(item, list):
                _walk_pairs(item, (path, f".{key}"), found)
    else:
        for index, item in enumerate(value):
            if isinstance(item, list):
                _walk_pairs(item, (path, f"[{index}]"), found)


def in_document_order(raw: bytes, problems: list[str]) -> list[str]:
    """Problems of a typed text as Go's decoder finds them, which is done with it in one pass."""
    known = set(problems)
    found: dict[str, None] = {}
    try:
        value = json.loads(raw.decode(errors="replace"), object_pairs_hook=Pairs)
    except (ValueError, RecursionError):
        return problems
    _walk_known(value, None, known, found)
    return [*found, *(problem for problem in problems if problem not in found)]


def _walk_known(value: Any, path: LazyPath, known: set[str], found: dict[str, None]) -> None:
    if isinstance(value, Pairs):
        seen: set[str] = set()
        for key, item in value:
            own: LazyPath = (path, f".{key}")
            problem = duplicate_field(own) if key in seen else unknown_field(own)
            if problem in known:
                found[problem] = None
            seen.add(key)
            if isinstance(item, list):
                _walk_known(item, own, known, found)
    else:
        for index, item in enumerate(value):
            if isinstance(item, list):
                _walk_known(item, (path, f"[{index}]"), known, found)


def unknown_field(path: LazyPath) -> str:
    return f'unknown field "{spelled(path)}"'


def duplicate_field(path: LazyPath) -> str:
    from pykcp.machinery.status import go_quote

    return f"duplicate field {go_quote(spelled(path))}"


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


# Nearly all of a long text is in order, and is passed over by these expressions, at C speed.
_WS = rb"[ \t\r\n]*+"
_PLAIN_TEXT = rb'(?:[^"\\\x00-\x1f]++|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*+'
_KEY = b'"' + _PLAIN_TEXT + b'"' + _WS + b":" + _WS
_SCALAR = (
    b'"' + _PLAIN_TEXT + rb'"|-?+(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?+(?:[eE][-+]?+[0-9]++)?+'
    rb"|true|false|null"
)
_LEVELS = 3
_SPACES = re.compile(_WS)
_TEXT = re.compile(_PLAIN_TEXT)


@cache
def _runs() -> tuple[re.Pattern[bytes], re.Pattern[bytes]]:
    """What passes over items of a list, and over members of an object, each with its comma."""
    value = b"(?:" + _SCALAR + b")"
    for _ in range(_LEVELS):
        items = value + _WS + rb"(?:," + _WS + rb"(?!\])|(?=\]))"
        members = _KEY + value + _WS + rb"(?:," + _WS + rb"(?!\})|(?=\}))"
        lists = rb"\[" + _WS + b"(?:" + items + rb")*+\]"
        objects = rb"\{" + _WS + b"(?:" + members + rb")*+\}"
        value = b"(?:" + _SCALAR + b"|" + lists + b"|" + objects + b")"
    return (
        re.compile(b"(?:" + _WS + value + _WS + b",)*+"),
        re.compile(b"(?:" + _WS + _KEY + value + _WS + b",)*+"),
    )


def _after_items(body: bytes, position: int) -> int:
    return _after(_runs()[0], body, position)


def _after_members(body: bytes, position: int) -> int:
    return _after(_runs()[1], body, position)


def _after(pattern: re.Pattern[bytes], body: bytes, position: int) -> int:
    """The position after all that a pattern, which may match nothing, passes over."""
    match = pattern.match(body, position)
    assert match is not None
    return match.end()


def _skip(body: bytes, position: int) -> int:
    return _after(_SPACES, body, position)


def _scan_value(body: bytes, position: int) -> int:
    """The position after the value that starts here. Containers are a loop, not a recursion."""
    stack: list[int] = []
    while True:
        position = _skip(body, position)
        char = body[position : position + 1]
        if char in (b"{", b"["):
            if len(stack) >= _MAX_DEPTH:
                raise _Refused(TOO_DEEP)
            stack.append(body[position])
            run = _after_members if char == b"{" else _after_items
            position = run(body, position + 1)
            has_begun = body[position - 1] == 0x2C
            position = _skip(body, position)
            closing = b"}" if char == b"{" else b"]"
            if not has_begun and body[position : position + 1] == closing:
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
                return _scan_key(body, _skip(body, _after_members(body, position + 1)))
            return _after_items(body, position + 1)
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
        position = _after(_TEXT, body, position)
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
