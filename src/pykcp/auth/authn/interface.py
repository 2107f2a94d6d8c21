"""The interface of authenticators: their arguments and results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Protocol, TypeAlias

from pykcp.auth.user import User

Annotations: TypeAlias = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Authenticated:
    """A proven identity."""

    user: User
    audiences: tuple[str, ...] = ()
    """Which of the audiences asked for the credential is good for."""
    expires: float = inf
    """Wall-clock seconds after which the proof must be made again."""
    is_portable: bool = True
    """Whether the same credential proves the same in every logical cluster."""
    warnings: tuple[str, ...] = ()
    """Texts for `Warning` headers."""
    annotations: Annotations = ()
    """For the audit event."""


class CredentialRejected(Exception):
    """A credential that was recognised and is not good; the text goes to the log only."""

    def __init__(self, text: str, annotations: Annotations = ()) -> None:
        super().__init__(text)
        self.annotations = annotations


class TokenAuthenticator(Protocol):
    async def authenticate(
        self, token: str, audiences: Sequence[str], cluster: str, now: float
    ) -> Authenticated | None:
        """The user of this bearer token; None if another authenticator is responsible.

        `audiences` are the requested ones (empty: any). Raises Rejected.
        """


def common_audiences(accepted: Sequence[str], requested: Sequence[str]) -> tuple[str, ...] | None:
    """The audiences of a credential that knows none itself; None if it must be refused."""
    if not requested:
        return ()
    wanted = frozenset(requested)
    common = tuple(audience for audience in accepted if audience in wanted)
    return None if accepted and not common else common
