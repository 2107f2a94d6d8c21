"""Fair assignment of seats to requests. Pure: no clock, no event loop.

A request has a *user* and a *cluster*. The number of seats is fixed; a user may have at most a
quarter of them, across all clusters (a user can create any number of clusters), and a cluster
half, so that seats stay free for others. A request without a seat waits. A free seat goes to the
next user in turn, and among this user's requests to the next cluster in turn, regardless of the
length of their queues: a flood only delays itself.

Every operation takes amortized constant time, however many users, clusters and requests wait.
Users at their limit are not in the rotation. Nor are requests to a cluster at its limit: they are
*parked* with the cluster, which enters the rotation when one of its requests ends, and passes its
turn to the next parked request. No state is kept for users and clusters without requests.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SeatLimits:
    """How many requests run at a time."""

    seats: int = 256

    @property
    def per_cluster(self) -> int:
        return max(1, self.seats // 2)

    @property
    def per_user(self) -> int:
        return max(1, self.seats // 4)


class Waiting:
    """A request in its queue."""

    __slots__ = ("flow", "wake")

    def __init__(self, flow: _Flow, wake: Callable[[], None]) -> None:
        self.flow, self.wake = flow, wake


class _User:
    __slots__ = ("flows", "name", "ready", "running")

    def __init__(self, name: str) -> None:
        self.name = name
        self.running = 0
        self.flows: dict[str, _Flow] = {}
        """All that wait, by cluster."""
        self.ready: OrderedDict[_Flow, None] = OrderedDict()
        """Requests that are not parked, in order."""


class _Cluster:
    __slots__ = ("name", "parked", "running", "waiting")

    def __init__(self, name: str) -> None:
        self.name = name
        self.running = 0
        self.waiting = 0
        """Flows, parked or not."""
        self.parked: OrderedDict[_Flow, None] = OrderedDict()


class _Flow:
    """The waiting requests of one user for one cluster."""

    __slots__ = ("cluster", "queue", "user")

    def __init__(self, user: _User, cluster: _Cluster) -> None:
        self.user, self.cluster = user, cluster
        self.queue: OrderedDict[Waiting, None] = OrderedDict()


class FairQueue:
    def __init__(self, limits: SeatLimits) -> None:
        self.limits = limits
        self._seats = limits.seats
        self._per_user, self._per_cluster = limits.per_user, limits.per_cluster
        self.running = 0
        self.queued = 0
        self._users: dict[str, _User] = {}
        self._clusters: dict[str, _Cluster] = {}
        self._turns: OrderedDict[_User | _Cluster, None] = OrderedDict()
        """Users below their limit with requests that are not parked, and clusters below theirs
        with parked ones."""

    def start(self, user_name: str, cluster_name: str) -> bool:
        """Take a seat if there is one for this user here and none of their requests waits."""
        if self.running >= self._seats:
            return False
        user = self._users.get(user_name)
        # A request must not overtake those of the same user and cluster that already wait.
        if user is not None and (user.running >= self._per_user or cluster_name in user.flows):
            return False
        cluster = self._clusters.get(cluster_name)
        if cluster is None:
            cluster = self._clusters[cluster_name] = _Cluster(cluster_name)
        elif cluster.running >= self._per_cluster:
            return False
        if user is None:
            user = self._users[user_name] = _User(user_name)
        self._seat(user, cluster)
        return True

    def wait(self, user_name: str, cluster_name: str, wake: Callable[[], None]) -> Waiting:
        """Queue a request for which `start` had no seat; `wake` is called when it has got one."""
        user = self._users.get(user_name)
        if user is None:
            user = self._users[user_name] = _User(user_name)
        flow = user.flows.get(cluster_name)
        if flow is None:
            flow = self._new_flow(user, cluster_name)
        waiting = Waiting(flow, wake)
        flow.queue[waiting] = None
        self.queued += 1
        return waiting

    def abandon(self, waiting: Waiting) -> bool:
        """Give up waiting; False if it has a seat already."""
        flow = waiting.flow
        if waiting not in flow.queue:
            return False
        del flow.queue[waiting]
        self.queued -= 1
        if not flow.queue:
            self._end_flow(flow)
        return True

    def finish(self, user_name: str, cluster_name: str) -> None:
        """Give a seat back, and to the request whose turn it is."""
        user, cluster = self._users[user_name], self._clusters[cluster_name]
        self.running -= 1
        user.running -= 1
        cluster.running -= 1
        if user.ready:
            self._turns.setdefault(user)
        if cluster.parked:
            self._turns.setdefault(cluster)
        self._forget(user, cluster)
        if self._turns:
            self._seat_next()

    def seats_of_user(self, name: str) -> int:
        user = self._users.get(name)
        return 0 if user is None else user.running

    def seats_of_cluster(self, name: str) -> int:
        cluster = self._clusters.get(name)
        return 0 if cluster is None else cluster.running

    @property
    def is_idle(self) -> bool:
        """Whether no state is kept."""
        return not (self._users or self._clusters or self._turns)

    def _seat_next(self) -> None:
        while self._turns and self.running < self._seats:
            # Each pass seats a request, or shrinks the rotation or a list that an earlier request
            # filled, so the time per request is constant on average.
            owner = next(iter(self._turns))
            self._turns.move_to_end(owner)
            if isinstance(owner, _User):
                flow = self._next_of_user(owner)
            else:
                flow = self._next_parked(owner)
            if flow is None:
                del self._turns[owner]
            elif flow.user.running >= self._per_user:
                self._unpark(flow)
            elif flow.cluster.running < self._per_cluster:
                self._serve(flow)
            else:
                self._park(flow)

    def _next_of_user(self, user: _User) -> _Flow | None:
        if not user.ready or user.running >= self._per_user:
            return None
        flow = next(iter(user.ready))
        user.ready.move_to_end(flow)
        return flow

    def _next_parked(self, cluster: _Cluster) -> _Flow | None:
        if not cluster.parked or cluster.running >= self._per_cluster:
            return None
        flow = next(iter(cluster.parked))
        cluster.parked.move_to_end(flow)
        return flow

    def _serve(self, flow: _Flow) -> None:
        waiting, _ = flow.queue.popitem(last=False)
        self.queued -= 1
        self._seat(flow.user, flow.cluster)
        if not flow.queue:
            self._end_flow(flow)
        waiting.wake()

    def _park(self, flow: _Flow) -> None:
        """Its cluster is at its limit: wait there."""
        del flow.user.ready[flow]
        flow.cluster.parked[flow] = None

    def _unpark(self, flow: _Flow) -> None:
        """Its user is at their limit: it goes on when one of theirs ends."""
        del flow.cluster.parked[flow]
        flow.user.ready[flow] = None

    def _seat(self, user: _User, cluster: _Cluster) -> None:
        self.running += 1
        user.running += 1
        cluster.running += 1

    def _new_flow(self, user: _User, cluster_name: str) -> _Flow:
        cluster = self._clusters.get(cluster_name)
        if cluster is None:
            cluster = self._clusters[cluster_name] = _Cluster(cluster_name)
        flow = user.flows[cluster_name] = _Flow(user, cluster)
        cluster.waiting += 1
        user.ready[flow] = None
        if user.running < self._per_user:
            self._turns.setdefault(user)
        return flow

    def _end_flow(self, flow: _Flow) -> None:
        user, cluster = flow.user, flow.cluster
        del user.flows[cluster.name]
        user.ready.pop(flow, None)
        cluster.parked.pop(flow, None)
        cluster.waiting -= 1
        if not user.ready:
            self._turns.pop(user, None)
        if not cluster.parked:
            self._turns.pop(cluster, None)
        self._forget(user, cluster)

    def _forget(self, user: _User, cluster: _Cluster) -> None:
        if not user.running and not user.flows:
            del self._users[user.name]
        if not cluster.running and not cluster.waiting:
            del self._clusters[cluster.name]
