"""Verbs on subresources, and kinds that are answered rather than stored."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from pykcp.server.call import Call

Handler = Callable[[Call], Coroutine[Any, Any, None] | None]


class Subresources:
    def __init__(self, *parts: object) -> None:
        self._parts = parts

    def find(self, call: Call) -> Handler | None:
        return None
