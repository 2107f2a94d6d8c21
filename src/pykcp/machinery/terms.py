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

from collections.abc import Mapping
from typing import NamedTuple

TERM_SEPARATOR = "\x1f"
NEVER = TERM_SEPARATOR * 2
"""A text that occurs in no terms: there are no empty ones."""
_ESCAPE = "\x1e"


class Condition(NamedTuple):
    """True if any of the substrings occurs in the terms; the opposite when negated."""

    any_of: tuple[str, ...]
    negated: bool = False


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


def _escape(value: str) -> str:
    if TERM_SEPARATOR in value or _ESCAPE in value:
        return value.replace(_ESCAPE, _ESCAPE + "e").replace(TERM_SEPARATOR, _ESCAPE + "s")
    return value
