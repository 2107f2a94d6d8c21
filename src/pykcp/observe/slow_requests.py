"""The last requests that took long, for `/debug/slow-requests`."""

from __future__ import annotations

import time
from collections import deque
from typing import NamedTuple

import orjson

THRESHOLD = 0.5
"""Seconds from which a request counts as slow; watches never do."""
_KEPT = 100
_MAX_PATH = 500


class SlowRequest(NamedTuple):
    ended: float
    """Seconds since 1970."""
    seconds: float
    method: str
    path: str
    user: str
    cluster: str
    status: int


class SlowRequests:
    def __init__(self) -> None:
        self._last: deque[SlowRequest] = deque(maxlen=_KEPT)

    def note(
        self, seconds: float, method: str, path: str, user: str, cluster: str, status: int
    ) -> None:
        shown = path[:_MAX_PATH]
        self._last.append(SlowRequest(time.time(), seconds, method, shown, user, cluster, status))

    def describe(self) -> str:
        """As JSON, the last one first."""
        items = [
            {
                "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(one.ended)),
                "seconds": round(one.seconds, 3),
                "method": one.method,
                "path": one.path,
                "user": one.user,
                "cluster": one.cluster,
                "status": one.status,
            }
            for one in reversed(self._last)
        ]
        found = {"thresholdSeconds": THRESHOLD, "items": items}
        return orjson.dumps(found, option=orjson.OPT_INDENT_2).decode() + "\n"
