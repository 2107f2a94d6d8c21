"""Accounts of the cost of requests, and their debt. Pure: the time is passed in.

Cost is time on the event loop (and CPU time of worker processes). An *account* has a share per
second. Costs are paid back at that rate: an account is free of debt at a time that every cost
moves further into the future. Up to a burst this has no consequences; beyond it an account is
*indebted*. After a single long step an account *rests* for as long as the step took: the next
one would double the delay for others.
"""

from __future__ import annotations

import heapq
from collections import Counter
from dataclasses import dataclass

LONG_STEP = 0.002
"""Seconds; a step that takes longer is noticed by others."""
SWEEP_SECONDS = 10.0
_MINUTE = 60.0
_FADE = 1 - SWEEP_SECONDS / _MINUTE
_WORST_DEBT = 2.0
"""Seconds on the loop; more than this is forgiven."""
_TRIFLE = 1e-5
MOST_ACCOUNTS = 16_384
"""Limit on accounts of each type. More exist only if names or addresses are made up."""


@dataclass(frozen=True, slots=True)
class CostLimits:
    """Seconds on the event loop per second, and how much more at once."""

    user: float = 0.25
    cluster: float = 0.5
    address: float = 0.1
    burst: float = 0.1


class CostAccount:
    """What one user, cluster or address has spent."""

    __slots__ = (
        "free_at",
        "name",
        "recent",
        "rejected",
        "rests_until",
        "seen",
        "slack",
        "sort",
        "total",
        "weight",
    )

    def __init__(self, sort: str, name: str, share: float, burst: float) -> None:
        """`share`: seconds on the loop per second; 0: it is never indebted."""
        self.sort, self.name = sort, name
        self.weight = 1 / share if share else 0.0
        self.slack = burst * self.weight
        self.free_at = 0.0
        """When it is free of debt, if nothing is added."""
        self.rests_until = 0.0
        self.total = 0.0
        self.seen = 0.0
        """`total` at the last sweep."""
        self.recent = 0.0
        """Of the minute before the last sweep; older costs fade."""
        self.rejected = 0

    def charge(self, seconds: float, now: float) -> None:
        self.total += seconds
        free_at = self.free_at
        if free_at > now:  # twice as fast as max(), for every request
            self.free_at = free_at + seconds * self.weight
        else:
            self.free_at = now + seconds * self.weight
        if seconds > LONG_STEP and self.weight:
            self.rests_until = now + seconds

    def is_indebted(self, now: float) -> bool:
        return self.free_at > now + self.slack

    def debt(self, now: float) -> float:
        """Seconds on the loop that it has not paid back."""
        return max(0.0, self.free_at - now) / self.weight if self.weight else 0.0

    @property
    def last_minute(self) -> float:
        return self.recent + self.total - self.seen


class Accounts:
    """Accounts by name, as long as they matter."""

    def __init__(self, burst: float) -> None:
        self._burst = burst
        self.by_name: dict[str, CostAccount] = {}
        self._closed: Counter[str] = Counter()
        """What accounts had spent that are gone, by sort."""

    def open(self, sort: str, name: str, share: float, now: float) -> CostAccount:
        account = self.by_name.get(name)
        if account is None:
            if len(self.by_name) >= MOST_ACCOUNTS:
                self._drop_debtless(now)
            account = self.by_name[name] = CostAccount(sort, name, share, self._burst)
        return account

    def totals(self) -> Counter[str]:
        """Seconds that were ever spent, by sort."""
        totals = Counter(self._closed)
        for account in self.by_name.values():
            totals[account.sort] += account.total  # type: ignore[assignment]  # of floats
        return totals

    def sweep(self, now: float) -> None:
        """Every SWEEP_SECONDS: older costs fade, and accounts go that owe and spent nothing."""
        for account in [*self.by_name.values()]:
            account.recent = account.last_minute * _FADE
            account.seen = account.total
            worst = now + account.slack + _WORST_DEBT * account.weight
            account.free_at = min(account.free_at, worst)
            if account.recent < _TRIFLE and account.free_at <= now:
                self._close(account)

    def top(self, count: int) -> list[CostAccount]:
        """The accounts with the highest cost in the last minute."""
        return heapq.nlargest(count, self.by_name.values(), key=lambda one: one.last_minute)

    def _drop_debtless(self, now: float) -> None:
        """The loop has one second per second, so only few can owe any of it at a time."""
        for account in [*self.by_name.values()]:
            if account.free_at <= now:
                self._close(account)

    def _close(self, account: CostAccount) -> None:
        del self.by_name[account.name]
        self._closed[account.sort] += account.total  # type: ignore[assignment]  # of floats
