"""Error messages for an invalid body, in the wording and order of Go's decoder.

Only called when the fast decoder has met something odd. The text is read once more in a
form that keeps what Python's dicts lose (repeated keys, numbers as written) and is walked
in document order, beside the schema.

Go's rules, which messages depend on: the first type error is kept and decoding goes on;
an error of a type with a decoder of its own (times, quantities) ends it at once and wins.
The struct named is the innermost one, the path is the whole one without list indexes, and
embedded structs stand in it. Strict problems count only if there is no error at all.
"""

from __future__ import annotations

import json
from typing import Any

import orjson

from pykcp.machinery.lazy_path import LazyPath, spelled
from pykcp.machinery.patch.gojson import (
    MAX_PROBLEMS,
    TOO_DEEP,
    Pairs,
    duplicate_field,
    repeated_keys,
)
from pykcp.machinery.quantity import QuantityError, canonical
from pykcp.machinery.schema.goscalars import (
    GoScalarError,
    base64_text,
    micro_time_text,
    time_text,
)
from pykcp.machinery.schema.model import Schema
from pykcp.machinery.status import go_quote
from pykcp.types import JSON, Object


class DecodeError(ValueError):
    """The body cannot be decoded; the message is Go's."""


class Number(str):
    """A number as it was written."""

    __slots__ = ()


def document(value: JSON, raw: bytes | None) -> Any:
    """The body as written, from its text if available, otherwise reconstructed.

    Upstream makes JSON of YAML and of patched objects, by way of maps, whose keys it sorts.
    """
    if raw is None:
        raw = orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    return json.loads(
        raw.decode("utf-8", "replace"),
        object_pairs_hook=Pairs,
        parse_float=Number,
        parse_int=Number,
    )


def refuse_depth(value: JSON) -> None:
    """DecodeError for what is nested too deeply to be stored. Go's own limit is higher."""
    try:
        orjson.dumps(value)
    except TypeError:
        raise too_deep() from None


def too_deep() -> DecodeError:
    return DecodeError(TOO_DEEP)


def type_error(schema: Schema, value: JSON, raw: bytes | None) -> DecodeError:
    """The error Go gives for a body that the fast decoder refused."""
    walk = _Walk()
    error = walk.run(schema, document(value, raw))
    if error is None:
        raise AssertionError(f"refused without a reason: {schema.ref}")
    return DecodeError(error)


def strict_problems(schema: Schema, body: Any) -> list[str]:
    """`unknown field "x"` and `duplicate field "y"`, in document order.

    DecodeError if it was an overwritten value that had the wrong type.
    """
    walk = _Walk()
    error = walk.run(schema, body)
    if error is not None:
        raise DecodeError(error)
    return walk.problems


def codec_error(schema: Schema, value: JSON) -> str | None:
    """The error of a type with a decoder of its own, which is given this value alone."""
    return _Walk().run(schema, document(value, None))


def what(value: JSON) -> str:
    """The kind of a value, as Go's decoder calls it."""
    return _what(document(value, None))


def kind_error(value: JSON) -> str | None:
    """The error (Go's message) if the kind of a body cannot be determined; None if it can."""
    head = "couldn't get version/kind; json parse error: json: cannot unmarshal "
    if not isinstance(value, dict):
        what = _what(document(value, None)) if value is not None else None
        return f"{head}{what} into Go value of type {_FIND_KIND}" if what else None
    for field, item in value.items():
        if field in {"apiVersion", "kind"} and item is not None and not isinstance(item, str):
            what = _what(document(item, None))
            return f"{head}{what} into Go struct field .{field} of type string"
    return None


_FIND_KIND = (
    'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; '
    'Kind string "json:\\"kind,omitempty\\"" }'
)


def duplicate_fields(raw: bytes) -> list[str]:
    """`duplicate field "spec.x"` in a text that is not typed."""
    return repeated_keys(document(None, raw))


class _Abort(Exception):
    """An error that Go's decoder does not go on after."""


class _Walk:
    def __init__(self) -> None:
        self.problems: list[str] = []
        self._seen: set[str] = set()
        self._error: str | None = None
        self._struct = ""
        self._fields: list[str] = []

    def run(self, schema: Schema, body: Any) -> str | None:
        try:
            self._value(schema, body, None)
        except _Abort as abort:
            return str(abort)
        return self._error

    def _unknown(self, path: LazyPath, key: str) -> None:
        if len(self.problems) < MAX_PROBLEMS:
            self._problem(f"unknown field {go_quote(spelled((path, f'.{key}')))}")

    def _duplicate(self, path: LazyPath, key: str) -> None:
        if len(self.problems) < MAX_PROBLEMS:
            self._problem(duplicate_field((path, f".{key}")))

    def _problem(self, text: str) -> None:
        if text not in self._seen:
            self._seen.add(text)
            self.problems.append(text)

    def _save(self, error: str) -> None:
        if self._error is None:
            self._error = error

    def _mismatch(self, what: str, go_type: str) -> str:
        where = f"struct field {self._struct}.{'.'.join(self._fields)}" if self._struct else "value"
        return f"json: cannot unmarshal {what} into Go {where} of type {go_type}"

    def _refuse(self, value: Any, schema: Schema, *, literal: bool = False) -> None:
        what = _what(value)
        if literal:
            what = f"number {value}"
        self._save(self._mismatch(what, schema.go_type))

    def _value(self, schema: Schema, value: Any, path: LazyPath) -> None:
        if value is None:
            return
        if schema.codec:
            self._codec(schema, value)
        elif schema.type == "object":
            if not isinstance(value, Pairs):
                self._refuse(value, schema)
            elif schema.additional is not None:
                self._map(schema.additional, value, path)
            else:
                self._members(schema, value, path)
        elif schema.type == "array":
            self._list(schema, value, path)
        else:
            self._scalar(schema, value)

    def _members(self, schema: Schema, value: Pairs, path: LazyPath) -> None:
        struct, depth = self._struct, len(self._fields)
        seen: set[str] = set()
        for key, item in value:
            child = schema.properties.get(key)
            if child is None:
                self._unknown(path, key)
                continue
            if key in seen:
                self._duplicate(path, key)
            seen.add(key)
            self._struct = schema.go_type.rpartition(".")[2]
            self._fields += [*child.go_path.split(".")[:-1], key]
            self._value(child, item, (path, f".{key}"))
            del self._fields[depth:]
            self._struct = struct

    def _map(self, element: Schema, value: Pairs, path: LazyPath) -> None:
        seen: set[str] = set()
        for key, item in value:
            if key in seen:
                self._duplicate(path, key)
            seen.add(key)
            self._value(element, item, (path, f".{key}"))

    def _list(self, schema: Schema, value: Any, path: LazyPath) -> None:
        assert schema.items is not None
        if isinstance(value, Pairs) or not isinstance(value, list):
            self._refuse(value, schema)
            return
        for index, item in enumerate(value):
            self._value(schema.items, item, (path, f"[{index}]"))

    def _scalar(self, schema: Schema, value: Any) -> None:
        kind = schema.type
        if kind == "string":
            if schema.format == "byte":
                self._bytes(schema, value)
            elif not isinstance(value, str) or isinstance(value, Number):
                self._refuse(value, schema)
        elif kind == "boolean":
            if not isinstance(value, bool):
                self._refuse(value, schema)
        elif kind in {"integer", "number"}:
            self._numeric(schema, value)
        elif isinstance(value, list):
            for text in repeated_keys(value)[: MAX_PROBLEMS - len(self.problems)]:
                self._problem(text)

    def _bytes(self, schema: Schema, value: Any) -> None:
        if isinstance(value, list) and not isinstance(value, Pairs):
            for item in value:
                self._value(_BYTE, item, None)
        elif not isinstance(value, str) or isinstance(value, Number):
            self._refuse(value, schema)
        else:
            try:
                base64_text(value)
            except GoScalarError as error:
                self._save(str(error))

    def _numeric(self, schema: Schema, value: Any) -> None:
        if not isinstance(value, Number):
            self._refuse(value, schema)
        elif schema.type == "integer":
            low, high = _RANGES[schema.go_type]
            if not value.lstrip("-").isdigit() or not low <= int(value) <= high:
                self._refuse(value, schema, literal=True)
        elif float(value) in {float("inf"), float("-inf")}:
            self._refuse(value, schema, literal=True)

    def _codec(self, schema: Schema, value: Any) -> None:
        codec = schema.codec
        try:
            if codec in {"time", "micro-time"}:
                if not isinstance(value, str) or isinstance(value, Number):
                    raise _Abort(self._mismatch(_what(value), "string"))
                (time_text if codec == "time" else micro_time_text)(value)
            elif codec == "quantity":
                canonical(str(value) if isinstance(value, str) else "?")
            elif schema.inner is not None:
                self._schema_or(schema, value)
        except (GoScalarError, QuantityError) as error:
            raise _Abort(str(error)) from error

    def _schema_or(self, schema: Schema, value: Any) -> None:
        """A schema, or a list, or a boolean: decoded apart, so nothing in it is strict."""
        assert schema.inner is not None
        codec = schema.codec
        apart = _Walk()
        error = None
        if isinstance(value, Pairs):
            error = apart.run(schema.inner, value)
        elif codec == "schema-or-bool" and not isinstance(value, bool):
            raise _Abort("boolean or JSON schema expected")
        elif codec == "schema-or-array" and isinstance(value, list):
            items = Schema(type="array", items=schema.inner, go_type=f"[]{schema.inner.go_type}")
            error = apart.run(items, value)
        elif codec == "schema-or-strings" and isinstance(value, list):
            error = apart.run(_STRINGS, value)
        if error is not None:
            raise _Abort(self._with_context(error))

    def _with_context(self, error: str) -> str:
        """A mismatch inside a part that was decoded apart names the whole path."""
        head, marker, rest = error.partition(" into Go struct field ")
        if not marker:
            head, marker, rest = error.partition(" into Go value of type ")
            if not marker:
                return error
            return f"{head} into Go struct field {self._place()} of type {rest}"
        _, _, inner = rest.partition(".")
        return f"{head}{marker}{self._place()}.{inner}"

    def _place(self) -> str:
        return f"{self._struct}.{'.'.join(self._fields)}"


_RANGES = {
    "uint8": (0, 255),
    "int32": (-(1 << 31), (1 << 31) - 1),
    "int64": (-(1 << 63), (1 << 63) - 1),
    "int": (-(1 << 63), (1 << 63) - 1),
}
_BYTE = Schema(type="integer", go_type="uint8")
_STRINGS = Schema(type="array", items=Schema(type="string", go_type="string"), go_type="[]string")


def _what(value: Any) -> str:
    """The kind of a JSON value, as Go's decoder calls it."""
    if isinstance(value, Number):
        return "number"
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, str):
        return "string"
    return "object" if isinstance(value, Pairs) else "array"


def merged(schema: Schema, body: Any) -> Any:
    """The body as plain values, repeated keys resolved as Go does: what is there is added to."""
    if isinstance(body, Number):
        return str(body) if schema.codec == "quantity" else orjson.loads(body.encode())
    if isinstance(body, Pairs):
        return _merged_object(schema, body)
    if isinstance(body, list):
        return [merged(schema.items or _ANY, item) for item in body]
    return body


_ANY = Schema()


def _merged_object(schema: Schema, body: Pairs) -> Object:
    is_struct = bool(schema.properties) and not schema.codec
    joined: dict[str, Any] = {}
    for key, item in body:
        if is_struct and key in joined:
            child = schema.properties.get(key, _ANY)
            joined[key] = _joined(child, joined[key], item)
        else:
            joined[key] = item
    return {
        key: merged(schema.additional or schema.properties.get(key) or _ANY, item)
        for key, item in joined.items()
    }


class _Joined(Pairs):
    """An object that was given several times; made here, so that more can be added to it."""

    __slots__ = ()


def _joined(schema: Schema, before: Any, item: Any) -> Any:
    """A field that was there already, given again."""
    if schema.codec or before is None:
        return item
    if item is None:
        unset = schema.pointer or schema.is_map or schema.type == "array" or schema.format == "byte"
        return None if unset else before
    if isinstance(before, Pairs) and isinstance(item, Pairs):
        if isinstance(before, _Joined):
            before.extend(item)
            return before
        return _Joined([*before, *item])
    if schema.type == "array" and schema.items is not None:
        kept = before[: len(item)]
        return [_joined(schema.items, b, i) for b, i in zip(kept, item, strict=False)] + item[
            len(kept) :
        ]
    return item
