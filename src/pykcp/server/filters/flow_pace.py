"""Deferred requests of indebted callers. Pure: the time is passed in.

They go on a few at a time, between everything else that the event loop has to do: a request of
the user who owes least first, so that who spends more waits longer. `Pace` says how
many at a time: as many as fit into a budget for one pass of the loop, which is small while
others want the loop, and after a long step nothing for as long as the step took.
"""

from __future__ import annotations

import heapq
import itertools
from collections import OrderedDict
from collections.abc import Callable

from pykcp.aio.round_robin import RoundRobin
from pykcp.server.filters.flow_cost import CostAccount

_BUDGET_CONTENDED, _BUDGET_ALONE = 0.0003, 0.005
_LONGEST_PAUSE = 0.05
_MOST_PER_PASS = 64
_FIRST_GUESS = 0.0005
"""Seconds that a request is thought to cost before any was measured."""


class DelayedRequest:
    """A request that is held back."""

    __slots__ = ("deadline", "lane", "queue", "wake")

    def __init__(
        self, queue: _Queue, lane: str, deadline: float, wake: Callable[[bool], None]
    ) -> None:
        self.queue, self.lane, self.deadline, self.wake = queue, lane, deadline, wake


class _Queue:
    """The held requests of one user."""

    __slots__ = ("lanes", "user")

    def __init__(self, user: CostAccount) -> None:
        self.user = user
        self.lanes: RoundRobin[str, DelayedRequest] = RoundRobin()


class Pacer:
    """Held requests, the least indebted user's first, and of theirs those of each *lane* in turn:
    a cluster, or a connection. O(log n), however many are held or give up.
    """

    def __init__(self) -> None:
        self._queues: dict[str, _Queue] = {}
        self._heap: list[tuple[float, int, _Queue]] = []
        """One entry per user. Debts grow with every cost, so that an entry may stand too far in
        front; it is put right when it comes up."""
        self._held: OrderedDict[DelayedRequest, None] = OrderedDict()
        """In the order of their deadlines, since all wait equally long."""
        self._numbers = itertools.count()

    def __len__(self) -> int:
        return len(self._held)

    def add(
        self, user: CostAccount, lane: str, deadline: float, wake: Callable[[bool], None]
    ) -> DelayedRequest:
        """`wake` is called with True when it goes on and with False when it waited too long."""
        queue = self._queues.get(user.name)
        if queue is None:
            queue = self._queues[user.name] = _Queue(user)
            self._push(queue)
        held = DelayedRequest(queue, lane, deadline, wake)
        queue.lanes.add(lane, held)
        self._held[held] = None
        return held

    def remove(self, held: DelayedRequest) -> bool:
        """Give up; False if it goes on already."""
        if held not in self._held:
            return False
        del self._held[held]
        held.queue.lanes.remove(held.lane, held)
        return True

    def first(self) -> CostAccount | None:
        """Who is least indebted of those with requests held; None if there are none."""
        while self._heap:
            rank, _, queue = self._heap[0]
            if queue.lanes and queue.user.free_at <= rank:
                return queue.user
            heapq.heappop(self._heap)
            if queue.lanes:
                self._push(queue)
            else:
                del self._queues[queue.user.name]
        return None

    def release(self) -> CostAccount | None:
        """Let a request of the least indebted go on; whose it was."""
        user = self.first()
        if user is None:
            return None
        _, _, queue = heapq.heappop(self._heap)
        _, held = queue.lanes.take()
        del self._held[held]
        if queue.lanes:
            self._push(queue)
        else:
            del self._queues[user.name]
        held.wake(True)
        return user

    def expire(self, now: float) -> None:
        """Reject requests that have waited too long."""
        while self._held:
            held = next(iter(self._held))
            if held.deadline > now:
                return
            self.remove(held)
            held.wake(False)

    def _push(self, queue: _Queue) -> None:
        heapq.heappush(self._heap, (queue.user.free_at, next(self._numbers), queue))


class Pace:
    """How many held requests go on in the next pass of the loop, and when not one does."""

    def __init__(self) -> None:
        self._average = _FIRST_GUESS
        self._rests_until = 0.0

    def after_long_step(self, seconds: float, now: float) -> None:
        """After a long step the others get the loop for as long."""
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
