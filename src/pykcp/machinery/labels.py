"""Label selectors: parse, match, print, and turn into conditions for the store.

The grammar (`a=b,c!=d,e in (f,g),h notin (i),j,!k,l>1,m<2`) and every error text are
upstream's. A selector is parsed once and kept: clients send the same few over and over.

Selectors of thousands of terms or values are parsed in steps, and tested by looking the
labels of an object up in them rather than the other way round (`label_tests`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from typing import Any

from pykcp.machinery import names, terms
from pykcp.machinery.status import FieldError, go_quote, invalid, not_supported
from pykcp.machinery.terms import Condition
from pykcp.machinery.terms import label_terms as label_terms  # noqa: PLC0414 — part of this API
from pykcp.steps import Steps, at_once

Labels = Mapping[str, str]

_BINARY = ("in", "notin", "=", "==", "!=", "gt", "lt")
_OPERATORS = (*_BINARY, "exists", "!")
_FROM_API = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "!"}
_INT64 = re.compile(r"[+-]?[0-9]+")


class SelectorError(ValueError):
    """An invalid selector; the text is the message for the client."""


@dataclass(frozen=True, slots=True)
class LabelRequirement:
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
        left, right = int64(value), int64(self.values[0])
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


MANY = 16
"""Selectors of more terms, or of more values in one, are large: there are tests for them."""


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """All requirements must hold. An empty selector matches everything, NOTHING nothing."""

    requirements: tuple[LabelRequirement, ...] = ()
    matches_nothing: bool = False
    tests: LabelTests | None = field(default=None, compare=False, repr=False)
    """The same as the requirements, for a large selector."""

    @property
    def empty(self) -> bool:
        """Whether everything matches."""
        return not self.requirements and not self.matches_nothing

    def matches(self, labels: Labels | None) -> bool:
        if self.matches_nothing:
            return False
        found = labels or {}
        if self.tests is not None:
            return self.tests.hold(found)
        return all(requirement.matches(found) for requirement in self.requirements)

    def __str__(self) -> str:
        return ",".join(str(requirement) for requirement in self.requirements)


class LabelTests:
    """What a large selector asks for, by label: the time of a test depends on the object."""

    __slots__ = ("_absent", "_by_key", "_present")

    def __init__(self) -> None:
        self._present: set[str] = set()
        self._absent: set[str] = set()
        self._by_key: dict[str, _ValueTest] = {}

    def add(self, requirement: LabelRequirement) -> None:
        key, operator = requirement.key, requirement.operator
        if operator == "!":
            self._absent.add(key)
            return
        if operator not in {"!=", "notin"}:
            self._present.add(key)
        if operator != "exists":
            self._by_key.setdefault(key, _ValueTest()).add(requirement)

    def hold(self, labels: Labels) -> bool:
        if not self._present.issubset(labels) or not self._absent.isdisjoint(labels):
            return False
        by_key = self._by_key
        for key, value in labels.items():
            test = by_key.get(key)
            if test is not None and not test.holds(value):
                return False
        return True


class _ValueTest:
    """All that is asked of one label's value, if it is there."""

    __slots__ = ("_allowed", "_comparisons", "_excluded")

    def __init__(self) -> None:
        self._allowed: frozenset[str] | None = None
        self._excluded: set[str] = set()
        self._comparisons: dict[str, LabelRequirement] = {}
        """The narrowest of each kind."""

    def add(self, requirement: LabelRequirement) -> None:
        operator = requirement.operator
        if operator in {"=", "==", "in"}:
            values = frozenset(requirement.values)
            self._allowed = values if self._allowed is None else self._allowed & values
        elif operator in {"!=", "notin"}:
            self._excluded.update(requirement.values)
        else:
            narrowest = self._comparisons.get(operator)
            if narrowest is None or narrowest.compares(requirement.values[0]):
                self._comparisons[operator] = requirement

    def holds(self, value: str) -> bool:
        if self._allowed is not None and value not in self._allowed:
            return False
        if value in self._excluded:
            return False
        return all(requirement.compares(value) for requirement in self._comparisons.values())


EVERYTHING = LabelSelector()
NOTHING = LabelSelector(matches_nothing=True)


_KEEP_MAX = 512
"""Longer texts are parsed anew each time: clients do not fill our memory."""


_SORT_MAX = 4096
"""More terms or values stay in the order in which they were sent."""


def parse(text: str) -> LabelSelector:
    """The selector a text means; raises SelectorError in upstream's words."""
    return _known(text) if len(text) <= _KEEP_MAX else at_once(parse_in_steps(text))


def parse_in_steps(text: str) -> Steps[LabelSelector]:
    requirements = yield from _Parser(text).parse()
    return (yield from _selector(requirements))


@lru_cache(maxsize=2048)
def _known(text: str) -> LabelSelector:
    return at_once(parse_in_steps(text))


def _selector(requirements: list[LabelRequirement]) -> Steps[LabelSelector]:
    if len(requirements) <= _SORT_MAX:
        requirements.sort(key=lambda requirement: requirement.key)
    is_large = len(requirements) > MANY or any(len(r.values) > MANY for r in requirements)
    if not is_large:
        return LabelSelector(tuple(requirements))
    tests = LabelTests()
    for requirement in requirements:
        tests.add(requirement)
        yield
    return LabelSelector(tuple(requirements), tests=tests)


def from_label_selector(selector: Mapping[str, Any] | None) -> LabelSelector:
    """The selector of a LabelSelector (matchLabels, matchExpressions); None matches nothing."""
    return at_once(from_label_selector_in_steps(selector))


def from_label_selector_in_steps(selector: Mapping[str, Any] | None) -> Steps[LabelSelector]:
    if selector is None:
        return NOTHING
    requirements: list[LabelRequirement] = []
    for key, value in (selector.get("matchLabels") or {}).items():
        requirements.append(new_requirement(key, "=", [value]))
        yield
    for expression in selector.get("matchExpressions") or ():
        operator = _FROM_API.get(expression.get("operator", ""))
        if operator is None:
            name = go_quote(expression.get("operator", ""))
            raise SelectorError(f"{name} is not a valid label selector operator")
        values = expression.get("values") or []
        checked = _checked(expression.get("key", ""), operator, values)
        requirements.append((yield from checked))
    return (yield from _selector(requirements))


def to_conditions(
    selector: LabelSelector,
) -> tuple[tuple[Condition, ...], Callable[[str], bool] | None]:
    """What the store can test on the terms text, and a test for what it cannot say (or None).

    Of a large selector the store tests some terms, so that it need not show every object.
    """
    if selector.matches_nothing:
        return (Condition((terms.NEVER,)),), None
    tests = selector.tests
    if tests is not None:
        small = (r for r in selector.requirements[: 4 * MANY] if len(r.values) <= MANY)
        some = tuple(_condition(requirement) for requirement in islice(small, MANY))
        return some, lambda text: tests.hold(terms.labels_of(text))
    comparisons = [r for r in selector.requirements if r.operator in {"gt", "lt"}]
    return tuple(map(_condition, selector.requirements)), _residual(comparisons)


def _condition(requirement: LabelRequirement) -> Condition:
    """The requirement itself; for `>` and `<` only that there is such a label."""
    key, operator = requirement.key, requirement.operator
    if operator in {"exists", "!", "gt", "lt"}:
        return Condition((terms.label_key_term(key),), operator == "!")
    choices = tuple(terms.label_term(key, value) for value in requirement.values)
    return Condition(choices, operator in {"!=", "notin"})


def _residual(comparisons: Sequence[LabelRequirement]) -> Callable[[str], bool] | None:
    if not comparisons:
        return None

    def holds(text: str) -> bool:
        return all(c.compares(terms.label_value(text, c.key)) for c in comparisons)

    return holds


def new_requirement(key: str, operator: str, values: Sequence[str]) -> LabelRequirement:
    """A checked requirement; raises SelectorError with all that is wrong."""
    return at_once(_checked(key, operator, values))


def _checked(key: str, operator: str, values: Sequence[str]) -> Steps[LabelRequirement]:
    errors = [*_key_errors(key, "key"), *_arity_errors(operator, values)]
    for index, value in enumerate(values):
        messages = names.label_value(value)
        if messages:
            errors.append(invalid(f"values[{index}][{key}]", value, "; ".join(messages)))
            if len(errors) > _MOST_ERRORS:
                break
        yield
    if errors:
        raise SelectorError(aggregate(errors))
    return LabelRequirement(key, operator, tuple(values))


_MOST_ERRORS = 500


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
        if int64(value) is None:
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


def int64(text: str | None) -> int | None:
    """The number a label's value stands for; None if it is no integer of 64 bits."""
    if text is None or not _INT64.fullmatch(text):
        return None
    number = int(text)
    return number if -(1 << 63) <= number < (1 << 63) else None


# The parser. Tokens are (kind, text); `in` and `notin` are keywords only where an operator
# is expected, otherwise they are identifiers.

_TOKEN = re.compile(r"[ \t\r\n]*(==|!=|[=!(),<>]|[^=!(),<> \t\r\n\0]+\0?)")
_SPECIAL = frozenset(("==", "!=", "=", "!", "(", ")", ",", "<", ">"))
_END = ""
_IDENTIFIER = "identifier"


class _Parser:
    def __init__(self, text: str) -> None:
        self._tokens = _tokens(text)
        self._next = next(self._tokens)

    def parse(self) -> Steps[list[LabelRequirement]]:
        requirements: list[LabelRequirement] = []
        while True:
            kind, literal = self._next
            if kind == _END:
                return requirements
            if kind not in {_IDENTIFIER, "!"}:
                raise SelectorError(
                    f"found '{literal}', expected: !, identifier, or 'end of string'"
                )
            try:
                requirements.append((yield from self._requirement()))
            except SelectorError as error:
                raise SelectorError(f"unable to parse requirement: {error}") from None
            kind, literal = self._take()
            if kind == _END:
                return requirements
            if kind != ",":
                raise SelectorError(f"found '{literal}', expected: ',' or 'end of string'")
            kind, literal = self._next
            if kind not in {_IDENTIFIER, "!"}:
                raise SelectorError(f"found '{literal}', expected: identifier after ','")

    def _take(self) -> tuple[str, str]:
        token = self._next
        self._next = next(self._tokens, token)  # the end stays where it is
        return token

    def _requirement(self) -> Steps[LabelRequirement]:
        yield
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
            return LabelRequirement(literal, "!")
        if self._next[0] in {_END, ","}:
            return LabelRequirement(literal, "exists")
        operator = self._operator()
        if operator in {"in", "notin"}:
            values: Iterable[str] = yield from self._set()
        else:
            values = (self._exact(),)
        return (yield from _checked(literal, operator, list(values)))

    def _operator(self) -> str:
        kind, literal = self._take()
        if literal in {"in", "notin"} or kind in {"=", "==", "!="}:
            return literal
        if kind in {"<", ">"}:
            return "lt" if kind == "<" else "gt"
        raise SelectorError(f"found '{literal}', expected: {', '.join(_BINARY)}")

    def _set(self) -> Steps[Iterable[str]]:
        kind, literal = self._take()
        if kind != "(":
            raise SelectorError(f"found '{literal}' expected: '('")
        kind, literal = self._next
        if kind == ")":
            self._take()
            return ("",)
        if kind not in {_IDENTIFIER, ","}:
            raise SelectorError(f"found '{literal}', expected: ',', ')' or identifier")
        values = yield from self._identifiers()
        self._take()
        return sorted(values) if len(values) <= _SORT_MAX else values

    def _identifiers(self) -> Steps[dict[str, None]]:
        """Up to, not including, the closing parenthesis; an empty place is the empty value."""
        values: dict[str, None] = {}
        while True:
            yield
            kind, literal = self._take()
            following, following_literal = self._next
            if kind == _IDENTIFIER:
                values[literal] = None
                if following == ")":
                    return values
                if following != ",":
                    raise SelectorError(f"found '{following_literal}', expected: ',' or ')'")
            elif kind == ",":
                if not values or following in {")", ","}:
                    values[""] = None
                if following == ")":
                    return values
            else:
                raise SelectorError(f"found '{literal}', expected: ',', or identifier")

    def _exact(self) -> str:
        if self._next[0] in {_END, ","}:
            return ""
        kind, literal = self._take()
        if kind != _IDENTIFIER:
            raise SelectorError(f"found '{literal}', expected: identifier")
        return literal


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    """The tokens up to the end, which is marked; a NUL ends an identifier or the text."""
    position = 0
    while match := _TOKEN.match(text, position):
        literal = match[1].rstrip("\0")
        yield (literal if literal in _SPECIAL else _IDENTIFIER, literal)
        position = match.end()
    yield (_END, "")
