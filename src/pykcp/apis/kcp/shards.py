"""Annotations of Shards with limits that operators set."""

from __future__ import annotations

from pykcp.types import Object

HARD_LIMIT_ANNOTATION = "core.kcp.io/max-logical-clusters"
"""No logical cluster is created on the shard beyond this number."""
SOFT_LIMIT_ANNOTATION = "core.kcp.io/preferred-max-logical-clusters"
"""Beyond this number, workspaces are placed on other shards if there are any below theirs."""


def limit_of(shard: Object, annotation: str) -> int | None:
    """A limit that a Shard has; what is no number is no limit."""
    text = (shard["metadata"].get("annotations") or {}).get(annotation) or ""
    return int(text) if text.isdecimal() and text.isascii() and len(text) < 19 else None
