"""Reading JSON that no schema has seen yet: a value of another type counts as absent.

Mutating admission runs before an object is checked against its schema, as upstream's does. It
reads through these, so that an object of the wrong shape reaches the check that words the error.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pykcp.types import Object


def mapping(value: Any) -> Object:
    """The value if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def mappings(value: Any) -> Iterator[Object]:
    """The objects in a list; none if it is no list."""
    if isinstance(value, list):
        yield from (item for item in value if isinstance(item, dict))


def text(value: Any) -> str:
    """The value if it is a string, else an empty one."""
    return value if isinstance(value, str) else ""
