"""Annotations of Shards with limits that operators set."""

from __future__ import annotations

HARD_LIMIT_ANNOTATION = "core.kcp.io/max-logical-clusters"
"""No logical cluster is created on the shard beyond this number."""
SOFT_LIMIT_ANNOTATION = "core.kcp.io/preferred-max-logical-clusters"
"""Beyond this number, workspaces are placed on other shards if there are any below theirs."""
