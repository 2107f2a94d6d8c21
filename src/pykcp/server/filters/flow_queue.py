"""Seats for requests, shared out fairly. Pure: no clock, no event loop.

A request is of a *tenant* (a logical cluster) and a *user* in it. There are so many seats;
a tenant may have half of them at most and a user a quarter, so that there is room for
others at once. Who finds no seat waits. A seat that becomes free goes to the next tenant in
turn, and there to the next user in turn, whatever the length of their queues: a flood waits
behind itself. Nothing is kept of those who neither run nor wait.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """How many requests run and wait at a time."""

    seats: int = 256
    queue_length: int = 256
    """Requests of one user that may wait; of one tenant four times, in all 32 times as many."""
    queue_bytes: int = 128 << 20
    """Octets of bodies that waiting requests hold in all; of one user a quarter."""

    @property
    def per_tenant(self) -> int:
        return max(1, self.seats // 2)

    @property
    def per_user(self) -> int:
        return max(1, self.seats // 4)


class Waiting:
    """A request in its queue."""

    __slots__ = ("size", "tenant", "user", "wake")

    def __init__(self, tenant: str, user: str, size: int, wake: Callable[[], None]) -> None:
        self.tenant, self.user, self.size, self.wake = tenant, user, size, wake


class _User:
    __slots__ = ("queue", "queued_bytes", "running")

    def __init__(self) -> None:
        self.running = 0
        self.queue: deque[Waiting] = deque()
        self.queued_bytes = 0


class _Tenant:
    __slots__ = ("queued", "running", "turns", "users")

    def __init__(self) -> None:
        self.running = 0
        self.queued = 0
        self.users: dict[str, _User] = {}
        self.turns: dict[str, None] = {}
        """Users with somebody waiting, whose turn is next first."""


class FairQueue:
    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._seats, self._per_tenant = limits.seats, limits.per_tenant
        self._per_user = limits.per_user
        self.running = 0
        self.queued = 0
        self._queued_bytes = 0
        self._tenants: dict[str, _Tenant] = {}
        self._turns: dict[str, None] = {}

    def start(self, tenant_name: str, user_name: str) -> bool:
        """Take a seat if there is one for this user and nobody of theirs waits already."""
        tenant = self._tenants.get(tenant_name)
        if tenant is None:
            if self.running >= self._seats:
                return False
            tenant = self._tenants[tenant_name] = _Tenant()
        user = tenant.users.get(user_name)
        if user is None:
            if not self._has_seat(tenant):
                self._forget(tenant_name, tenant)
                return False
            user = tenant.users[user_name] = _User()
        elif user.queue or user.running >= self._per_user or not self._has_seat(tenant):
            return False
        user.running += 1
        tenant.running += 1
        self.running += 1
        return True

    def wait(
        self, tenant_name: str, user_name: str, size: int, wake: Callable[[], None]
    ) -> Waiting | None:
        """Queue a request for which `start` had no seat; None if its queue is full.

        `wake` is called when it has got a seat.
        """
        limits = self.limits
        tenant = self._tenants.get(tenant_name) or _Tenant()
        user = tenant.users.get(user_name) or _User()
        if (
            len(user.queue) >= limits.queue_length
            or tenant.queued >= 4 * limits.queue_length
            or self.queued >= 32 * limits.queue_length
            or user.queued_bytes + size > limits.queue_bytes // 4
            or self._queued_bytes + size > limits.queue_bytes
        ):
            return None
        waiting = Waiting(tenant_name, user_name, size, wake)
        self._tenants[tenant_name] = tenant
        tenant.users[user_name] = user
        user.queue.append(waiting)
        tenant.turns.setdefault(user_name)
        self._turns.setdefault(tenant_name)
        self._note(tenant, user, waiting, 1)
        return waiting

    def abandon(self, waiting: Waiting) -> bool:
        """Give up waiting; False if it has a seat already."""
        tenant = self._tenants.get(waiting.tenant)
        user = tenant.users.get(waiting.user) if tenant else None
        if tenant is None or user is None or waiting not in user.queue:
            return False
        user.queue.remove(waiting)
        self._note(tenant, user, waiting, -1)
        self._tidy(waiting.tenant, tenant, waiting.user, user)
        return True

    def finish(self, tenant_name: str, user_name: str) -> None:
        """Give a seat back, and to whom it is due next."""
        tenant = self._tenants[tenant_name]
        user = tenant.users[user_name]
        user.running -= 1
        tenant.running -= 1
        self.running -= 1
        if not user.running and not user.queue:
            del tenant.users[user_name]
            self._forget(tenant_name, tenant)
        if self._turns:
            self._seat_next()

    def _has_seat(self, tenant: _Tenant) -> bool:
        return self.running < self._seats and tenant.running < self._per_tenant

    def _seat_next(self) -> None:
        while self.running < self._seats:
            found = self._whose_turn()
            if found is None:
                return
            tenant_name, user_name = found
            tenant = self._tenants[tenant_name]
            user = tenant.users[user_name]
            waiting = user.queue.popleft()
            user.running += 1
            tenant.running += 1
            self.running += 1
            self._note(tenant, user, waiting, -1)
            # Served: to the end of both lines.
            del tenant.turns[user_name], self._turns[tenant_name]
            if user.queue:
                tenant.turns[user_name] = None
            if tenant.turns:
                self._turns[tenant_name] = None
            waiting.wake()

    def _whose_turn(self) -> tuple[str, str] | None:
        for tenant_name in self._turns:
            tenant = self._tenants[tenant_name]
            if tenant.running >= self._per_tenant:
                continue
            for user_name in tenant.turns:
                if tenant.users[user_name].running < self._per_user:
                    return tenant_name, user_name
        return None

    def _note(self, tenant: _Tenant, user: _User, waiting: Waiting, sign: int) -> None:
        self.queued += sign
        tenant.queued += sign
        user.queued_bytes += sign * waiting.size
        self._queued_bytes += sign * waiting.size

    def _tidy(self, tenant_name: str, tenant: _Tenant, user_name: str, user: _User) -> None:
        """Drop what nobody needs after somebody gave up."""
        if not user.queue:
            tenant.turns.pop(user_name, None)
            if not user.running:
                del tenant.users[user_name]
        if not tenant.turns:
            self._turns.pop(tenant_name, None)
        self._forget(tenant_name, tenant)

    def _forget(self, tenant_name: str, tenant: _Tenant) -> None:
        if not tenant.users:
            del self._tenants[tenant_name]

    @property
    def is_idle(self) -> bool:
        """Nothing is kept of anybody."""
        return not self._tenants and not self._turns
