"""Timers and tasks of the process itself, which keep no request alive.

A timer remembers the context in which it was set, and with it the request that was served then:
its body, its connection. Housekeeping that sets its own timer again would keep it for ever.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import Context
from typing import Any


def call_later(seconds: float, callback: Callable[..., object], *args: Any) -> asyncio.TimerHandle:
    """Like the event loop's, without the context of the caller."""
    return asyncio.get_running_loop().call_later(seconds, callback, *args, context=Context())
