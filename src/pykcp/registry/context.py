"""Who asks, where and how: what every verb is told besides the object itself."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

from pykcp.auth.user import User


@dataclass(slots=True)
class RequestContext:
    """One request, from HTTP, a controller or a virtual workspace alike."""

    cluster: str
    """The logical cluster's name, or `*` for a read over all of them."""
    user: User
    manager: str = "unknown"
    """The field manager: asked for, or taken from the user agent."""
    dry_run: bool = False
    field_validation: str = "Warn"
    """Ignore, Warn or Strict."""
    warnings: list[str] = field(default_factory=list)
    """Texts for `Warning` headers."""
    audit: dict[str, str] = field(default_factory=dict)
    """Annotations for the audit event."""
    audit_bodies: dict[str, str] = field(default_factory=dict)
    """Annotations that show contents: for events of level Request and above only."""
    query: Mapping[str, Sequence[str]] | None = None
    """The query of an HTTP request; admission shows webhooks what was asked for there."""

    authorize_create: Callable[[], Awaitable[None]] | None = None
    """Asked before an update creates what it finds missing; may refuse."""
    forthcoming: frozenset[str] = frozenset()
    """Namespaces that the same write creates, so that others of its objects can lie in them."""
    is_newborn: bool = False
    """The same write makes the logical cluster: there is nothing in it yet that has a say."""

    def warn(self, text: str) -> None:
        if text not in self.warnings:
            self.warnings.append(text)
