"""Limits on waiting requests and their bodies, per user, per cluster and in total. Pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RoomLimits:
    requests: int = 256
    """Of one user, over all clusters."""
    octets: int = 128 << 20
    """Of all bodies that wait; of one user a quarter, of one cluster half."""
    of_cluster: int = 4
    """How many times as many requests of one cluster may wait."""
    in_all: int = 32
    """How many times as many in all."""


class WaitingRoom:
    """Counts waiting requests of all queues. No state is kept for callers without waiting requests."""

    def __init__(self, limits: RoomLimits) -> None:
        self._limits = limits
        self.requests = 0
        self.octets = 0
        self._users: dict[str, list[int]] = {}
        self._clusters: dict[str, list[int]] = {}

    def enter(self, user: str, cluster: str, size: int) -> bool:
        """False if there is no room: the request is refused."""
        limits = self._limits
        of_user = self._users.get(user, (0, 0))
        of_cluster = self._clusters.get(cluster, (0, 0))
        if (
            of_user[0] >= limits.requests
            or of_cluster[0] >= limits.of_cluster * limits.requests
            or self.requests >= limits.in_all * limits.requests
            or of_user[1] + size > limits.octets // 4
            or of_cluster[1] + size > limits.octets // 2
            or self.octets + size > limits.octets
        ):
            return False
        self.requests += 1
        self.octets += size
        _add(self._users, user, 1, size)
        _add(self._clusters, cluster, 1, size)
        return True

    def leave(self, user: str, cluster: str, size: int) -> None:
        self.requests -= 1
        self.octets -= size
        _add(self._users, user, -1, -size)
        _add(self._clusters, cluster, -1, -size)

    def of_user(self, name: str) -> int:
        """Requests of one user that wait."""
        return self._users.get(name, (0, 0))[0]

    def of_cluster(self, name: str) -> int:
        return self._clusters.get(name, (0, 0))[0]

    @property
    def is_empty(self) -> bool:
        return not (self.requests or self.octets or self._users or self._clusters)


def _add(counts: dict[str, list[int]], name: str, number: int, size: int) -> None:
    count = counts.setdefault(name, [0, 0])
    count[0] += number
    count[1] += size
    if not count[0]:
        del counts[name]
