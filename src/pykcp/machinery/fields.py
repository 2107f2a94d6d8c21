"""Field selectors: parse, check which fields a kind knows, match, turn into conditions.

A field selector compares text: `metadata.name=x,status.phase!=Active`. A field that is not
there and one that is empty are the same. Values may escape backslash, comma and equals sign
with a backslash. The error texts are upstream's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from pykcp.machinery import terms
from pykcp.machinery.labels import MANY, SelectorError
from pykcp.machinery.terms import Condition
from pykcp.steps import Steps, at_once

NAME = "metadata.name"
NAMESPACE = "metadata.namespace"
DEFAULT_FIELDS = (NAME, NAMESPACE)

_OPERATOR = re.compile(r"!=|==|=")
_SPECIAL = re.compile(r"[\\,=]")
_TERM = re.compile(r"[^\\,]*(?:\\.?[^\\,]*)*", re.DOTALL)
"""Up to a comma that no backslash stands before."""
_SORT_MAX = 4096
"""More terms stay in the order in which they were sent."""


@dataclass(frozen=True, slots=True)
class FieldRequirement:
    """`path=value`, or `path!=value` when negated."""

    path: str
    value: str
    negated: bool = False

    def matches(self, fields: Mapping[str, str]) -> bool:
        return (fields.get(self.path, "") == self.value) is not self.negated

    def __str__(self) -> str:
        return f"{self.path}{'!=' if self.negated else '='}{escape(self.value)}"


@dataclass(frozen=True, slots=True)
class FieldSelector:
    """All requirements must hold."""

    requirements: tuple[FieldRequirement, ...] = ()
    tests: FieldTests | None = field(default=None, compare=False, repr=False)
    """The same as the requirements, for a large selector."""

    @property
    def empty(self) -> bool:
        return not self.requirements

    def matches(self, fields: Mapping[str, str]) -> bool:
        if self.tests is not None:
            return self.tests.hold(fields)
        return all(requirement.matches(fields) for requirement in self.requirements)

    def exact(self, path: str) -> str | None:
        """The one value this field must have, if there is one (`metadata.name=x` is a get)."""
        if self.tests is not None:
            return self.tests.wanted.get(path)
        for requirement in self.requirements:
            if requirement.path == path and not requirement.negated:
                return requirement.value
        return None

    def __str__(self) -> str:
        return ",".join(str(requirement) for requirement in self.requirements)


class FieldTests:
    """What a large selector asks for, by field."""

    __slots__ = ("_excluded", "_is_impossible", "wanted")

    def __init__(self) -> None:
        self.wanted: dict[str, str] = {}
        self._excluded: dict[str, set[str]] = {}
        self._is_impossible = False

    def add(self, requirement: FieldRequirement) -> None:
        path, value = requirement.path, requirement.value
        if requirement.negated:
            self._excluded.setdefault(path, set()).add(value)
        elif self.wanted.setdefault(path, value) != value:
            self._is_impossible = True

    def hold(self, fields: Mapping[str, str]) -> bool:
        if self._is_impossible:
            return False
        get = fields.get
        return all(get(path, "") == value for path, value in self.wanted.items()) and all(
            get(path, "") not in values for path, values in self._excluded.items()
        )


EVERYTHING = FieldSelector()


_KEEP_MAX = 512
"""Longer texts are parsed anew each time: clients do not fill our memory."""


def parse(text: str) -> FieldSelector:
    """The selector a text means; raises SelectorError in upstream's words."""
    return _known(text) if len(text) <= _KEEP_MAX else at_once(parse_in_steps(text))


def parse_in_steps(text: str) -> Steps[FieldSelector]:
    parts = yield from _split_terms(text)
    if len(parts) <= _SORT_MAX:
        parts.sort()
    requirements: list[FieldRequirement] = []
    for part in parts:
        yield
        if not part:
            continue
        operator = _OPERATOR.search(part)
        if operator is None:
            shown = text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}..."
            raise SelectorError(f"invalid selector: '{shown}'; can't understand '{part}'")
        path, value = part[: operator.start()], unescape(part[operator.end() :])
        if path or value:  # upstream leaves out a term that says nothing
            requirements.append(FieldRequirement(path, value, operator[0] == "!="))
    return (yield from _selector(requirements))


_SHOWN_MAX = 16 * 1024


@lru_cache(maxsize=1024)
def _known(text: str) -> FieldSelector:
    return at_once(parse_in_steps(text))


def _selector(requirements: list[FieldRequirement]) -> Steps[FieldSelector]:
    if len(requirements) <= MANY:
        return FieldSelector(tuple(requirements))
    tests = FieldTests()
    for requirement in requirements:
        tests.add(requirement)
        yield
    return FieldSelector(tuple(requirements), tests)


def check(selector: FieldSelector, known: Collection[str] | None) -> Steps[None]:
    """Nothing if the kind knows the selector's fields; raises SelectorError otherwise.

    `known` is None for kinds that registered nothing of their own: upstream words the refusal
    differently for them.
    """
    for requirement in selector.requirements:
        yield
        if requirement.path in (DEFAULT_FIELDS if known is None else known):
            continue
        if known is None:
            raise SelectorError(
                f'"{requirement.path}" is not a known field selector: only "{NAME}", "{NAMESPACE}"'
            )
        raise SelectorError(f"field label not supported: {requirement.path}")


def renamed(selector: FieldSelector, names: Mapping[str, str]) -> Steps[FieldSelector]:
    """The selector with other names for some of its fields."""
    if not names:
        return selector
    requirements: list[FieldRequirement] = []
    for one in selector.requirements:
        path = names.get(one.path, one.path)
        requirements.append(FieldRequirement(path, one.value, one.negated))
        yield
    return (yield from _selector(requirements))


def to_conditions(
    selector: FieldSelector,
) -> tuple[tuple[Condition, ...], Callable[[str], bool] | None]:
    """What the store can test on the terms text, and a test for what it does not (or None).

    Of a large selector the store tests some terms, so that it need not show every object.
    """
    tests = selector.tests
    if tests is None:
        return tuple(map(_condition, selector.requirements)), None
    some = tuple(map(_condition, selector.requirements[:MANY]))
    return some, lambda text: tests.hold(terms.fields_of(text))


def _condition(requirement: FieldRequirement) -> Condition:
    if requirement.value:
        text = terms.field_term(requirement.path, requirement.value)
        return Condition((text,), requirement.negated)
    # Only fields with a value have a term.
    return Condition((terms.field_key_term(requirement.path),), not requirement.negated)


def escape(value: str) -> str:
    """A value as it may stand in a selector's text."""
    return _SPECIAL.sub(r"\\\g<0>", value)


def unescape(text: str) -> str:
    """The value a selector's text means; raises SelectorError on a stray special character."""
    if not _SPECIAL.search(text):
        return text
    out = []
    characters = iter(text)
    for ch in characters:
        if ch in ",=":
            raise SelectorError(f"invalid field selector: unescaped character in value: {ord(ch)}")
        if ch == "\\":
            ch = next(characters, "")
            if not ch or ch not in "\\,=":
                raise SelectorError(f"invalid field selector: invalid escape sequence: \\{ch}")
        out.append(ch)
    return "".join(out)


def _split_terms(text: str) -> Steps[list[str]]:
    """Split at commas that no backslash stands before; the backslashes stay."""
    if "\\" not in text:
        return text.split(",")
    parts: list[str] = []
    position = 0
    while match := _TERM.match(text, position):
        parts.append(match[0])
        position = match.end() + 1
        if position > len(text):
            break
        yield
    return parts
