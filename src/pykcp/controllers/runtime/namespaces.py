"""What controllers that fill namespaces need to know of them."""

from __future__ import annotations

from pykcp.machinery.status import StatusError
from pykcp.machinery.terms import field_term
from pykcp.storage.interface import Event

_ACTIVE = field_term("status.phase", "Active")


def is_active_event(event: Event) -> bool:
    """Whether a change of a namespace leaves it there and active."""
    return not event.deleted and _ACTIVE in event.terms


def is_terminating(error: StatusError) -> bool:
    """Whether a write was refused because its namespace is going, which needs no retry."""
    return any(cause.reason == "NamespaceTerminating" for cause in error.causes)
