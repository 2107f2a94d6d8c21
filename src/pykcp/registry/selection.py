"""Label and field selectors as one thing that lists and watches understand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from pykcp.machinery import fields, labels
from pykcp.machinery.status import BadRequest
from pykcp.machinery.terms import NEVER, Condition


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
        if self.selects_all:
            return None
        return _matcher(self.conditions, self.residual)


def _matcher(
    conditions: tuple[Condition, ...], residual: Callable[[str], bool] | None
) -> Callable[[str], bool]:
    if residual is None and len(conditions) == 1 and len(conditions[0].any_of) == 1:
        text = conditions[0].any_of[0]
        if conditions[0].negated:
            return lambda terms: text not in terms
        return lambda terms: text in terms

    def matches(terms: str) -> bool:
        for any_of, negated in conditions:
            if any(text in terms for text in any_of) == negated:
                return False
        return residual is None or residual(terms)

    return matches


EVERYTHING = Selection()
NOTHING = Selection("nothing", (Condition((NEVER,)),))


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
    return _select(label_text, field_text, known_fields, names)


@lru_cache(maxsize=1024)
def _select(
    label_text: str,
    field_text: str,
    known_fields: frozenset[str] | None,
    stored_names: tuple[tuple[str, str], ...],
) -> Selection:
    try:
        conditions, residual = labels.to_conditions(labels.parse(label_text))
        field_selector = fields.check(fields.parse(field_text), known_fields)
    except labels.SelectorError as error:
        raise BadRequest(str(error)) from error
    renamed = dict(stored_names)
    stored = fields.Selector(
        tuple(replace(r, path=renamed.get(r.path, r.path)) for r in field_selector.requirements)
    )
    more, _ = fields.to_conditions(stored)
    return Selection(
        f"{label_text}&{field_text}",
        conditions + more,
        residual,
        field_selector.exact(fields.NAME) or "",
        field_selector.exact(fields.NAMESPACE) or "",
    )
