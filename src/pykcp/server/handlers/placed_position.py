"""Resource versions of pods in several clusters. Pure.

Each cluster counts by itself, and so does the workspace for pods that are stored in it. A version
of all of them has a part for each, `12.k3f9ab-678.x92abc-4455`: clients treat versions as opaque.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_FORM = re.compile(r"\d{1,20}(?:\.[a-z0-9]+-\d{1,20})+").fullmatch


@dataclass(slots=True)
class PodPosition:
    """How far a list or a watch has come."""

    stored: int
    """Of pods that are stored in the workspace; 0 if nothing is known of them."""
    clusters: dict[str, str] = field(default_factory=dict)
    """By the keys of clusters."""

    def __str__(self) -> str:
        parts = (f".{key}-{version}" for key, version in sorted(self.clusters.items()))
        return f"{self.stored}{''.join(parts)}"


def parse_position(text: str) -> PodPosition | None:
    """None if it is not one: a plain version, which is about stored pods only."""
    if _FORM(text) is None:
        return None
    stored, *parts = text.split(".")
    pairs = (part.partition("-") for part in parts)
    return PodPosition(int(stored), {key: version for key, _, version in pairs})
