"""Servers that share one store, as the programs see them."""

from __future__ import annotations

from typing import Protocol


class ServerGroup(Protocol):
    @property
    def members(self) -> int:
        """Servers that are known, this one included."""

    @property
    def is_alone(self) -> bool:
        """Whether no other server can have acknowledged anything that cannot be read here."""

    @property
    def is_leader(self) -> bool:
        """Whether this server runs the controllers."""

    async def leading(self, wanted: bool) -> None:
        """Return when this server is the leader, or is not any more."""
