"""YAML bodies: read as JSON values, with Go's words for what is wrong with them.

The parser's events are put together here, one by one, instead of by a loader:
loaders recurse (a deep text overflows the C stack and takes the process down),
expand aliases without bound, and read `12:30` as a number, which Go does not.
"""

from __future__ import annotations

import base64
import binascii
import math
import re
from contextlib import suppress
from functools import lru_cache
from typing import Any

import orjson

from pykcp.machinery.patch import gojson
from pykcp.machinery.status import go_quote

MAX_DEPTH = gojson.MAX_NESTING
_MAX_ALIASED = 400_000
"""How many values may come out of aliases; as many as Go's decoder allows."""
_MAX_ALIASED_TEXT = 3 * 1024 * 1024
"""How long the texts that come out of aliases may be together: as long as a body."""
_MAX_TAG_DIRECTIVES = 1000
_TAG = "tag:yaml.org,2002:"
_LONGEST_NUMBER = 400
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_INTEGER = re.compile(r"([-+]?)(?:0[xX]([0-9a-fA-F]+)|0[bB]([01]+)|0[oO]?([0-7]+)|(0|[1-9][0-9]*))")
_WORDS: dict[str, Any] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(
        ("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True
    ),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE"), False),
    **dict.fromkeys(("off", "Off", "OFF"), False),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), math.nan),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), math.inf),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), -math.inf),
}
_KINDS = {bool: "!!bool", type(None): "!!null", int: "!!int", float: "!!float", str: "!!str"}


class BadYAML(ValueError):
    """A text that is not YAML, or says what JSON cannot; the message is Go's."""


def parse(body: bytes) -> Any:
    """The values of the first document of a text, as JSON knows them."""
    if body[:1] == b"{":  # most YAML that clients send is JSON
        try:
            return orjson.loads(body)
        except orjson.JSONDecodeError:
            pass  # YAML proper may begin like this, too
    return _Document().read(body)


def strict_error(repeated: list[str]) -> str:
    """What strict decoding says of repeated keys: one error, with a line for each of them."""
    return "yaml: unmarshal errors:" + "".join(f"\n  {each}" for each in repeated)


def duplicates(body: bytes) -> list[str]:
    """`line 7: key "kind" already set in map` for each repeated key, up to a number."""
    if _is_json_without_duplicates(body):
        return []
    document = _Document()
    with suppress(BadYAML):  # it was read as JSON, which knows escapes that YAML does not
        document.read(body)
    return document.repeated


def _is_json_without_duplicates(body: bytes) -> bool:
    if body[:1] != b"{":
        return False
    try:
        return not gojson.may_have_duplicates(body, orjson.loads(body))
    except orjson.JSONDecodeError:
        return False


class _Holder:
    """A list or map that is being filled."""

    __slots__ = ("height", "key", "seen", "start", "value")

    def __init__(self, value: list[Any] | dict[str, Any], start: Any) -> None:
        self.value = value
        self.start = start
        """The event it began with: what is said of it names that line."""
        self.key: Any = _NO_KEY
        """The key of the next value, as it was written: a number is not the text of the same form."""
        self.seen: dict[str, set[Any]] = {}
        """Keys that had the text of one that is no text itself."""
        self.height = 1
        """How many levels there are in it, itself included."""


_NO_KEY, _MERGE = object(), object()


class _Document:
    def __init__(self) -> None:
        self.repeated: list[str] = []
        self._open: list[_Holder] = []
        self._anchors: dict[str, tuple[Any, int]] = {}
        """Values with their heights."""
        self._unfinished: dict[str, int] = {}
        """Anchors of what is being filled, and how often each was given."""
        self._aliased = self._aliased_text = 0
        self._root: Any = None

    def read(self, body: bytes) -> Any:
        import yaml

        if body.count(b"\n%TAG") > _MAX_TAG_DIRECTIVES:  # the parser compares each with all
            raise BadYAML("yaml: found too many %TAG directives")
        parser = None
        try:
            parser = yaml.CSafeLoader(body)
            while not isinstance(event := parser.get_event(), yaml.DocumentEndEvent):
                if event is None or isinstance(event, yaml.StreamEndEvent):
                    break
                self._take(yaml, event)
        except BadYAML:
            raise
        except (yaml.YAMLError, ValueError) as error:
            raise BadYAML(_go_words(error)) from error
        finally:
            if parser is not None:
                parser.dispose()
        return self._root

    def _take(self, yaml: Any, event: Any) -> None:
        kind = event.__class__
        if kind is yaml.ScalarEvent:
            value = _scalar(event)
            if event.anchor:
                self._anchors[event.anchor] = (value, 0)
            self._put(value, event, 0)
        elif kind is yaml.MappingStartEvent:
            self._begin({}, event)
        elif kind is yaml.SequenceStartEvent:
            self._begin([], event)
        elif kind is yaml.MappingEndEvent or kind is yaml.SequenceEndEvent:
            self._end()
        elif kind is yaml.AliasEvent:
            self._put_alias(event)

    def _begin(self, value: list[Any] | dict[str, Any], event: Any) -> None:
        self._open.append(_Holder(value, event))
        anchor = event.anchor
        if anchor:
            self._unfinished[anchor] = self._unfinished.get(anchor, 0) + 1
        if len(self._open) > MAX_DEPTH:
            raise ValueError(f"exceeded max depth of {MAX_DEPTH}")

    def _end(self) -> None:
        holder = self._open.pop()
        if anchor := holder.start.anchor:
            self._unfinished[anchor] -= 1
            self._anchors[anchor] = (holder.value, holder.height)
        self._put(holder.value, holder.start, holder.height)

    def _put_alias(self, event: Any) -> None:
        if self._unfinished.get(event.anchor):
            raise ValueError(f"anchor '{event.anchor}' value contains itself")
        if event.anchor not in self._anchors:
            raise ValueError(f"unknown anchor '{event.anchor}' referenced")
        value, height = self._anchors[event.anchor]
        if len(self._open) + height > MAX_DEPTH:
            raise ValueError(f"exceeded max depth of {MAX_DEPTH}")
        self._put(self._copy(value), event, height)

    def _copy(self, value: Any) -> Any:
        self._aliased += 1
        if self._aliased > _MAX_ALIASED:
            raise ValueError("document contains excessive aliasing")
        if isinstance(value, dict):
            self._count_text(sum(map(len, value)))
            return {k: self._copy(v) for k, v in value.items()}
        if isinstance(value, list):
            return [self._copy(v) for v in value]
        if isinstance(value, str):
            self._count_text(len(value))
        return value

    def _count_text(self, length: int) -> None:
        self._aliased_text += length
        if self._aliased_text > _MAX_ALIASED_TEXT:
            raise ValueError("document contains excessive aliasing")

    def _put(self, value: Any, event: Any, height: int) -> None:
        if not self._open:
            self._root = value
            return
        holder = self._open[-1]
        holder.height = max(holder.height, height + 1)
        if isinstance(holder.value, list):
            holder.value.append(value)
        elif holder.key is _NO_KEY:
            holder.key = _MERGE if _is_merge(value, event) else _checked_key(value)
        else:
            self._set(holder, value, event)

    def _set(self, holder: _Holder, value: Any, event: Any) -> None:
        assert isinstance(holder.value, dict)
        key, holder.key = holder.key, _NO_KEY
        if key is _MERGE:
            for merged in reversed(value if isinstance(value, list) else [value]):
                if not isinstance(merged, dict):
                    raise ValueError(_BAD_MERGE)  # noqa: TRY004
                holder.value.update(merged)
            return
        text = key if isinstance(key, str) else _key_text(key)
        if _is_repeated(holder, key, text) and len(self.repeated) < gojson.MAX_PROBLEMS:
            shown = go_quote(key) if isinstance(key, str) else text
            line = event.start_mark.line + 1
            self.repeated.append(f"line {line}: key {shown} already set in map")
        holder.value[text] = value


def _is_repeated(holder: _Holder, key: Any, text: str) -> bool:
    """Whether a map has the key already: upstream's knows a number from a text that looks like it."""
    seen = holder.seen.get(text)
    if isinstance(key, str) and seen is None:
        return text in holder.value
    if seen is None:
        seen = holder.seen[text] = {(str, text)} if text in holder.value else set()
    kind = (type(key), key)
    is_repeated = kind in seen
    seen.add(kind)
    return is_repeated


def _is_merge(value: Any, event: Any) -> bool:
    return value == "<<" and getattr(event, "implicit", (False,))[0]


def _checked_key(value: Any) -> str | float:
    if isinstance(value, (str, int, float)):
        return value
    raise BadYAML(f"unsupported map key of type: {_GO_TYPES.get(type(value), 'map')}")


def _key_text(value: float) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int) else f"{value:g}"


_GO_TYPES = {type(None): "%!s(<nil>)", list: "slice"}


def _scalar(event: Any) -> Any:
    text, tag = event.value, event.tag
    if tag is None or tag == "!":
        if not event.implicit[0]:
            return text  # quoted, or a block
        value = _resolve(text)
    else:
        value = _tagged(text, tag)
    if isinstance(value, float) and not math.isfinite(value):
        raise BadYAML(f"json: unsupported value: {_GO_FLOATS.get(value, 'NaN')}")
    return value


_BAD_MERGE = "map merge requires map or sequence of maps as the value"
_GO_FLOATS = {math.inf: "+Inf", -math.inf: "-Inf"}


def _tagged(text: str, tag: str) -> Any:
    kind = tag.removeprefix(_TAG)
    if kind == "binary":
        try:
            return base64.b64decode(text).decode("utf-8", "replace")
        except binascii.Error as error:
            raise ValueError("!!binary value contains invalid base64 data") from error
    if kind not in ("bool", "int", "float", "null"):
        return text
    value = _resolve(text)
    if kind == "float" and type(value) is int:
        return value
    if _KINDS[type(value)] != f"!!{kind}":
        raise ValueError(f"cannot decode {_KINDS[type(value)]} `{text}` as a !!{kind}")
    return value


def _resolve(text: str) -> Any:
    """What a plain word stands for."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in "+-.0123456789" or len(text) > _LONGEST_NUMBER:
        return text
    return _number(text)


@lru_cache(maxsize=4096)
def _number(text: str) -> Any:
    plain = text if text[0] == "." else text.replace("_", "")
    if found := _INTEGER.fullmatch(plain):
        value = _integer(found)
        if -(1 << 63) <= value < 1 << 64:
            return value
    return _float(plain) if _FLOAT.fullmatch(plain) else text


def _float(plain: str) -> float:
    """Whole numbers lose their point, as on Go's way through JSON."""
    value = float(plain)
    return int(value) if value.is_integer() and abs(value) < 1 << 63 else value


def _integer(found: re.Match[str]) -> int:
    sign, hexadecimal, binary, octal, decimal = found.groups()
    if hexadecimal:
        value = int(hexadecimal, 16)
    elif binary:
        value = int(binary, 2)
    elif octal:
        value = int(octal, 8)
    else:
        value = int(decimal)
    return -value if sign == "-" else value


def _go_words(error: Exception) -> str:
    """Go counts the lines of what it cannot scan from 1, and those of what it cannot parse from 0."""
    problem = getattr(error, "problem", None) or getattr(error, "reason", None) or str(error)
    mark = getattr(error, "problem_mark", None)
    if mark is None or not mark.line:
        return f"yaml: {problem}"
    line = mark.line + (type(error).__name__ == "ScannerError")
    return f"yaml: line {line}: {problem}"
