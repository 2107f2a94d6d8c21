"""The path from the root of an object to a value, formatted only when a message needs it.

A walk that carries the text of its path copies all of it at every value that it meets, and a
key can be as long as a whole request. A chain of steps costs the same for each of them.
"""

from __future__ import annotations

from typing import TypeAlias

LazyPath: TypeAlias = "tuple[LazyPath, str] | None"
"""The steps before and the last one, which begins with what separates it: `.name`, `[3]`."""


def joined(steps: LazyPath) -> str:
    """The steps one after the other."""
    parts: list[str] = []
    while steps is not None:
        steps, part = steps
        parts.append(part)
    parts.reverse()
    return "".join(parts)


def spelled(steps: LazyPath) -> str:
    """The path as text, without the dot that it begins with."""
    return joined(steps).removeprefix(".")
