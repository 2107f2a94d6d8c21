"""Kinds as text: one line for each field, read by people first and by this parser second.

    package io.k8s.api.core.v1 go=v1      component names and the prefix of Go's type names
    use meta kube/meta_v1                 meta.ObjectMeta is a type of that file
    named SecretType string               a type with a name of its own
    enum NamespacePhase: Active, …        the same, with the values it may have
    opaque Time string format=… codec=…   a component without fields; `of=T`: or a T

    kind ConfigMap list | What it is.     kind, apiVersion and, with `list`, ConfigMapList
                                          come by themselves
      immutable  bool?    | A field.
      data       {string} | Another.
    struct LocalObjectReference atomic | …
      name       string default="" | …
        rule: self == oldSelf             on the line above; its message follows after `says:`

A type is a scalar, a type's name, `[T]` or `{T}` (`{Key:T}` where Go's key type has
a name). `T?` is a pointer in Go; `T!` is written even when empty. A field is
required when it has `!`, unless `optional` or `required` says otherwise.

A package marked `crd` holds kinds that are custom resources upstream: nothing of Go
in them, nested structs are published in place, and only `required` makes required.

Text is cut into rows when a file is first used; a type becomes a `Schema` when it is
first asked for. Nodes of fields share their component's `properties`, so recursive
types (JSONSchemaProps) end in a cycle, not in a copy.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pykcp.machinery.schema.model import Schema

SCALARS: dict[str, tuple[str, str, str]] = {
    "string": ("string", "", "string"),
    "bool": ("boolean", "", "bool"),
    "int": ("integer", "int32", "int"),
    "int32": ("integer", "int32", "int32"),
    "int64": ("integer", "int64", "int64"),
    "integer": ("integer", "", ""),
    "number": ("number", "", ""),
    "double": ("number", "double", "float64"),
    "bytes": ("string", "byte", "[]uint8"),
    "object": ("object", "", ""),
    "any": ("", "", "interface {}"),
}
"""Scalar words: OpenAPI type, format, Go type."""

COMPONENT_WORDS = {
    "time": "Time",
    "microtime": "MicroTime",
    "quantity": "Quantity",
    "intorstring": "IntOrString",
    "raw": "RawExtension",
    "fields": "FieldsV1",
}
"""Scalars that Kubernetes publishes as components of their own; they live in `META_FILE`."""

META_FILE = "kube/meta_v1"

_ZEROES: dict[str, Any] = {"string": "", "integer": 0, "number": 0, "boolean": False}

STANDARD_TEXTS = {
    "kind": "Kind is a string value that names the type of the object, in CamelCase. Cannot be changed.",
    "apiVersion": "APIVersion defines the group and version of the schema that the object is written in.",
    "metadata": "Standard object's metadata.",
    "items": "The objects.",
}
"""Tools tell Kubernetes' objects from others by how the first two begin."""
LIST_METADATA = "Standard list metadata."


class KindsError(ValueError):
    """The text of a kinds file breaks the rules above."""


@dataclass(slots=True)
class FieldRow:
    """One field line, or a header, cut up but not yet understood."""

    name: str
    type: str
    flags: tuple[str, ...]
    description: str
    rules: list[dict[str, Any]] = field(default_factory=list)
    extra: dict[str, Any] = field(default_factory=dict)
    go_path: str = ""


@dataclass(slots=True)
class Declaration:
    """A struct, kind, named or opaque type as written."""

    form: str
    head: FieldRow
    rows: list[FieldRow] = field(default_factory=list)


FlagSetter = Callable[[Schema, str], None]


def _set(attribute: str, convert: Callable[[str], Any] = str) -> FlagSetter:
    def apply(schema: Schema, text: str) -> None:
        setattr(schema, attribute, convert(text))

    return apply


def _number(text: str) -> float:
    return float(text) if "." in text else int(text)


def _list_map(schema: Schema, text: str) -> None:
    schema.list_type, schema.list_keys = "map", tuple(text.split(","))


def _atomic(schema: Schema, _text: str) -> None:
    if schema.type == "array":
        schema.list_type = "atomic"
    else:
        schema.map_type = "atomic"


def _patch(schema: Schema, text: str) -> None:
    schema.patch_strategy, _, schema.patch_merge_key = text.partition(":")


def _default(schema: Schema, text: str) -> None:
    schema.default, schema.has_default = json.loads(text), True


def _values(text: str) -> tuple[str, ...]:
    return tuple(text.split(","))


def _true(_text: str) -> bool:
    return True


FLAGS: dict[str, FlagSetter] = {
    "required": lambda _schema, _text: None,
    "optional": lambda _schema, _text: None,
    "omitzero": lambda schema, _text: setattr(schema, "presence", "omitzero"),
    "atomic": _atomic,
    "set": lambda schema, _text: setattr(schema, "list_type", "set"),
    "map": _list_map,
    "patch": _patch,
    "default": _default,
    "enum": _set("enum", _values),
    "format": _set("format"),
    "pattern": _set("pattern"),
    "min": _set("minimum", _number),
    "max": _set("maximum", _number),
    "minLength": _set("min_length", int),
    "maxLength": _set("max_length", int),
    "minItems": _set("min_items", int),
    "maxItems": _set("max_items", int),
    "minProperties": _set("min_properties", int),
    "maxProperties": _set("max_properties", int),
    "nullable": _set("nullable", _true),
    "preserve": _set("preserve_unknown", _true),
    "embedded": _set("embedded_resource", _true),
    "intorstring": _set("int_or_string", _true),
    "codec": _set("codec"),
    "go": _set("go_type"),
    "ref": _set("ref"),
}


def apply_flags(schema: Schema, flags: tuple[str, ...]) -> None:
    for flag in flags:
        word, _, text = flag.partition("=")
        try:
            FLAGS[word](schema, text)
        except KeyError:
            raise KindsError(f"unknown flag {flag!r}") from None


def split_line(line: str) -> FieldRow:
    """`name type flags… | description`; the description is optional."""
    left, bar, description = line.partition(" | ")
    words = left.split()
    if not words:
        raise KindsError(f"nothing before the description in {line!r}")
    kind = words[1] if len(words) > 1 else ""
    return FieldRow(words[0], kind, tuple(words[2:]), description.strip() if bar else "")


@dataclass(slots=True)
class KindsFile:
    """A parsed file: declarations by name, in the order of the file."""

    prefix: str = ""
    go: str = ""
    crd: bool = False
    uses: dict[str, str] = field(default_factory=dict)
    declarations: dict[str, Declaration] = field(default_factory=dict)


def parse(text: str) -> KindsFile:
    """Cut a kinds file into declarations."""
    source = KindsFile()
    current: Declaration | None = None
    last: FieldRow | None = None
    for number, line in enumerate(text.splitlines(), 1):
        if not line or line[0] == "#":
            continue
        try:
            if line[0] != " ":
                current = _header(source, line)
                last = current.head if current else None
            else:
                last = _indented(current, last, line)
        except ValueError as error:
            raise KindsError(f"line {number}: {error}: {line!r}") from error
    return source


def _header(source: KindsFile, line: str) -> Declaration | None:
    form, _, rest = line.partition(" ")
    if form == "package":
        source.prefix, *marks = rest.split()
        source.crd = "crd" in marks
        source.go = next((m[3:] for m in marks if m.startswith("go=")), "")
        return None
    if form == "use":
        alias, path = rest.split()
        source.uses[alias] = path
        return None
    if form == "enum":
        name, _, values = rest.partition(":")
        row = FieldRow(
            name, "string", (), "", extra={"enum": [v.strip() for v in values.split(",")]}
        )
        declaration = Declaration("named", row)
    elif form in {"named", "opaque"}:
        declaration = Declaration(form, split_line(rest))
    elif form in {"struct", "kind"}:
        row = split_line(rest)
        words = (row.type, *row.flags) if row.type else ()
        declaration = Declaration(form, FieldRow(row.name, "object", words, row.description))
    else:
        raise KindsError(f"unknown statement {form!r}")
    if declaration.head.name in source.declarations:
        raise KindsError("declared twice")
    source.declarations[declaration.head.name] = declaration
    return declaration


def _indented(current: Declaration | None, last: FieldRow | None, line: str) -> FieldRow:
    """A field, or more about the line above."""
    if current is None or last is None:
        raise KindsError("a field outside of any type")
    if line.startswith("    "):
        _continue(last, line.strip())
        return last
    row = split_line(line)
    current.rows.append(row)
    return row


def _continue(row: FieldRow, text: str) -> None:
    """A line that belongs to the one above: a rule, its message, or further keywords."""
    word, _, rest = text.partition(":")
    rest = rest.strip()
    if word == "rule":
        row.rules.append({"rule": rest})
    elif word == "says" and row.rules:
        row.rules[-1] = {**row.rules[-1], "message": rest}
    elif word == "json":
        row.extra.update(json.loads(rest))
    else:
        raise KindsError("expected rule:, says: or json:")
