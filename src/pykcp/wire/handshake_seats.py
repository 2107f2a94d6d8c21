"""Who may shake hands: so many connections in total, and so many of one address.

A connection of an address that has all of its seats waits for one of them, unread and without a TLS
session: programs that open a thousand connections at once are served, and an address that never
finishes its handshakes makes nobody else wait. Pure: no clock, no socket.
"""

from __future__ import annotations

import enum
from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

Holder = TypeVar("Holder", bound=Hashable)


class Seat(enum.Enum):
    TAKEN = enum.auto()
    """The handshake may begin."""
    AWAITED = enum.auto()
    """The handshake begins when `leave` returns the connection."""
    NONE = enum.auto()
    """There are too many handshakes of all addresses."""


class HandshakeSeats(Generic[Holder]):
    def __init__(self, limit: int, limit_per_address: int) -> None:
        self._limit = limit
        self._limit_per_address = limit_per_address
        self._seated: dict[Holder, str] = {}
        self._seated_of: dict[str, int] = {}
        self._waiting: dict[Holder, str] = {}
        self._waiting_of: dict[str, OrderedDict[Holder, None]] = {}

    def take(self, holder: Holder, address: str) -> Seat:
        if self._seated_of.get(address, 0) >= self._limit_per_address:
            self._waiting[holder] = address
            self._waiting_of.setdefault(address, OrderedDict())[holder] = None
            return Seat.AWAITED
        if len(self._seated) >= self._limit:
            return Seat.NONE
        self._sit_down(holder, address)
        return Seat.TAKEN

    def leave(self, holder: Holder) -> Holder | None:
        """Its handshake is over, or it has gone; who takes its seat and may begin now."""
        waited_at = self._waiting.get(holder)
        if waited_at is not None:
            self._stop_waiting(holder, waited_at)
            return None
        address = self._seated.pop(holder, None)
        if address is None:
            return None
        self._seated_of[address] -= 1
        if not self._seated_of[address]:
            del self._seated_of[address]
        queue = self._waiting_of.get(address)
        if queue is None:
            return None
        following = next(iter(queue))
        self._stop_waiting(following, address)
        self._sit_down(following, address)
        return following

    def _sit_down(self, holder: Holder, address: str) -> None:
        self._seated[holder] = address
        self._seated_of[address] = self._seated_of.get(address, 0) + 1

    def _stop_waiting(self, holder: Holder, address: str) -> None:
        del self._waiting[holder]
        queue = self._waiting_of[address]
        del queue[holder]
        if not queue:
            del self._waiting_of[address]
