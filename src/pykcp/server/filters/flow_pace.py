"""Requests of the indebted, held back behind all others. Pure: the time is passed in.

They go on a few at a time, between everything else that the event loop has to do: the request
whose user and cluster owe least first, so that who spends more waits longer. `Pace` says how
many at a time: as many as fit into a budget for one pass of the loop, which is small while
others want the loop, and after a long step nothing for as long as the step took.
"""

from __future__ import annotations

import heapq
import itertools
from collections import OrderedDict
from collections.abc import Callable

from pykcp.server.filters.flow_cost import Account

_BUDGET_CONTENDED, _BUDGET_ALONE = 0.001, 0.005
_LONGEST_PAUSE = 0.05
_MOST_PER_PASS = 64
_FIRST_GUESS = 0.0005
"""Seconds that a request is thought to cost before any was measured."""


class Held:
    """A request that is held back."""

    __slots__ = ("deadline", "flow", "wake")

    def __init__(self, flow: _Flow, deadline: float, wake: Callable[[bool], None]) -> None:
        self.flow, self.deadline, self.wake = flow, deadline, wake


class _Flow:
    """The held requests of one user for one cluster."""

    __slots__ = ("cluster", "key", "queue", "user")

    def __init__(self, key: tuple[str, str], user: Account, cluster: Account | None) -> None:
        self.key, self.user, self.cluster = key, user, cluster
        self.queue: OrderedDict[Held, None] = OrderedDict()

    def rank(self) -> float:
        owed = self.user.free_at
        if self.cluster is not None and self.cluster.free_at > owed:
            return self.cluster.free_at
        return owed


class Pacer:
    """Held requests, the least indebted first. O(log n), however many are held or give up."""

    def __init__(self) -> None:
        self._flows: dict[tuple[str, str], _Flow] = {}
        self._heap: list[tuple[float, int, _Flow]] = []
        """One entry per flow. Its rank grows with every cost, so that an entry may stand too far
        in front; it is put right when it comes up."""
        self._held: OrderedDict[Held, None] = OrderedDict()
        """In the order of their deadlines, since all wait equally long."""
        self._numbers = itertools.count()

    def __len__(self) -> int:
        return len(self._held)

    def add(
        self, user: Account, cluster: Account | None, deadline: float, wake: Callable[[bool], None]
    ) -> Held:
        """`wake` is called with True when it goes on and with False when it waited too long."""
        key = (user.name, "" if cluster is None else cluster.name)
        flow = self._flows.get(key)
        if flow is None:
            flow = self._flows[key] = _Flow(key, user, cluster)
            self._push(flow)
        held = Held(flow, deadline, wake)
        flow.queue[held] = None
        self._held[held] = None
        return held

    def remove(self, held: Held) -> bool:
        """Give up; False if it goes on already."""
        if held not in self._held:
            return False
        del self._held[held], held.flow.queue[held]
        return True

    def release(self) -> Account | None:
        """Let the least indebted go on; whose it was. None if none is held."""
        while self._heap:
            rank, _, flow = heapq.heappop(self._heap)
            if not flow.queue:
                del self._flows[flow.key]
            elif flow.rank() > rank:
                self._push(flow)
            else:
                self._release(flow)
                return flow.user
        return None

    def expire(self, now: float) -> None:
        """Tell those who have waited too long."""
        while self._held:
            held = next(iter(self._held))
            if held.deadline > now:
                return
            self.remove(held)
            held.wake(False)

    def _release(self, flow: _Flow) -> None:
        held, _ = flow.queue.popitem(last=False)
        del self._held[held]
        if flow.queue:
            self._push(flow)
        else:
            del self._flows[flow.key]
        held.wake(True)

    def _push(self, flow: _Flow) -> None:
        heapq.heappush(self._heap, (flow.rank(), next(self._numbers), flow))


class Pace:
    """How many held requests go on in the next pass of the loop, and when not one does."""

    def __init__(self) -> None:
        self._average = _FIRST_GUESS
        self._rests_until = 0.0

    def after_long_step(self, seconds: float, now: float) -> None:
        """Somebody had the loop for long: others have it next, for as long."""
        self._rests_until = max(self._rests_until, now) + min(seconds, _LONGEST_PAUSE)

    def measured(self, seconds: float, count: int) -> None:
        """What the requests that went on last have cost so far."""
        if count:
            self._average += (seconds / count - self._average) / 4

    def pause(self, now: float, is_contended: bool) -> float:
        """Seconds until the next may go on."""
        return max(0.0, self._rests_until - now) if is_contended else 0.0

    def count(self, is_contended: bool) -> int:
        budget = _BUDGET_CONTENDED if is_contended else _BUDGET_ALONE
        fitting = int(budget / max(self._average, 1e-6))
        return max(1, min(_MOST_PER_PASS, fitting))
