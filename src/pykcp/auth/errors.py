"""How several errors are told in one line."""

from __future__ import annotations

from collections.abc import Sequence


def aggregate(messages: Sequence[str]) -> str:
    """As upstream's aggregates print: each text once, in brackets if there are several."""
    distinct = list(dict.fromkeys(messages))
    return distinct[0] if len(distinct) == 1 else "[" + ", ".join(distinct) + "]"
