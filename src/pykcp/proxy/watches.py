"""Watches that go on at another shard. Pure."""

from __future__ import annotations

from urllib.parse import parse_qsl, urlencode

_BEGINNING = frozenset(("resourceVersion", "resourceVersionMatch", "sendInitialEvents"))
"""What a watch begins with; it has begun before."""


def resumed_query(query: str, revision: int) -> str:
    """The query of a watch that goes on from a resource version."""
    fields = parse_qsl(query, keep_blank_values=True)
    kept = [(name, value) for name, value in fields if name not in _BEGINNING]
    return urlencode([*kept, ("resourceVersion", str(revision))])
