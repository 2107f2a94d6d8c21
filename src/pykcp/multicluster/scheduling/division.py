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
from functools import lru_cache
from typing import NamedTuple

NO_CAP = 1 << 40
_LARGE = 256
"""Replicas from which most of them are assigned at once."""


_MASK = (1 << 48) - 1


class Share(NamedTuple):
    """A tuple: each decision makes one for every cluster."""

    name: str
    weight: int = 1
    minimum: int = 0
    cap: int = NO_CAP
    current: int = 0


def tie_breaker(seed: str, name: str) -> int:
    """The order of equal clusters: different for each object, so that the odd replica of many
    objects does not always go to the same cluster.
    """
    return _odd_number(seed) * _odd_number(name) & _MASK


def tie_breakers(seed: str, names: Iterable[str]) -> list[int]:
    """The tie-breaker of each name."""
    number = _odd_number(seed)
    return [number * _odd_number(name) & _MASK for name in names]


@lru_cache(maxsize=4096)  # a decision asks several times for the object and for each cluster
def _odd_number(text: str) -> int:
    """Products of odd numbers are spread evenly over all remainders, and no two names are equal."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=6).digest(), "big") | 1


def divide(total: int, shares: Sequence[Share], seed: str = "") -> dict[str, int]:
    """Shares by name, which add up to `total`, or to the caps if these are lower.

    Minima are met first. If they exceed the total, it is divided among them. Ties go to clusters
    that have a replica now, then by the seed.
    """
    lows = [min(share.minimum, share.cap) for share in shares]
    if sum(lows) > total:
        return _fill(total, shares, [0] * len(shares), lows, seed)
    caps = [share.cap for share in shares]
    if total >= _LARGE and not any(share.minimum for share in shares):
        return _fill(total, shares, _start_below(total, shares), caps, seed)
    return _fill(total, shares, lows, caps, seed)


def divide_evenly(total: int, names: Sequence[str], seed: str = "") -> dict[str, int]:
    """What `divide` says of shares without limits that are all alike, without those that get
    nothing: most workloads have fewer replicas than there are clusters.
    """
    each, odd = divmod(total, len(names))
    counts = dict.fromkeys(names, each) if each else {}
    if odd:
        order = zip(tie_breakers(seed, names), range(len(names)), strict=True)
        for _, index in heapq.nsmallest(odd, order):
            counts[names[index]] = each + 1
    return counts


def divide_sticky(total: int, shares: Sequence[Share], seed: str = "") -> dict[str, int]:
    """The same, from the present shares on: replicas are added or removed where that brings the
    division closest to the weights; none is moved that can stay.
    """
    lows = [min(share.minimum, share.cap) for share in shares]
    if sum(lows) > total:
        return divide(total, shares, seed)
    caps = [share.cap for share in shares]
    start = [
        max(low, min(share.cap, share.current)) for low, share in zip(lows, shares, strict=True)
    ]
    if sum(start) > total:
        names = [share.name for share in shares]
        counts, least = dict(zip(names, start, strict=True)), dict(zip(names, lows, strict=True))
        return _reduce(total, shares, counts, least, seed)
    return _fill(total, shares, start, caps, seed)


def _start_below(total: int, shares: Sequence[Share]) -> list[int]:
    """Assign all but about one replica of each share at once.

    No share of Webster's method is more than one below its exact quota, and caps only raise the
    shares of the others.
    """
    weights = sum(share.weight for share in shares) or 1
    return [min(s.cap, max(0, total * s.weight // weights - 1)) for s in shares]


def _fill(
    total: int, shares: Sequence[Share], start: Sequence[int], caps: Sequence[int], seed: str
) -> dict[str, int]:
    """Add replicas to what the shares have at the start, none above its cap."""
    counts = list(start)
    remaining = total - sum(counts)
    heap = [
        _claim(share, counts[index], index, seed)
        for index, share in enumerate(shares)
        if counts[index] < caps[index] and share.weight > 0
    ]
    heapq.heapify(heap)
    while remaining > 0 and heap:
        index = heap[0][3]
        counts[index] += 1
        remaining -= 1
        if counts[index] < caps[index]:
            heapq.heapreplace(heap, _claim(shares[index], counts[index], index, seed))
        else:
            heapq.heappop(heap)
    return {share.name: count for share, count in zip(shares, counts, strict=True)}


def _claim(share: Share, count: int, index: int, seed: str) -> tuple[float, int, int, int]:
    """Smallest first: (2n + 1) / weight, then clusters that have this replica already."""
    has_it = 0 if share.current > count else 1
    return ((2 * count + 1) / share.weight, has_it, tie_breaker(seed, share.name), index)


def _reduce(
    total: int,
    shares: Sequence[Share],
    counts: dict[str, int],
    lows: Mapping[str, int],
    seed: str,
) -> dict[str, int]:
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
