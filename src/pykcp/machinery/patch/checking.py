"""Whether a configuration fits its schema well enough to be applied, in upstream's words.

This is not validation: it looks at types, undeclared fields and the names of list items,
which merging depends on. Values are printed as upstream prints them, wrapper and all.
"""

from __future__ import annotations

from pykcp.machinery.lazy_path import LazyPath
from pykcp.machinery.patch import gotext
from pykcp.machinery.patch.elements import element_text
from pykcp.machinery.patch.shapes import (
    AnyShape,
    ListShape,
    MapShape,
    ScalarShape,
    Shape,
    Untypable,
)
from pykcp.machinery.status import MAX_FIELD_ERRORS, go_quote
from pykcp.types import JSON


def check(shape: Shape, value: JSON, *, allow_duplicates: bool) -> None:
    """Untypable with everything that is wrong, if anything is (or the first of very much)."""
    walk = _Walk(allow_duplicates)
    walk.value(shape, value, None)
    problems = walk.problems
    if problems:
        raise Untypable(problems[0] if len(problems) == 1 else "\n  ".join(["errors:", *problems]))


class _Walk:
    def __init__(self, allow_duplicates: bool) -> None:
        self.problems: list[str] = []
        self._allow_duplicates = allow_duplicates
        self._room = _MAX_TEXT

    def _add(self, path: LazyPath, message: str) -> None:
        if len(self.problems) >= MAX_FIELD_ERRORS or self._room < 0:
            return
        where = _spelled(path)
        self.problems.append(f"{where}: {message}" if where else message)
        self._room -= len(self.problems[-1])

    def value(self, shape: Shape, value: JSON, path: LazyPath) -> None:
        if isinstance(shape, AnyShape):
            shape = shape.of(value)
        if value is None:
            return
        if isinstance(shape, MapShape):
            if type(value) is dict:
                self._map(shape, value, path)
            else:
                self._add(path, f"expected map, got &{{{gotext.show(value)}}}")
        elif isinstance(shape, ListShape):
            if type(value) is list:
                self._list(shape, value, path)
            else:
                self._add(path, f"expected list, got &{{{gotext.show(value)}}}")
        else:
            assert isinstance(shape, ScalarShape)
            problem = _scalar_problem(shape.kind, value)
            if problem:
                self._add(path, problem)

    def _map(self, shape: MapShape, value: dict[str, JSON], path: LazyPath) -> None:
        members = shape.members
        for name, item in value.items():
            member = members[name]
            if member is None:
                self._add((path, f".{name}"), "field not declared in schema")
                return
            if type(member) is ScalarShape and type(item) is str and member.kind in _OF_TEXT:
                continue  # most of most objects
            self.value(member, item, (path, f".{name}"))

    def _list(self, shape: ListShape, value: list[JSON], path: LazyPath) -> None:
        if shape.is_atomic:
            for index, item in enumerate(value):
                self.value(shape.items, item, (path, f"[{index}]"))
            return
        seen: set[str] = set()
        for index, item in enumerate(value):
            try:
                element = shape.element(item)
            except Untypable as error:
                self._add(path, f"element {index}: {error}")
                return
            if element in seen and not self._allow_duplicates:
                name = element_text(element, as_written=True)
                self._add(path, f"duplicate entries for key {name}")
            seen.add(element)
            self.value(shape.items, item, (path, _UNSPELLED + element))


_OF_TEXT = ("string", "untyped")
_MAX_TEXT = 1024 * 1024
_UNSPELLED = "\0"
"""Before a step that is an element, which is put into words only if there is a problem."""


def _spelled(path: LazyPath) -> str:
    parts: list[str] = []
    while path is not None:
        path, part = path
        if part[0] == _UNSPELLED:
            part = element_text(part[1:], as_written=True)
        parts.append(part)
    parts.reverse()
    return "".join(parts)


def _scalar_problem(kind: str, value: JSON) -> str:
    if kind == "string":
        if type(value) is not str:
            return f"expected string, got &value.valueUnstructured{{Value:{_literal(value)}}}"
    elif kind == "numeric":
        if type(value) not in (int, float):
            return f"expected numeric (int or float), got {gotext.go_type(value)}"
    elif kind == "boolean":
        if type(value) is not bool:
            return f"expected boolean, got &{{{gotext.show(value)}}}"
    elif type(value) in (dict, list):
        return f"expected any scalar, got &{{{gotext.show(value)}}}"
    return ""


def _literal(value: JSON) -> str:
    """A value as `%#v` prints it."""
    match value:
        case None:
            return "interface {}(nil)"
        case str():
            return go_quote(value)
        case dict():
            inside = ", ".join(f"{go_quote(k)}:{_literal(value[k])}" for k in sorted(value))
            return f"map[string]interface {{}}{{{inside}}}"
        case list():
            return "[]interface {}{" + ", ".join(map(_literal, value)) + "}"
    return gotext.show(value)
