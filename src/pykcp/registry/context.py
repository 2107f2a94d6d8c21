"""The context of a request: user, logical cluster and options, passed to every verb."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

from pykcp.auth.user import User

_WARNINGS_LENGTH = 4096
_WARNING_LENGTH = 256


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
    audit_bodies: dict[str, Callable[[], str]] = field(default_factory=dict)
    """Annotations that show contents: for events of level Request and above only."""
    query: Mapping[str, Sequence[str]] | None = None
    """The query of an HTTP request; admission shows webhooks what was asked for there."""

    authorize_create: Callable[[], Awaitable[None]] | None = None
    """Asked when an update creates what it finds missing, once that is valid; may refuse."""
    forthcoming: frozenset[str] = frozenset()
    """Namespaces that the same write creates, for its other objects."""
    is_new: bool = False
    """The same write makes the logical cluster: nothing in it can refuse a write yet."""

    _warned: int = 0
    """The length of all warnings."""
    _cuts_warnings: bool = False
    """There was too much to warn of: warnings are cut to their beginnings."""

    def warn(self, text: str) -> None:
        """Add a warning for the client, once, within the limits of HTTP headers.

        Once warnings are longer than four thousand characters together, each is cut, and
        those that come later are left out. The numbers are upstream's.
        """
        if self._warned >= _WARNINGS_LENGTH and self._cuts_warnings:
            return
        if not text or text in self.warnings:
            return
        if not self._cuts_warnings and self._warned + len(text) > _WARNINGS_LENGTH:
            self._cuts_warnings = True
            self.warnings[:] = [given[:_WARNING_LENGTH] for given in self.warnings]
            self._warned = sum(map(len, self.warnings))
        if self._cuts_warnings:
            text = text[:_WARNING_LENGTH]
        self.warnings.append(text)
        self._warned += len(text)
