"""Encoding of audit events: one line of JSON each, or upstream's legacy text. Pure.

An event is bytes from the beginning. Other forms (the legacy text, an event without bodies) are
derived from these bytes.
"""

from __future__ import annotations

import time
from typing import Any

import orjson

from pykcp.machinery.status import go_quote

TRUNCATED = "audit.k8s.io/truncated"
_LIST_HEAD = b'{"kind":"EventList","apiVersion":"audit.k8s.io/v1","metadata":{},"items":['


class MicrosecondTimestamps:
    """RFC 3339 with microseconds; the text of a second is made once."""

    __slots__ = ("_second", "_text")

    def __init__(self) -> None:
        self._second = -1
        self._text = ""

    def text(self, moment: float) -> str:
        second = int(moment)
        if second != self._second:
            self._second = second
            self._text = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second))
        # Quicker than a width in the format: the leading digit keeps the zeros.
        return f"{self._text}.{str(int((moment - second) * 1_000_000) + 1_000_000)[1:]}Z"


def event_list(lines: list[bytes]) -> bytes:
    return _LIST_HEAD + b",".join(lines) + b"]}"


def without_bodies(line: bytes) -> bytes:
    """The event without request and response, marked as such."""
    event: dict[str, Any] = orjson.loads(line)
    event.pop("requestObject", None)
    event.pop("responseObject", None)
    event.setdefault("annotations", {})[TRUNCATED] = "true"
    return orjson.dumps(event)


def legacy(line: bytes) -> bytes:
    """One line of text, `--audit-log-format=legacy`."""
    event: dict[str, Any] = orjson.loads(line)
    user, other = event["user"], event.get("impersonatedUser")
    name = user.get("username") or "<none>"
    groups = _quoted(user.get("groups")) if user.get("username") else ""
    as_user = other.get("username", "") if other else "<self>"
    as_groups = _quoted(other.get("groups")) if other else ""
    status = event.get("responseStatus")
    fields = {
        "id": event["auditID"],
        "stage": event["stage"],
        "ip": (event.get("sourceIPs") or ["<unknown>"])[0],
        "method": event["verb"],
        "user": name,
        "groups": groups or "<none>",
        "as": as_user,
        "asgroups": as_groups or "<lookup>",
        "user-agent": event.get("userAgent", ""),
        "namespace": (event.get("objectRef") or {}).get("namespace") or "<none>",
        "uri": event["requestURI"],
    }
    words = " ".join(f"{key}={go_quote(value)}" for key, value in fields.items())
    code = status.get("code", 0) if status else "<deferred>"
    return f'{event["requestReceivedTimestamp"]} AUDIT: {words} response="{code}"'.encode()


def _quoted(values: list[str] | None) -> str:
    return ",".join(go_quote(value) for value in values or ())
