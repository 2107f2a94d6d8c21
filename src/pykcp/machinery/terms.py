"""Terms: the text by which stored values are filtered without decoding them.

A label `app=web` is the term `l:app=web`, a selectable field `status.phase=Active` the term
`f:status.phase=Active`. Terms stand between separators, with one at both ends, so that
"has this label with this value" is one substring search, and so is "has this label at all"
(`<separator>l:app=`). A field without a value has no term: for field selectors an absent
field and an empty one are the same thing.

Label keys and values are validated before they get here and cannot hold a separator. Field
values can be any text (an event's reason), so they are escaped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

TERM_SEPARATOR = "\x1f"
NEVER = TERM_SEPARATOR * 2
"""A text that occurs in no terms: there are no empty ones."""
_ESCAPE = "\x1e"


class Condition(NamedTuple):
    """True if any of the substrings occurs in the terms; the opposite when negated."""

    any_of: tuple[str, ...]
    negated: bool = False


Predicate = Callable[[str], bool]
"""A test on terms."""


def matcher(conditions: Sequence[Condition], residual: Predicate | None = None) -> Predicate | None:
    """One test for all conditions and for what they cannot say; None if nothing is asked."""
    if not conditions:
        return residual
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


def label_key_term(key: str) -> str:
    """Occurs in the terms if the label is there, whatever its value."""
    return f"\x1fl:{key}="


def label_term(key: str, value: str) -> str:
    """Occurs in the terms if the label is there with this value."""
    return f"\x1fl:{key}={value}\x1f"


def field_key_term(path: str) -> str:
    """Occurs in the terms if the field has a value."""
    return f"\x1ff:{path}="


def field_term(path: str, value: str) -> str:
    """Occurs in the terms if the field has this value (which is not empty)."""
    return f"\x1ff:{path}={_escape(value)}\x1f"


def label_terms(labels: Mapping[str, str] | None, fields: Mapping[str, str] | None = None) -> str:
    """The terms text of an object with these labels and selectable fields ("" if empty)."""
    parts = [f"l:{key}={value}" for key, value in labels.items()] if labels else []
    if fields:
        parts += [f"f:{path}={_escape(value)}" for path, value in fields.items() if value]
    return f"\x1f{TERM_SEPARATOR.join(parts)}\x1f" if parts else ""


def label_value(terms: str, key: str) -> str | None:
    """The value of a label as the terms text has it; None if the label is not there."""
    lead = label_key_term(key)
    start = terms.find(lead)
    if start < 0:
        return None
    start += len(lead)
    return terms[start : terms.index(TERM_SEPARATOR, start)]


def labels_of(terms: str) -> dict[str, str]:
    """The labels as the terms text has them."""
    return _pairs(terms, "l:")


def fields_of(terms: str) -> dict[str, str]:
    """The selectable fields that have a value."""
    found = _pairs(terms, "f:")
    if _ESCAPE in terms:
        return {path: _unescape(value) for path, value in found.items()}
    return found


def _pairs(terms: str, kind: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for term in terms.split(TERM_SEPARATOR):
        if term.startswith(kind):
            key, _, value = term.partition("=")
            found[key[2:]] = value
    return found


def _unescape(value: str) -> str:
    return value.replace(_ESCAPE + "s", TERM_SEPARATOR).replace(_ESCAPE + "e", _ESCAPE)


def _escape(value: str) -> str:
    if TERM_SEPARATOR in value or _ESCAPE in value:
        return value.replace(_ESCAPE, _ESCAPE + "e").replace(TERM_SEPARATOR, _ESCAPE + "s")
    return value
