"""Division of replicas over clusters by Webster's method (Sainte-Laguë).

The next replica goes to the cluster with the largest weight / (2 · replicas + 1). A share is never
below its minimum or above its cap; one more replica changes exactly one cluster, and a cluster that
joins never raises the share of another.

`divide` begins with nothing, `divide_sticky` with the present shares and moves only what must move.
"""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

NO_CAP = 1 << 40
_LARGE = 256
"""Replicas from which most of them are assigned at once."""


@dataclass(frozen=True, slots=True)
class Share:
    name: str
    weight: int = 1
    minimum: int = 0
    cap: int = NO_CAP
    current: int = 0


@lru_cache(maxsize=1024)  # a decision asks twice for each cluster
def tie_breaker(seed: str, name: str) -> int:
    """The order of equal clusters: different for each object, so that the odd replica of many
    objects does not always go to the same cluster.
    """
    return int.from_bytes(hashlib.blake2b(f"{seed}/{name}".encode(), digest_size=6).digest(), "big")


def divide(total: int, shares: Sequence[Share], seed: str = "") -> dict[str, int]:
    """Shares by name, which add up to `total`, or to the caps if these are lower.

    Minima are met first. If they exceed the total, it is divided among them. Ties go to clusters
    that have a replica now, then by the seed.
    """
    if sum(min(share.minimum, share.cap) for share in shares) > total:
        bounded = [_Seat(share, 0, min(share.minimum, share.cap)) for share in shares]
        return _fill(total, bounded, seed)
    seats = [_Seat(share, min(share.minimum, share.cap), share.cap) for share in shares]
    if total >= _LARGE and not any(share.minimum for share in shares):
        _start_below(total, seats)
    return _fill(total, seats, seed)


def divide_sticky(total: int, shares: Sequence[Share], seed: str = "") -> dict[str, int]:
    """The same, from the present shares on: replicas are added or removed where that brings the
    division closest to the weights; none is moved that can stay.
    """
    lows = {share.name: min(share.minimum, share.cap) for share in shares}
    if sum(lows.values()) > total:
        return divide(total, shares, seed)
    start = {share.name: max(lows[share.name], min(share.cap, share.current)) for share in shares}
    if sum(start.values()) > total:
        return _reduce(total, shares, start, lows, seed)
    return _fill(total, [_Seat(share, start[share.name], share.cap) for share in shares], seed)


class _Seat:
    __slots__ = ("cap", "count", "share")

    def __init__(self, share: Share, count: int, cap: int) -> None:
        self.share, self.count, self.cap = share, count, cap


def _start_below(total: int, seats: Iterable[_Seat]) -> None:
    """Assign all but about one replica of each share at once.

    No share of Webster's method is more than one below its exact quota, and caps only raise the
    shares of the others.
    """
    weights = sum(seat.share.weight for seat in seats)
    for seat in seats:
        if weights:
            quota = total * seat.share.weight // weights
            seat.count = min(seat.cap, max(0, quota - 1))


def _fill(total: int, seats: Sequence[_Seat], seed: str) -> dict[str, int]:
    heap: list[tuple[float, int, int, int]] = []
    for index, seat in enumerate(seats):
        if seat.count < seat.cap and seat.share.weight > 0:
            heap.append(_claim(seat, index, seed))
    heapq.heapify(heap)
    remaining = total - sum(seat.count for seat in seats)
    while remaining > 0 and heap:
        index = heap[0][3]
        seat = seats[index]
        seat.count += 1
        remaining -= 1
        if seat.count < seat.cap:
            heapq.heapreplace(heap, _claim(seat, index, seed))
        else:
            heapq.heappop(heap)
    return {seat.share.name: seat.count for seat in seats}


def _claim(seat: _Seat, index: int, seed: str) -> tuple[float, int, int, int]:
    """Smallest first: (2n + 1) / weight, then clusters that have this replica already."""
    has_it = 0 if seat.share.current > seat.count else 1
    ratio = (2 * seat.count + 1) / seat.share.weight
    return (ratio, has_it, tie_breaker(seed, seat.share.name), index)


def _reduce(
    total: int,
    shares: Sequence[Share],
    start: Mapping[str, int],
    lows: Mapping[str, int],
    seed: str,
) -> dict[str, int]:
    counts = dict(start)
    heap = [_loss(share, counts[share.name], seed) for share in shares]
    heapq.heapify(heap)
    by_name = {share.name: share for share in shares}
    excess = sum(counts.values()) - total
    while excess > 0:
        name = heapq.heappop(heap)[2]
        if counts[name] <= lows[name]:
            continue
        counts[name] -= 1
        excess -= 1
        heapq.heappush(heap, _loss(by_name[name], counts[name], seed))
    return counts


def _loss(share: Share, count: int, seed: str) -> tuple[float, int, str]:
    """Smallest first: the replica with the weakest claim, -(2n - 1) / weight."""
    if share.weight <= 0:
        return (float("-inf") if count else float("inf"), 0, share.name)
    return (-(2 * count - 1) / share.weight, -tie_breaker(seed, share.name), share.name)
