"""Typed decoding of built-in kinds: from any JSON to what Go's structs would give back.

A schema is compiled into closures, one for each struct, list and map, that in a single
pass check types, drop unknown fields and empty ones, fill in what Go always writes, bring
times, bytes and quantities into canonical form and put fields into Go's order. What comes
out is what kube-apiserver stores and serves: `status: {}` is there, `data: {}` is not.

The closures only find out *that* something is wrong. What it is, in Go's words and Go's
order, is worked out by `machinery.schema.diagnose`, on the rare path.

An empty list that is always written stays one, as it does in Go's structs; upstream's
storage, which does not distinguish it from no list, is applied later (`registry.catalog.native`).
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable
from typing import Any, TypeAlias

from pykcp.machinery.patch.gojson import may_have_duplicates
from pykcp.machinery.quantity import QuantityError, canonical
from pykcp.machinery.schema import diagnose
from pykcp.machinery.schema.goscalars import (
    GoScalarError,
    base64_text,
    micro_time_text,
    time_text,
)
from pykcp.machinery.schema.model import Schema
from pykcp.types import JSON, Object

Marks: TypeAlias = list[bool]
"""Grows when an unknown field was dropped."""

Reader: TypeAlias = Callable[[Any, Marks], Any]
"""From a JSON value to its canonical form; raises `TypeMismatch` if it has the wrong type."""

DecodeError = diagnose.DecodeError


class TypeMismatch(Exception):
    """The value does not fit the type."""


class NeedsText(Exception):
    """A number that has to be read as it was written."""


_INT_RANGES = {
    "int32": (-(1 << 31), (1 << 31) - 1),
    "int64": (-(1 << 63), (1 << 63) - 1),
    "int": (-(1 << 63), (1 << 63) - 1),
}

_NOTHING = object()
"""In a field's row: leave the field out when it has no value."""

_EMPTY: Object = {}


class TypedDecoder:
    """Decodes objects of one built-in kind. Immutable, shared, safe to use from anywhere."""

    __slots__ = ("_read", "schema")

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self._read = _Compiler().struct(schema)

    def decode(self, value: JSON, problems: list[str], raw: bytes | None = None) -> Object:
        """The object as Go would give it back.

        Unknown fields (and, if the text is given, duplicate ones) are added to `problems`
        in upstream's words and order. DecodeError, in Go's words, if a value has the wrong
        type. `value` must not be used afterwards: parts of it live on in the result.
        """
        try:
            return self._decode(value, problems, raw)
        except RecursionError:
            raise diagnose.too_deep() from None

    def _decode(self, value: JSON, problems: list[str], raw: bytes | None) -> Object:
        marks: Marks = []
        try:
            out = self._read(value, marks)
        except NeedsText:
            return self._decode_slowly(value, raw, None, problems)
        except (TypeMismatch, GoScalarError, QuantityError):
            raise diagnose.type_error(self.schema, value, raw) from None
        has_duplicates = raw is not None and may_have_duplicates(raw, value)
        if not marks and not has_duplicates:
            decoded: Object = out
            return decoded
        return self._decode_slowly(value, raw, out, problems)

    def _decode_slowly(
        self, value: JSON, raw: bytes | None, out: Object | None, problems: list[str]
    ) -> Object:
        """Say what is unknown; if keys are repeated, what they hold is merged as Go merges it."""
        document = diagnose.document(value, raw)
        found = diagnose.strict_problems(self.schema, document)
        problems += found
        if out is None or any(p.startswith("duplicate") for p in found):
            out = self._read(diagnose.merged(self.schema, document), [])
        diagnose.refuse_depth(out)
        assert out is not None
        return out


_decoders: dict[int, TypedDecoder] = {}


def decoder_for(schema: Schema) -> TypedDecoder:
    """The decoder of a kind, compiled on first use. Schemas of built-in kinds live forever."""
    found = _decoders.get(id(schema))
    if found is None or found.schema is not schema:
        found = _decoders[id(schema)] = TypedDecoder(schema)
    return found


class _Compiler:
    """Turns schema nodes into readers; structs once each, so that recursion ends."""

    def __init__(self) -> None:
        self._structs: dict[int, Reader] = {}

    def reader(self, schema: Schema) -> Reader:
        """The reader of a value that is there (not null)."""
        if schema.codec:
            return self._codec(schema)
        if schema.type == "object":
            return self._map(schema) if schema.additional is not None else self.struct(schema)
        if schema.type == "array":
            return self._list(schema)
        if schema.type == "string":
            return _bytes if schema.format == "byte" else _string
        if schema.type == "integer":
            return _integer(*_INT_RANGES[schema.format])
        if schema.type == "boolean":
            return _boolean
        if schema.type == "number":
            return _number
        return _anything

    def struct(self, schema: Schema) -> Reader:
        found = self._structs.get(id(schema.properties))
        if found is not None:
            return found
        rows: list[tuple[str, Reader, bool, Any]] = []
        read = self._structs[id(schema.properties)] = _struct(rows, frozenset(schema.properties))
        for name, child in schema.properties.items():
            keeps_empty, absent = self._presence(child)
            rows.append((name, self.reader(child), keeps_empty, absent))
        return read

    def _presence(self, child: Schema) -> tuple[bool, Any]:
        """Whether an empty value is written, and what stands for no value at all."""
        always = child.presence == "always"
        if child.pointer:
            return True, None if always else _NOTHING
        if child.codec in _TIME_CODECS:
            return child.presence != "omitzero", _NOTHING if child.presence == "omitzero" else None
        if child.codec in _STRUCT_CODECS:
            return True, None
        if child.codec == "quantity":
            return True, "0"
        if child.type == "object" and child.additional is None:
            return True, self.struct(child)
        if not always:
            return False, _NOTHING
        return True, _zero_of(child)

    def _list(self, schema: Schema) -> Reader:
        assert schema.items is not None
        item = schema.items
        if item.type == "string" and not item.codec and item.format != "byte":
            return _string_list
        return _list(self.reader(item), self._element_zero(item))

    def _map(self, schema: Schema) -> Reader:
        assert schema.additional is not None
        item = schema.additional
        if item.type == "string" and not item.codec and item.format != "byte":
            return _string_map
        read = self.reader(item)
        if item.type == "array":  # storage turns even null into an empty list here
            return _map(lambda value, marks: read(value, marks) or [], lambda _value, _marks: [])
        return _map(read, self._element_zero(item))

    def _element_zero(self, item: Schema) -> Reader:
        """What null stands for in a list or map."""
        if item.codec == "quantity":
            return lambda _value, _marks: "0"
        if item.format == "byte":
            return lambda _value, _marks: ""
        if item.codec or item.pointer or item.type == "array" or item.additional is not None:
            return lambda _value, _marks: None
        if item.type == "object":
            read = self.struct(item)
            return lambda _value, marks: read(_EMPTY, marks)
        zero = _zero_of(item)
        return lambda _value, _marks: zero

    def _codec(self, schema: Schema) -> Reader:
        simple = _CODECS.get(schema.codec)
        if simple is not None:
            return simple
        # the three types of which JSONSchemaProps is one half
        assert schema.inner is not None
        inner = self.struct(schema.inner)
        # decoded apart upstream: what is unknown in it goes unreported
        return _SCHEMA_OR[schema.codec](lambda value, _marks: inner(value, []))


_ZEROES: dict[str, Any] = {"string": "", "integer": 0, "number": 0, "boolean": False}


def _zero_of(schema: Schema) -> Any:
    return None if schema.format == "byte" else _ZEROES.get(schema.type)


def _struct(rows: list[tuple[str, Reader, bool, Any]], names: frozenset[str]) -> Reader:
    known = names.issuperset

    def read(value: Any, marks: Marks) -> Any:
        if type(value) is not dict:
            raise TypeMismatch
        if not known(value):
            marks.append(True)
        out: Object = {}
        get = value.get
        for name, sub, keeps_empty, absent in rows:
            item = get(name)
            if item is None:
                if absent is not _NOTHING:
                    out[name] = absent(_EMPTY, marks) if callable(absent) else absent
            elif sub is _string:  # the commonest case, without a call
                if type(item) is not str:
                    raise TypeMismatch
                if item or keeps_empty:
                    out[name] = item
            else:
                result = sub(item, marks)
                if result or keeps_empty:
                    out[name] = result
        return out

    return read


def _list(item: Reader, zero: Reader) -> Reader:
    def read(value: Any, marks: Marks) -> Any:
        if type(value) is not list:
            raise TypeMismatch
        return [item(v, marks) if v is not None else zero(v, marks) for v in value]

    return read


def _map(item: Reader, zero: Reader) -> Reader:
    def read(value: Any, marks: Marks) -> Any:
        if type(value) is not dict:
            raise TypeMismatch
        keys = sorted(value) if len(value) > 1 else value
        return {
            key: item(value[key], marks) if value[key] is not None else zero(None, marks)
            for key in keys
        } or None

    return read


def _string_list(value: Any, _marks: Marks) -> Any:
    if type(value) is not list:
        raise TypeMismatch
    for item in value:
        if type(item) is not str:
            if item is not None:
                raise TypeMismatch
            return ["" if v is None else _string(v, _marks) for v in value]
    return value


def _string_map(value: Any, marks: Marks) -> Any:
    if type(value) is not dict:
        raise TypeMismatch
    last = ""
    for key, item in value.items():
        if type(item) is not str or key < last:
            break
        last = key
    else:
        return value or None
    return {k: "" if value[k] is None else _string(value[k], marks) for k in sorted(value)}


def _string(value: Any, _marks: Marks) -> Any:
    if type(value) is not str:
        raise TypeMismatch
    return value


def _boolean(value: Any, _marks: Marks) -> Any:
    if type(value) is not bool:
        raise TypeMismatch
    return value


def _integer(low: int, high: int) -> Reader:
    def read(value: Any, _marks: Marks) -> Any:
        if type(value) is not int or not low <= value <= high:
            raise TypeMismatch
        return value

    return read


def _number(value: Any, _marks: Marks) -> Any:
    if type(value) is int:
        return value
    if type(value) is not float:
        raise TypeMismatch
    return int(value) if value.is_integer() and abs(value) < 1 << 63 else value


def _bytes(value: Any, _marks: Marks) -> Any:
    if type(value) is str:
        return base64_text(value)
    if type(value) is list:
        return _byte_list(value)
    raise TypeMismatch


def _byte_list(value: list[Any]) -> str:
    """Go takes a list of small numbers for bytes as well."""
    for item in value:
        if item is not None and (type(item) is not int or not 0 <= item <= 255):
            raise TypeMismatch
    return b64encode(bytes(item or 0 for item in value)).decode()


def _anything(value: Any, _marks: Marks) -> Any:
    return value


def _time(value: Any, _marks: Marks) -> Any:
    if type(value) is not str:
        raise TypeMismatch
    return time_text(value)


def _micro_time(value: Any, _marks: Marks) -> Any:
    if type(value) is not str:
        raise TypeMismatch
    return micro_time_text(value)


def _quantity(value: Any, _marks: Marks) -> Any:
    if type(value) is str or type(value) is int:
        return canonical(value)
    if type(value) is float:
        raise NeedsText
    raise TypeMismatch


def _int_or_string(value: Any, _marks: Marks) -> Any:
    if type(value) is str or type(value) is int:
        return value
    raise TypeMismatch


_TIME_CODECS = frozenset(("time", "micro-time"))
_STRUCT_CODECS = frozenset(("raw", "fields", "json"))

_CODECS: dict[str, Reader] = {
    "time": _time,
    "micro-time": _micro_time,
    "quantity": _quantity,
    "int-or-string": _int_or_string,
    "raw": _anything,
    "fields": _anything,
    "json": _anything,
}


def _schema_or_array(read_schema: Reader) -> Reader:
    def read(value: Any, marks: Marks) -> Any:
        if type(value) is dict:
            return read_schema(value, marks)
        if type(value) is list and value:
            return [read_schema(v if v is not None else _EMPTY, marks) for v in value]
        return None

    return read


def _schema_or_bool(read_schema: Reader) -> Reader:
    def read(value: Any, marks: Marks) -> Any:
        if type(value) is bool:
            return value
        if type(value) is dict:
            return read_schema(value, marks)
        raise TypeMismatch

    return read


def _schema_or_strings(read_schema: Reader) -> Reader:
    def read(value: Any, marks: Marks) -> Any:
        if type(value) is dict:
            return read_schema(value, marks)
        if type(value) is list:
            return _string_list(value, marks) or None
        return None

    return read


_SCHEMA_OR: dict[str, Callable[[Reader], Reader]] = {
    "schema-or-array": _schema_or_array,
    "schema-or-bool": _schema_or_bool,
    "schema-or-strings": _schema_or_strings,
}
