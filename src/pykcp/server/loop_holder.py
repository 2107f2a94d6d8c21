"""Names the handler or controller that keeps the event loop busy, and nothing of the content."""

from __future__ import annotations

from collections.abc import Sequence
from types import FrameType

from pykcp.observe.stalls import LoopHolder
from pykcp.registry.resource import Resource
from pykcp.server.call import Call

_PACKAGE = "pykcp."
_VERBS = frozenset(
    (
        "get",
        "list",
        "watch",
        "create",
        "update",
        "patch",
        "delete",
        "deletecollection",
        "post",
        "put",
    )
)
_PLUMBING = (
    "pykcp.aio",
    "pykcp.wire",
    "pykcp.server.app",
    "pykcp.server.chain",
    "pykcp.server.dispatch",
    "pykcp.server.mount",
    "pykcp.server.filters",
    "pykcp.virtual.serving",
    "pykcp.controllers.runtime",
)
"""Modules that everything passes through: they say little about what is being done."""


def identify(frames: Sequence[FrameType]) -> LoopHolder:
    """Name the handler or controller, and the request's verb and resource if there is one."""
    handler = _handler([str(f.f_globals.get("__name__", "")) for f in frames])
    call = next((found for f in frames if (found := _call_of(f)) is not None), None)
    if call is None:
        return LoopHolder(handler)
    info = call.info
    verb = info.verb if info.verb in _VERBS else "other"
    if not info.is_resource or not isinstance(call.resource, Resource):
        return LoopHolder(handler, verb)
    resource = f"{info.resource}.{info.group}" if info.group else info.resource
    return LoopHolder(handler, verb, resource)


def _handler(modules: Sequence[str]) -> str:
    own = [name for name in modules if name.startswith(_PACKAGE)]
    if not own:
        return modules[0].partition(".")[0] or "unknown"
    found = next((name for name in own if not name.startswith(_PLUMBING)), own[-1])
    return found.removeprefix(_PACKAGE)


def _call_of(frame: FrameType) -> Call | None:
    if not str(frame.f_globals.get("__name__", "")).startswith(_PACKAGE):
        return None
    found = frame.f_locals.get("call")
    return found if isinstance(found, Call) else None
