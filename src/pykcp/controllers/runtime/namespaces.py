"""What controllers that fill namespaces need to know of them."""

from __future__ import annotations

from pykcp.clients.interface import Change
from pykcp.machinery.status import StatusError
from pykcp.machinery.terms import field_term

_ACTIVE = field_term("status.phase", "Active")


def is_now_active(change: Change) -> bool:
    """Whether a change of a namespace leaves it there and active."""
    return not change.deleted and _ACTIVE in change.terms


def is_terminating(error: StatusError) -> bool:
    """Whether a write was refused because its namespace is going, which needs no retry."""
    return any(cause.reason == "NamespaceTerminating" for cause in error.causes)
