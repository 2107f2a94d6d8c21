"""Whether a configuration fits its schema well enough to be applied, in upstream's words.

This is not validation: it looks at types, undeclared fields and the names of list items,
which merging depends on. Values are printed as upstream prints them, wrapper and all.
"""

from __future__ import annotations

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
from pykcp.machinery.status import go_quote
from pykcp.types import JSON


def check(shape: Shape, value: JSON, *, allow_duplicates: bool) -> None:
    """Untypable with everything that is wrong, if anything is."""
    problems = _problems(shape, value, "", allow_duplicates=allow_duplicates)
    if problems:
        raise Untypable(problems[0] if len(problems) == 1 else "\n  ".join(["errors:", *problems]))


def _problems(shape: Shape, value: JSON, path: str, *, allow_duplicates: bool) -> list[str]:
    if isinstance(shape, AnyShape):
        shape = shape.of(value)
    if value is None:
        return []
    if isinstance(shape, MapShape):
        if type(value) is not dict:
            return [_at(path, f"expected map, got &{{{gotext.show(value)}}}")]
        return _map_problems(shape, value, path, allow_duplicates=allow_duplicates)
    if isinstance(shape, ListShape):
        if type(value) is not list:
            return [_at(path, f"expected list, got &{{{gotext.show(value)}}}")]
        return _list_problems(shape, value, path, allow_duplicates=allow_duplicates)
    assert isinstance(shape, ScalarShape)
    problem = _scalar_problem(shape.kind, value)
    return [_at(path, problem)] if problem else []


def _at(path: str, message: str) -> str:
    return f"{path}: {message}" if path else message


def _map_problems(
    shape: MapShape, value: dict[str, JSON], path: str, *, allow_duplicates: bool
) -> list[str]:
    out: list[str] = []
    members = shape.members
    for name, item in value.items():
        member = members[name]
        if member is None:
            return [*out, _at(f"{path}.{name}", "field not declared in schema")]
        if type(member) is ScalarShape and type(item) is str and member.kind in _OF_TEXT:
            continue  # most of most objects
        out += _problems(member, item, f"{path}.{name}", allow_duplicates=allow_duplicates)
    return out


_OF_TEXT = ("string", "untyped")


def _list_problems(
    shape: ListShape, value: list[JSON], path: str, *, allow_duplicates: bool
) -> list[str]:
    out: list[str] = []
    if shape.is_atomic:
        for index, item in enumerate(value):
            here = f"{path}[{index}]"
            out += _problems(shape.items, item, here, allow_duplicates=allow_duplicates)
        return out
    seen: set[str] = set()
    for index, item in enumerate(value):
        try:
            element = shape.element(item)
        except Untypable as error:
            return [*out, _at(path, f"element {index}: {error}")]
        if element in seen and not allow_duplicates:
            name = element_text(element, as_written=True)
            out.append(_at(path, f"duplicate entries for key {name}"))
        seen.add(element)
        inside = _problems(shape.items, item, "\0", allow_duplicates=allow_duplicates)
        if inside:  # only now is it worth to spell the item's name
            here = path + element_text(element, as_written=True)
            out += [here + problem.removeprefix("\0") for problem in inside]
    return out


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
