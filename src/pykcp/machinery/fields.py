"""Field selectors: parse, check which fields a kind knows, match, turn into conditions.

A field selector compares text: `metadata.name=x,status.phase!=Active`. A field that is not
there and one that is empty are the same. Values may escape backslash, comma and equals sign
with a backslash. The error texts are upstream's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache

from pykcp.machinery import terms
from pykcp.machinery.labels import SelectorError
from pykcp.machinery.terms import Condition

NAME = "metadata.name"
NAMESPACE = "metadata.namespace"
DEFAULT_FIELDS = (NAME, NAMESPACE)

_OPERATOR = re.compile(r"!=|==|=")
_SPECIAL = re.compile(r"[\\,=]")


@dataclass(frozen=True, slots=True)
class Requirement:
    """`path=value`, or `path!=value` when negated."""

    path: str
    value: str
    negated: bool = False

    def matches(self, fields: Mapping[str, str]) -> bool:
        return (fields.get(self.path, "") == self.value) is not self.negated

    def __str__(self) -> str:
        return f"{self.path}{'!=' if self.negated else '='}{escape(self.value)}"


@dataclass(frozen=True, slots=True)
class Selector:
    """All requirements must hold."""

    requirements: tuple[Requirement, ...] = ()

    @property
    def empty(self) -> bool:
        return not self.requirements

    def matches(self, fields: Mapping[str, str]) -> bool:
        return all(requirement.matches(fields) for requirement in self.requirements)

    def exact(self, path: str) -> str | None:
        """The one value this field must have, if there is one (`metadata.name=x` is a get)."""
        for requirement in self.requirements:
            if requirement.path == path and not requirement.negated:
                return requirement.value
        return None

    def without(self, *paths: str) -> Selector:
        """What is left when these fields are taken care of elsewhere."""
        return Selector(tuple(r for r in self.requirements if r.path not in paths))

    def __str__(self) -> str:
        return ",".join(str(requirement) for requirement in self.requirements)


EVERYTHING = Selector()


_KEEP_MAX = 512
"""Longer texts are parsed anew each time: clients do not fill our memory."""


def parse(text: str) -> Selector:
    """The selector a text means; raises SelectorError in upstream's words."""
    return _known(text) if len(text) <= _KEEP_MAX else _parse(text)


def _parse(text: str) -> Selector:
    requirements = []
    for part in sorted(_split_terms(text)):
        if not part:
            continue
        operator = _OPERATOR.search(part)
        if operator is None:
            raise SelectorError(f"invalid selector: '{text}'; can't understand '{part}'")
        value = unescape(part[operator.end() :])
        requirements.append(Requirement(part[: operator.start()], value, operator[0] == "!="))
    return Selector(tuple(requirements))


_known = lru_cache(maxsize=1024)(_parse)


def check(selector: Selector, known: Collection[str] | None) -> Selector:
    """The selector itself if the kind knows its fields; raises SelectorError otherwise.

    `known` is None for kinds that registered nothing of their own: upstream words the refusal
    differently for them.
    """
    for requirement in selector.requirements:
        if requirement.path in (DEFAULT_FIELDS if known is None else known):
            continue
        if known is None:
            raise SelectorError(
                f'"{requirement.path}" is not a known field selector: only "{NAME}", "{NAMESPACE}"'
            )
        raise SelectorError(f"field label not supported: {requirement.path}")
    return selector


def to_conditions(
    selector: Selector,
) -> tuple[tuple[Condition, ...], Callable[[str], bool] | None]:
    """What the store can test on the terms text; there is never a rest."""
    conditions = []
    for requirement in selector.requirements:
        if requirement.value:
            text = terms.field_term(requirement.path, requirement.value)
            conditions.append(Condition((text,), requirement.negated))
        else:
            # Only fields with a value have a term.
            text = terms.field_key_term(requirement.path)
            conditions.append(Condition((text,), not requirement.negated))
    return tuple(conditions), None


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


def _split_terms(text: str) -> list[str]:
    """Split at commas that no backslash stands before; the backslashes stay."""
    parts, start, escaped = [], 0, False
    for index, ch in enumerate(text):
        if escaped:
            escaped = False
        elif ch == "\\":
            escaped = True
        elif ch == ",":
            parts.append(text[start:index])
            start = index + 1
    parts.append(text[start:])
    return parts
