"""Types of kinds files as `Schema` graphs, built when first asked for.

A `Library` is given a function that reads a file by its short path; files refer to
each other by that path. See `machinery.schema.kinds` for the text itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from pykcp.machinery.schema.kinds import (
    _ZEROES,
    COMPONENT_WORDS,
    LIST_METADATA,
    META_FILE,
    SCALARS,
    STANDARD_TEXTS,
    Declaration,
    FieldRow,
    KindsError,
    KindsFile,
    apply_flags,
    parse,
)
from pykcp.machinery.schema.model import Schema
from pykcp.machinery.schema.openapi_json import apply_keywords


class Library:
    """All kinds files behind one reader."""

    def __init__(self, read: Callable[[str], str]) -> None:
        self._read = read
        self._packages: dict[str, Package] = {}

    def package(self, path: str) -> Package:
        found = self._packages.get(path)
        if found is None:
            found = self._packages[path] = Package(self, parse(self._read(path)))
        return found

    def kind(self, path: str, name: str) -> Schema:
        """The schema of one type; `ConfigMapList` works where the kind is marked `list`."""
        return self.package(path).component(name)


class Package:
    """One file: its declarations, and those of them that are schemas already."""

    def __init__(self, library: Library, source: KindsFile) -> None:
        self._library = library
        self.source = source
        self._components: dict[str, Schema] = {}

    def names(self) -> list[str]:
        """Structs, kinds and opaque types, without generated lists."""
        return [n for n, d in self.source.declarations.items() if d.form != "named"]

    def component(self, name: str) -> Schema:
        found = self._components.get(name)
        if found is None:
            found = self._build(name)
        return found

    def _build(self, name: str) -> Schema:
        declaration = self.source.declarations.get(name)
        if declaration is None:
            return self._build_list(name)
        head = declaration.head
        if declaration.form == "opaque":
            return self._build_opaque(declaration)
        rows = self._rows(declaration)
        schema = self._components[name] = Schema(
            type="object",
            ref=self._ref(name, declaration.form),
            description=head.description,
            required=self._required(rows),
            go_type="" if self.source.crd else f"{self.source.go}.{name}",
            rules=tuple(head.rules),
        )
        apply_flags(schema, tuple(f for f in head.flags if f != "list"))
        if head.extra:
            apply_keywords(schema, head.extra)
        for row in rows:
            schema.properties[row.name] = self._field(row)
        return schema

    def _build_opaque(self, declaration: Declaration) -> Schema:
        head = declaration.head
        name = head.name
        inner = next((self.component(f[3:]) for f in head.flags if f.startswith("of=")), None)
        if name in self._components:  # built on the way, as a part of its inner type
            return self._components[name]
        schema = self._components[name] = Schema(
            type="" if head.type == "any" else head.type,
            description=head.description,
            ref=self._ref(name, "opaque"),
            go_type=f"{self.source.go}.{name}",
            inner=inner,
        )
        apply_flags(schema, tuple(f for f in head.flags if not f.startswith("of=")))
        if head.extra:
            apply_keywords(schema, head.extra)
        return schema

    def _build_list(self, name: str) -> Schema:
        item = name.removesuffix("List")
        declaration = self.source.declarations.get(item)
        if declaration is None or item == name or "list" not in declaration.head.flags:
            raise KindsError(f"no type {name!r} in {self.source.prefix}")
        rows = [
            *_type_rows(),
            FieldRow("metadata", "meta.ListMeta", (), LIST_METADATA),
            FieldRow("items", f"[{item}]!", ("required",), ""),
        ]
        schema = self._components[name] = Schema(
            type="object",
            ref=f"{self.source.prefix}.{name}",
            description=f"{name} is a list of {item} objects.",
            required=("items",),
            go_type="" if self.source.crd else f"{self.source.go}.{name}",
        )
        for row in rows:
            schema.properties[row.name] = self._field(row)
        return schema

    def _ref(self, name: str, form: str) -> str:
        """Structs of custom resources are published where they are used."""
        return "" if self.source.crd and form == "struct" else f"{self.source.prefix}.{name}"

    def _rows(self, declaration: Declaration) -> list[FieldRow]:
        """Field lines with what `include` brings in, in Go's order."""
        rows: list[FieldRow] = []
        if declaration.form == "kind":
            rows += _type_rows()
        for row in declaration.rows:
            if row.name == "include":
                package, name = self._resolve(row.type)
                included = package._rows(package.source.declarations[name])
                rows += (replace(r, go_path=f"{name}.{r.go_path}") for r in included)
            else:
                rows.append(row)
        return rows

    def _required(self, rows: list[FieldRow]) -> tuple[str, ...]:
        return tuple(
            row.name
            for row in rows
            if "required" in row.flags
            or (not self.source.crd and row.type.endswith("!") and "optional" not in row.flags)
        )

    def _field(self, row: FieldRow) -> Schema:
        """The node of one field: its type, then what the line says of it."""
        expression = row.type
        always = expression.endswith("!")
        if always:
            expression = expression[:-1]
        schema = self.node(expression)
        schema.description = row.description or STANDARD_TEXTS.get(row.name, "")
        if always:
            schema.presence = "always"
        if not self.source.crd:
            schema.go_path = row.go_path
            self._published_default(schema, always)
        if row.rules:
            schema.rules = (*schema.rules, *row.rules)
        apply_flags(schema, row.flags)
        if row.extra:
            apply_keywords(schema, row.extra)
        return schema

    @staticmethod
    def _published_default(schema: Schema, always: bool) -> None:
        """Go values that are not pointers are published with their zero as default."""
        if schema.pointer or schema.codec:
            return
        if schema.type == "object" and not schema.is_map:
            schema.default, schema.has_default = {}, True
        elif always and schema.type in _ZEROES and schema.format != "byte":
            schema.default, schema.has_default = _ZEROES[schema.type], True

    def _resolve(self, name: str) -> tuple[Package, str]:
        alias, dot, local = name.partition(".")
        if not dot:
            return self, name
        path = self.source.uses.get(alias)
        if path is None:
            raise KindsError(f"{alias!r} is not a file in use in {self.source.prefix}")
        return self._library.package(path), local

    def node(self, expression: str) -> Schema:
        """A fresh node for a type expression; structs share their component's properties."""
        if expression.endswith("?"):
            schema = self.node(expression[:-1])
            schema.pointer = True
            return schema
        if expression[0] == "[":
            items = self._element(expression[1:-1])
            return Schema(type="array", items=items, go_type=_go_list(items))
        if expression[0] == "{":
            return self._map(expression[1:-1])
        scalar = SCALARS.get(expression)
        if scalar is not None:
            kind, form, go = scalar
            return Schema(type=kind, format=form, go_type="" if self.source.crd else go)
        word = COMPONENT_WORDS.get(expression)
        if word is not None:
            return self._component_word(word)
        package, name = self._resolve(expression)
        return package.named_node(name)

    def _component_word(self, word: str) -> Schema:
        component = self._library.package(META_FILE).component(word)
        if not self.source.crd:
            return reference(component)
        return Schema(
            type=component.type,
            format=component.format,
            int_or_string=component.int_or_string,
            preserve_unknown=word == "RawExtension",
        )

    def _map(self, inside: str) -> Schema:
        key, colon, value = inside.partition(":")
        if not colon:
            key, value = "string", inside
        element = self._element(value)
        go = ""
        if not self.source.crd:
            go = f"map[{self.node(key).go_type}]{_go_name(element)}"
        return Schema(type="object", additional=element, go_type=go)

    def _element(self, expression: str) -> Schema:
        element = self.node(expression)
        if not self.source.crd:
            self._published_default(element, always=True)
        return element

    def named_node(self, name: str) -> Schema:
        declaration = self.source.declarations.get(name)
        if declaration is None or declaration.form != "named":
            return reference(self.component(name))
        head = declaration.head
        schema = self.node(head.type)
        if not self.source.crd:
            schema.go_type = f"{self.source.go}.{name}"
        apply_flags(schema, head.flags)
        if head.rules:
            schema.rules = tuple(head.rules)
        if head.extra:
            extra: dict[str, Any] = head.extra
            apply_keywords(schema, extra)
        return schema


def _type_rows() -> tuple[FieldRow, FieldRow]:
    """What every object says of its type, before anything else."""
    return (
        FieldRow("kind", "string", (), "", go_path="TypeMeta."),
        FieldRow("apiVersion", "string", (), "", go_path="TypeMeta."),
    )


def _go_name(schema: Schema) -> str:
    return f"*{schema.go_type}" if schema.pointer else schema.go_type


def _go_list(items: Schema) -> str:
    return f"[]{_go_name(items)}" if items.go_type else ""


def reference(component: Schema) -> Schema:
    """A node that stands for a component and shares its fields."""
    return Schema(
        type=component.type,
        format=component.format,
        ref=component.ref,
        component=component,
        properties=component.properties,
        required=component.required,
        additional=component.additional,
        int_or_string=component.int_or_string,
        preserve_unknown=component.preserve_unknown,
        map_type=component.map_type,
        one_of=component.one_of,
        any_of=component.any_of,
        not_=component.not_,
        max_properties=component.max_properties,
        min_properties=component.min_properties,
        rules=component.rules,
        go_type=component.go_type,
        codec=component.codec,
        inner=component.inner,
    )
