"""Label and field selectors as one thing that lists and watches understand."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from pykcp.machinery import fields, labels, terms
from pykcp.machinery.status import BadRequest
from pykcp.machinery.terms import NEVER, Condition, Predicate
from pykcp.steps import Steps, at_once


@dataclass(frozen=True, slots=True)
class Selection:
    """Which objects are meant.

    `name` and `namespace` are hints from the field selector that narrow the search.
    """

    key: str = ""
    """A canonical text: selections with the same text select the same."""
    conditions: tuple[Condition, ...] = ()
    residual: Callable[[str], bool] | None = None
    name: str = ""
    namespace: str = ""

    @property
    def selects_all(self) -> bool:
        return not self.conditions and self.residual is None

    def joined(self, other: Selection) -> Selection:
        """What both select; `self` has conditions only."""
        if other.selects_all:
            return self
        return replace(
            other, key=f"{self.key}&{other.key}", conditions=self.conditions + other.conditions
        )

    def matcher(self) -> Callable[[str], bool] | None:
        """A test on an object's terms; None if everything matches."""
        return terms.matcher(self.conditions, self.residual)


EVERYTHING = Selection()
NOTHING = Selection("nothing", (Condition((NEVER,)),))


_KEEP_MAX = 1024
"""Longer texts are parsed anew each time: clients do not fill our memory."""
_LARGE = 4096


def is_large(label_text: str, field_text: str) -> bool:
    """Whether selectors are so long that they are better parsed in slices."""
    return len(label_text) + len(field_text) > _LARGE


def select(
    label_text: str,
    field_text: str,
    known_fields: frozenset[str] | None,
    stored_names: Mapping[str, str] | None = None,
) -> Selection:
    """Parse both selectors; 400 with upstream's words if one is not understood."""
    if not label_text and not field_text:
        return EVERYTHING
    names = tuple(sorted(stored_names.items())) if stored_names else ()
    if len(label_text) + len(field_text) <= _KEEP_MAX:
        return _known(label_text, field_text, known_fields, names)
    return at_once(select_in_steps(label_text, field_text, known_fields, stored_names))


@lru_cache(maxsize=1024)
def _known(
    label_text: str,
    field_text: str,
    known_fields: frozenset[str] | None,
    stored_names: tuple[tuple[str, str], ...],
) -> Selection:
    return at_once(select_in_steps(label_text, field_text, known_fields, dict(stored_names)))


def select_in_steps(
    label_text: str,
    field_text: str,
    known_fields: frozenset[str] | None,
    stored_names: Mapping[str, str] | None = None,
) -> Steps[Selection]:
    try:
        label_selector = yield from labels.parse_in_steps(label_text)
        field_selector = yield from fields.parse_in_steps(field_text)
        yield from fields.check(field_selector, known_fields)
    except labels.SelectorError as error:
        raise BadRequest(str(error)) from error
    stored = yield from fields.renamed(field_selector, stored_names or {})
    conditions, residual = labels.to_conditions(label_selector)
    more, further = fields.to_conditions(stored)
    return Selection(
        _key(f"{label_text}&{field_text}"),
        conditions + more,
        _both(residual, further),
        field_selector.exact(fields.NAME) or "",
        field_selector.exact(fields.NAMESPACE) or "",
    )


def _key(text: str) -> str:
    return text if len(text) <= _KEEP_MAX else hashlib.sha256(text.encode()).hexdigest()


def _both(one: Predicate | None, other: Predicate | None) -> Predicate | None:
    if one is None or other is None:
        return one or other
    return lambda text: one(text) and other(text)
