"""Message codecs, each compiled from its line of a table when it is first needed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from pykcp.machinery.protobuf.tables import MessageField, parse_message, parse_table
from pykcp.machinery.protobuf.unions import UNIONS
from pykcp.machinery.protobuf.values import SCALARS, Reader, ValueType, Writer
from pykcp.machinery.protobuf.wire import (
    BYTES,
    VARINT,
    ProtobufError,
    Raw,
    field,
    octets,
    read_fields,
    read_varint,
    text,
    varint,
)
from pykcp.types import JSON, Object

_Put: TypeAlias = Callable[[Object, Raw], None]
"""Puts what was read from a field into the object."""


class Message:
    """Reads and writes one type of message; made by `Messages`."""

    __slots__ = ("fields", "order", "zeros")

    def __init__(self) -> None:
        self.fields: dict[int, _Put] = {}
        self.order: list[tuple[str, bytes, Writer]] = []
        """Name, the bytes if it is not set, and what writes the whole field otherwise.

        An embedded struct has no name: the object itself is written.
        """
        self.zeros: list[tuple[str, Callable[[], JSON]]] = []
        """Fields that are printed although they are not set."""

    def read(self, raw: Raw) -> Object:
        """The message as JSON values; fields that it does not know are dropped."""
        out: Object = {}
        try:
            self.read_into(out, octets(raw))
        except RecursionError:
            raise ProtobufError("exceeded max depth") from None
        return out

    def read_into(self, out: Object, data: bytes) -> None:
        fields = self.fields
        for number, value in read_fields(data):
            put = fields.get(number)
            if put is not None:
                put(out, value)
        for name, zero in self.zeros:
            if name not in out:
                out[name] = zero()

    def write(self, obj: JSON) -> bytes:
        """The bytes of an object. Raises ProtobufError if a value has another type."""
        try:
            return self.write_unchecked(obj)
        except (AttributeError, TypeError, ValueError, OverflowError, RecursionError) as error:
            raise ProtobufError(f"the object has no protobuf form: {error}") from error

    def write_unchecked(self, obj: JSON) -> bytes:
        get = obj.get
        out = []
        for name, unset, write in self.order:
            if not name:
                out.append(write(obj))
            elif (value := get(name)) is None:
                out.append(unset)
            else:
                out.append(write(value))
        return b"".join(out)


class Messages:
    """Codecs of Kubernetes' messages. `load` gives the table of an API group; KeyError if none."""

    def __init__(self, load: Callable[[str], str]) -> None:
        self._load = load
        self._tables: dict[str, Mapping[str, str]] = {}
        self._made: dict[str, Message] = {}

    def of_kind(self, api_version: str, kind: str) -> Message | None:
        """The message of a kind, or of a list of it; None if there is none."""
        group, _, version = api_version.rpartition("/")
        return self.named(f"{group or 'core'}/{version}.{kind}")

    def named(self, name: str) -> Message | None:
        """By group, version and name: `apps/v1.Deployment`."""
        made = self._made.get(name)
        if made is None:
            line = self._line(name)
            if line is None:
                return None
            made = self._made[name] = Message()
            self._fill(made, line, name.rpartition(".")[0])
        return made

    def _line(self, name: str) -> str | None:
        group, _, rest = name.rpartition("/")
        table = self._tables.get(group)
        if table is None:
            try:
                table = parse_table(self._load(group))
            except KeyError:
                return None
            self._tables[group] = table
        line = table.get(rest)
        if line is None and rest.endswith("List") and (item := rest[: -len("List")]) in table:
            return f"metadata=1:meta/v1.ListMeta items=2:[]{item.rpartition('.')[2]}!"
        return line

    def _fill(self, message: Message, line: str, package: str) -> None:
        for row in parse_message(line):
            if row.name == "*":
                self._embed(message, row, package)
                continue
            value = self._type(row.type, package)
            if row.shape == "[]":
                _add_list(message, row, value)
            elif row.shape.startswith("{}"):
                _add_map(message, row, _wrapped(value) if row.shape == "{}<>" else value)
            elif row.shape == "<>":
                _add_one(message, row, _wrapped(value))
            else:
                _add_one(message, row, value)

    def _embed(self, message: Message, row: MessageField, package: str) -> None:
        inner = self._existing(row.type, package)
        message.fields[row.number] = lambda out, raw: inner.read_into(out, octets(raw))
        message.order.append(("", b"", _tagged(row.number, BYTES, inner.write_unchecked)))
        message.zeros += inner.zeros

    def _type(self, name: str, package: str) -> ValueType:
        scalar = SCALARS.get(name)
        if scalar is not None:
            return scalar
        union = UNIONS.get(name)
        if union is not None:
            return union(self._struct("JSONSchemaProps", package))
        return self._struct(name, package)

    def _struct(self, name: str, package: str) -> ValueType:
        """A message is looked up when it is met in an object: some contain themselves."""

        def read(raw: Raw) -> JSON:
            out: Object = {}
            self._existing(name, package).read_into(out, octets(raw))
            return out

        return ValueType(
            BYTES,
            read,
            lambda value: self._existing(name, package).write_unchecked(value),
            lambda: self._existing(name, package).write_unchecked({}),
            lambda: read(b""),
            is_struct=True,
        )

    def _existing(self, name: str, package: str) -> Message:
        found = self.named(name if "/" in name else f"{package}.{name}")
        assert found is not None, name
        return found


def _tagged(number: int, wire: int, write: Writer) -> Writer:
    """Writes a whole field: tag, length if it has one, content."""
    tag = varint(number << 3 | wire)
    if wire != BYTES:
        return lambda value: tag + write(value)

    def with_length(value: JSON) -> bytes:
        content = write(value)
        return tag + varint(len(content)) + content

    return with_length


def _add_one(message: Message, row: MessageField, value: ValueType) -> None:
    name, read = row.name, value.read
    keeps_empty = row.is_pointer or row.is_always or (value.is_struct and not row.omits_zero)

    def put(out: Object, raw: Raw) -> None:
        found = read(raw)
        if found or keeps_empty:
            out[name] = found
        else:
            out.pop(name, None)  # the last one counts

    message.fields[row.number] = put
    unset = None if row.is_pointer else value.empty()
    write = _tagged(row.number, value.wire, value.write)
    message.order.append((name, b"" if unset is None else _unset(row.number, value, unset), write))
    if row.is_pointer:
        if row.is_always:
            message.zeros.append((name, lambda: None))
    elif keeps_empty:
        message.zeros.append((name, value.zero))


def _unset(number: int, value: ValueType, content: bytes) -> bytes:
    return _tagged(number, value.wire, lambda _: content)(None)


def _add_list(message: Message, row: MessageField, value: ValueType) -> None:
    name, read = row.name, value.read
    write = _tagged(row.number, value.wire, value.write)
    is_packable = value.wire == VARINT

    def put(out: Object, raw: Raw) -> None:
        items = out.setdefault(name, [])
        if is_packable and isinstance(raw, bytes):
            items += map(read, _unpacked(raw))
        else:
            items.append(read(raw))

    message.fields[row.number] = put
    message.order.append((name, b"", lambda items: b"".join([write(item) for item in items])))
    if row.is_always:
        message.zeros.append((name, lambda: None))


def _unpacked(raw: bytes) -> list[Raw]:
    """Numbers of a list that were written as one field."""
    found: list[Raw] = []
    at = 0
    while at < len(raw):
        number, at = read_varint(raw, at)
        found.append(number)
    return found


def _add_map(message: Message, row: MessageField, value: ValueType) -> None:
    name, write = row.name, _tagged(2, value.wire, value.write)
    entry = _map_entry(value)

    def put(out: Object, raw: Raw) -> None:
        key, item = entry(raw)
        out.setdefault(name, {})[key] = item

    def one(key: str, item: JSON) -> bytes:
        content = b"" if item is None else write(item)
        return field(row.number, field(1, key.encode()) + content)

    message.fields[row.number] = put
    message.order.append(
        (name, b"", lambda items: b"".join([one(key, items[key]) for key in sorted(items)]))
    )
    if row.is_always:
        message.zeros.append((name, lambda: None))


def _map_entry(value: ValueType) -> Reader:
    def entry(raw: Raw) -> JSON:
        parts = dict(read_fields(octets(raw)))
        content = parts.get(2)
        return text(parts.get(1, b"")), value.zero() if content is None else value.read(content)

    return entry


def _wrapped(item: ValueType) -> ValueType:
    """A list in a message of its own: maps and pointers cannot hold lists."""
    write = _tagged(1, item.wire, item.write)
    return ValueType(
        BYTES,
        lambda raw: [item.read(v) for n, v in read_fields(octets(raw)) if n == 1],
        lambda values: b"".join([write(v) for v in values]),
        lambda: None,
    )
