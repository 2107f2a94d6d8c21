"""Long computations on what tenants and their clusters wrote, in worker processes if there are any.

They would hold up every other tenant of a shard: documents of clusters have megabytes, and
schemas may refer to each other so that they grow exponentially.
"""

from __future__ import annotations

import importlib
from typing import Any, Protocol


class Compute(Protocol):
    """Calls `module:function`, which has no side effects, with these arguments."""

    async def __call__(self, function: str, *args: Any, tenant: str) -> Any:
        """Its result, or its error. Raises StatusError if it takes too much time or memory."""


async def compute_here(function: str, *args: Any, tenant: str) -> Any:
    """In this process, for programs that serve one tenant."""
    module, _, name = function.partition(":")
    return getattr(importlib.import_module(module), name)(*args)
