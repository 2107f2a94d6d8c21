"""Label selectors: parse, match, print, and turn into conditions for the store.

The grammar (`a=b,c!=d,e in (f,g),h notin (i),j,!k,l>1,m<2`) and every error text are
upstream's. A selector is parsed once and kept: clients send the same few over and over.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from pykcp.machinery import names, terms
from pykcp.machinery.status import FieldError, go_quote, invalid, not_supported
from pykcp.machinery.terms import Condition
from pykcp.machinery.terms import label_terms as label_terms  # noqa: PLC0414 — part of this API

Labels = Mapping[str, str]

_BINARY = ("in", "notin", "=", "==", "!=", "gt", "lt")
_OPERATORS = (*_BINARY, "exists", "!")
_FROM_API = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "!"}
_INT64 = re.compile(r"[+-]?[0-9]+")


class SelectorError(ValueError):
    """A selector that cannot be understood; the text is what the client is told."""


@dataclass(frozen=True, slots=True)
class Requirement:
    """One term of a selector. Operators: = == != in notin exists ! gt lt."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def matches(self, labels: Labels) -> bool:
        operator = self.operator
        if operator in {"=", "==", "in"}:
            return labels.get(self.key) in self.values
        if operator in {"!=", "notin"}:
            return self.key not in labels or labels[self.key] not in self.values
        if operator == "exists":
            return self.key in labels
        if operator == "!":
            return self.key not in labels
        return self.compares(labels.get(self.key))

    def compares(self, value: str | None) -> bool:
        """Whether `> n` or `< n` holds; never for what is not an integer."""
        left, right = _int64(value), _int64(self.values[0])
        if left is None or right is None:
            return False
        return left > right if self.operator == "gt" else left < right

    def __str__(self) -> str:
        if self.operator == "exists":
            return self.key
        if self.operator == "!":
            return "!" + self.key
        joined = ",".join(sorted(self.values))
        if self.operator in {"in", "notin"}:
            return f"{self.key} {self.operator} ({joined})"
        sign = {"gt": ">", "lt": "<"}.get(self.operator, self.operator)
        return f"{self.key}{sign}{joined}"


@dataclass(frozen=True, slots=True)
class Selector:
    """All requirements must hold. An empty selector matches everything, NOTHING nothing."""

    requirements: tuple[Requirement, ...] = ()
    matches_nothing: bool = False

    @property
    def empty(self) -> bool:
        """Whether everything matches."""
        return not self.requirements and not self.matches_nothing

    def matches(self, labels: Labels | None) -> bool:
        if self.matches_nothing:
            return False
        found = labels or {}
        return all(requirement.matches(found) for requirement in self.requirements)

    def __str__(self) -> str:
        return ",".join(str(requirement) for requirement in self.requirements)


EVERYTHING = Selector()
NOTHING = Selector(matches_nothing=True)


_KEEP_MAX = 512
"""Longer texts are parsed anew each time: clients do not fill our memory."""


def parse(text: str) -> Selector:
    """The selector a text means; raises SelectorError in upstream's words."""
    return _known(text) if len(text) <= _KEEP_MAX else _parse(text)


def _parse(text: str) -> Selector:
    requirements = _Parser(text).parse()
    return Selector(tuple(sorted(requirements, key=lambda requirement: requirement.key)))


_known = lru_cache(maxsize=2048)(_parse)


def from_labels(labels: Labels) -> Selector:
    """The selector for objects that carry all of these labels."""
    return Selector(tuple(new_requirement(key, "=", [labels[key]]) for key in sorted(labels)))


def from_label_selector(selector: Mapping[str, Any] | None) -> Selector:
    """The selector of a LabelSelector (matchLabels, matchExpressions); None matches nothing."""
    if selector is None:
        return NOTHING
    requirements = [
        new_requirement(key, "=", [value])
        for key, value in (selector.get("matchLabels") or {}).items()
    ]
    for expression in selector.get("matchExpressions") or ():
        operator = _FROM_API.get(expression.get("operator", ""))
        if operator is None:
            name = go_quote(expression.get("operator", ""))
            raise SelectorError(f"{name} is not a valid label selector operator")
        values = expression.get("values") or []
        requirements.append(new_requirement(expression.get("key", ""), operator, values))
    return Selector(tuple(sorted(requirements, key=lambda requirement: requirement.key)))


def to_conditions(
    selector: Selector,
) -> tuple[tuple[Condition, ...], Callable[[str], bool] | None]:
    """What the store can test on the terms text, and a test for what it cannot say (or None)."""
    if selector.matches_nothing:
        return (Condition((terms.NEVER,)),), None
    conditions: list[Condition] = []
    comparisons: list[Requirement] = []
    for requirement in selector.requirements:
        key, operator = requirement.key, requirement.operator
        if operator in {"exists", "!"}:
            conditions.append(Condition((terms.label_key_term(key),), operator == "!"))
        elif operator in {"gt", "lt"}:
            conditions.append(Condition((terms.label_key_term(key),)))
            comparisons.append(requirement)
        else:
            choices = tuple(terms.label_term(key, value) for value in requirement.values)
            conditions.append(Condition(choices, operator in {"!=", "notin"}))
    return tuple(conditions), _residual(comparisons)


def _residual(comparisons: Sequence[Requirement]) -> Callable[[str], bool] | None:
    if not comparisons:
        return None

    def holds(text: str) -> bool:
        return all(c.compares(terms.label_value(text, c.key)) for c in comparisons)

    return holds


def new_requirement(key: str, operator: str, values: Sequence[str]) -> Requirement:
    """A checked requirement; raises SelectorError with all that is wrong."""
    errors = [*_key_errors(key, "key"), *_arity_errors(operator, values)]
    for index, value in enumerate(values):
        messages = names.label_value(value)
        if messages:
            errors.append(invalid(f"values[{index}][{key}]", value, "; ".join(messages)))
    if errors:
        raise SelectorError(aggregate(errors))
    return Requirement(key, operator, tuple(values))


def _arity_errors(operator: str, values: Sequence[str]) -> list[FieldError]:
    shown = list(values)
    if operator in {"in", "notin"}:
        if not values:
            why = "for 'in', 'notin' operators, values set can't be empty"
            return [invalid("values", shown, why)]
    elif operator in {"=", "==", "!="}:
        if len(values) != 1:
            return [invalid("values", shown, "exact-match compatibility requires one single value")]
    elif operator in {"exists", "!"}:
        if values:
            why = "values set must be empty for exists and does not exist"
            return [invalid("values", shown, why)]
    elif operator in {"gt", "lt"}:
        return _comparison_errors(values)
    else:
        return [not_supported("operator", operator, _OPERATORS)]
    return []


def _comparison_errors(values: Sequence[str]) -> list[FieldError]:
    errors = []
    if len(values) != 1:
        why = "for 'Gt', 'Lt' operators, exactly one value is required"
        errors.append(invalid("values", list(values), why))
    for index, value in enumerate(values):
        if _int64(value) is None:
            why = "for 'Gt', 'Lt' operators, the value must be an integer"
            errors.append(invalid(f"values[{index}]", value, why))
    return errors


def _key_errors(key: str, path: str) -> list[FieldError]:
    messages = names.qualified_name(key)
    return [invalid(path, key, "; ".join(messages))] if messages else []


def aggregate(errors: Sequence[FieldError]) -> str:
    """Several field errors as one text, each said once."""
    texts = list(dict.fromkeys(error.text() for error in errors))
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"


def _int64(text: str | None) -> int | None:
    if text is None or not _INT64.fullmatch(text):
        return None
    number = int(text)
    return number if -(1 << 63) <= number < (1 << 63) else None


# The parser. Tokens are (kind, text); `in` and `notin` are keywords only where an operator
# is expected, elsewhere they are identifiers.

_TOKEN = re.compile(r"[ \t\r\n]*(==|!=|[=!(),<>]|[^=!(),<> \t\r\n\0]+\0?)")
_SPECIAL = frozenset(("==", "!=", "=", "!", "(", ")", ",", "<", ">"))
_END = ""
_IDENTIFIER = "identifier"


class _Parser:
    def __init__(self, text: str) -> None:
        self._tokens = list(_tokens(text))
        self._position = 0

    def parse(self) -> list[Requirement]:
        requirements: list[Requirement] = []
        while True:
            kind, literal = self._peek()
            if kind == _END:
                return requirements
            if kind not in {_IDENTIFIER, "!"}:
                raise SelectorError(
                    f"found '{literal}', expected: !, identifier, or 'end of string'"
                )
            try:
                requirements.append(self._requirement())
            except SelectorError as error:
                raise SelectorError(f"unable to parse requirement: {error}") from None
            kind, literal = self._take()
            if kind == _END:
                return requirements
            if kind != ",":
                raise SelectorError(f"found '{literal}', expected: ',' or 'end of string'")
            kind, literal = self._peek()
            if kind not in {_IDENTIFIER, "!"}:
                raise SelectorError(f"found '{literal}', expected: identifier after ','")

    def _peek(self) -> tuple[str, str]:
        return self._tokens[self._position]

    def _take(self) -> tuple[str, str]:
        self._position += 1
        return self._tokens[self._position - 1]

    def _requirement(self) -> Requirement:
        kind, literal = self._take()
        absent = kind == "!"
        if absent:
            kind, literal = self._take()
        if kind != _IDENTIFIER:
            raise SelectorError(f"found '{literal}', expected: identifier")
        errors = _key_errors(literal, "<nil>")
        if errors:
            raise SelectorError(aggregate(errors))
        if absent:
            return new_requirement(literal, "!", [])
        if self._peek()[0] in {_END, ","}:
            return new_requirement(literal, "exists", [])
        operator = self._operator()
        values = self._set() if operator in {"in", "notin"} else self._exact()
        return new_requirement(literal, operator, sorted(values))

    def _operator(self) -> str:
        kind, literal = self._take()
        if literal in {"in", "notin"} or kind in {"=", "==", "!="}:
            return literal
        if kind in {"<", ">"}:
            return "lt" if kind == "<" else "gt"
        raise SelectorError(f"found '{literal}', expected: {', '.join(_BINARY)}")

    def _set(self) -> set[str]:
        kind, literal = self._take()
        if kind != "(":
            raise SelectorError(f"found '{literal}' expected: '('")
        kind, literal = self._peek()
        if kind == ")":
            self._take()
            return {""}
        if kind not in {_IDENTIFIER, ","}:
            raise SelectorError(f"found '{literal}', expected: ',', ')' or identifier")
        values = self._identifiers()
        self._take()
        return values

    def _identifiers(self) -> set[str]:
        """Up to, not including, the closing parenthesis; an empty place is the empty value."""
        values: set[str] = set()
        while True:
            kind, literal = self._take()
            following, following_literal = self._peek_safely()
            if kind == _IDENTIFIER:
                values.add(literal)
                if following == ")":
                    return values
                if following != ",":
                    raise SelectorError(f"found '{following_literal}', expected: ',' or ')'")
            elif kind == ",":
                if not values or following in {")", ","}:
                    values.add("")
                if following == ")":
                    return values
            else:
                raise SelectorError(f"found '{literal}', expected: ',', or identifier")

    def _peek_safely(self) -> tuple[str, str]:
        last = len(self._tokens) - 1
        return self._tokens[min(self._position, last)]

    def _exact(self) -> set[str]:
        if self._peek()[0] in {_END, ","}:
            return {""}
        kind, literal = self._take()
        if kind != _IDENTIFIER:
            raise SelectorError(f"found '{literal}', expected: identifier")
        return {literal}


def _tokens(text: str) -> list[tuple[str, str]]:
    """The tokens up to the end, which is marked; a NUL ends an identifier or the text."""
    found: list[tuple[str, str]] = []
    position = 0
    while match := _TOKEN.match(text, position):
        literal = match[1].rstrip("\0")
        found.append((literal if literal in _SPECIAL else _IDENTIFIER, literal))
        position = match.end()
    found.append((_END, ""))
    return found
