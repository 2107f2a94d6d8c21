"""Several errors in one line, as upstream aggregates them."""

from __future__ import annotations

from collections.abc import Sequence

MAX_TOLD = 100


def aggregate(messages: Sequence[str]) -> str:
    """As upstream's aggregates print: each text once, in brackets if there are several.

    The number of texts is limited.
    """
    distinct = list(dict.fromkeys(messages))
    if len(distinct) > MAX_TOLD:
        distinct[MAX_TOLD:] = [f"and {len(distinct) - MAX_TOLD} more"]
    return distinct[0] if len(distinct) == 1 else "[" + ", ".join(distinct) + "]"
