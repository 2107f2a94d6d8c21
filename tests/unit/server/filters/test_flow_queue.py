"""Seats shared fairly: who is served, in which order, and that nothing is left behind."""

from __future__ import annotations

import random
from functools import partial

import pytest

from pykcp.server.filters.flow_queue import FairQueue, SeatLimits, Waiting


class Requests:
    """Requests as "user/cluster", and the order in which they got seats."""

    def __init__(self, seats: int) -> None:
        self.queue = FairQueue(SeatLimits(seats))
        self.served: list[str] = []
        self.waiting: list[Waiting] = []

    def send(self, *requests: str) -> None:
        for request in requests:
            user, _, cluster = request.partition("/")
            if self.queue.start(user, cluster):
                self.served.append(request)
            else:
                wake = partial(self.served.append, request)
                self.waiting.append(self.queue.wait(user, cluster, wake))

    def finish(self, *requests: str) -> None:
        for request in requests:
            user, _, cluster = request.partition("/")
            self.queue.finish(user, cluster)

    def finish_one_by_one(self, count: int) -> list[str]:
        """The order in which the next are served, if only the last one served is running."""
        for _ in range(count):
            self.finish(self.served[-1])
        return self.served[-count:]


def test_a_user_gets_a_quarter_over_all_clusters() -> None:
    """However many clusters they have."""
    requests = Requests(8)
    requests.send(*(f"ann/c{number}" for number in range(20)))
    assert requests.served == ["ann/c0", "ann/c1"]
    requests.send("bob/b")
    assert requests.served[-1] == "bob/b"


def test_a_cluster_gets_half() -> None:
    requests = Requests(8)
    requests.send(*(f"u{number}/a" for number in range(9)))
    assert len(requests.served) == 4
    requests.send("bob/b")
    assert requests.served[-1] == "bob/b"
    requests.finish("u0/a")
    assert requests.served[-1] == "u4/a"


def test_there_is_a_seat_even_if_there_are_few() -> None:
    requests = Requests(1)
    requests.send("ann/a", "bob/b")
    assert requests.served == ["ann/a"]
    requests.finish("ann/a")
    assert requests.served == ["ann/a", "bob/b"]


@pytest.mark.parametrize(
    ("sent", "order"),
    [
        ("x/a x/a x/a x/a bob/b cid/c", "bob/b cid/c x/a x/a x/a"),
        ("x/a x/a x/b x/c x/c bob/b bob/b", "bob/b x/a bob/b x/b x/c x/c"),
        ("x/a u1/m u1/m u2/m u2/m bob/b bob/b", "u1/m u2/m bob/b u1/m u2/m bob/b"),
    ],
    ids=["a flood waits behind itself", "users, then their clusters", "users of one cluster"],
)
def test_seats_go_round(sent: str, order: str) -> None:
    requests = Requests(1)
    requests.send(*sent.split())
    expected = order.split()
    assert requests.finish_one_by_one(len(expected)) == expected


def test_parked_requests_are_served_when_their_cluster_has_seats_again() -> None:
    """Also if the user of the first that was parked has none."""
    requests = Requests(8)  # a user has two, a cluster four
    requests.send("u1/a", "u2/a", "u3/a", "u4/a")
    requests.send("ann/a", "eve/a")  # parked when a seat becomes free elsewhere
    requests.send("ann/b", "ann/c", "x/d")
    requests.finish("x/d")
    assert requests.served[-3:] == ["ann/b", "ann/c", "x/d"]
    requests.finish("u1/a")  # ann has her two already
    assert requests.served[-1] == "eve/a"
    requests.finish("ann/b")
    assert requests.served[-1] == "eve/a", "the cluster is full"
    requests.finish("eve/a")
    assert requests.served[-1] == "ann/a"
    requests.finish("ann/a", "ann/c", "u2/a", "u3/a", "u4/a")
    assert requests.queue.is_idle


def test_who_gives_up_is_not_served() -> None:
    requests = Requests(1)
    requests.send("ann/a", "ann/a", "bob/b")
    assert requests.queue.abandon(requests.waiting[0])
    assert not requests.queue.abandon(requests.waiting[0])
    requests.finish("ann/a")
    assert requests.served == ["ann/a", "bob/b"]
    assert not requests.queue.abandon(requests.waiting[1])
    requests.finish("bob/b")
    assert requests.queue.is_idle


def test_who_waits_is_not_overtaken_by_the_same_user() -> None:
    requests = Requests(4)
    requests.send("ann/a", "ann/a", "ann/a")
    assert requests.queue.queued == 2
    requests.finish("ann/a")
    assert (requests.served, requests.queue.queued) == (["ann/a"] * 2, 1)


@pytest.mark.parametrize(
    "flow",
    [
        lambda number: ("flood", "a"),
        lambda number: ("flood", f"c{number}"),
        lambda number: (f"u{number}", "a"),
        lambda number: (f"u{number}", f"c{number}"),
    ],
    ids=["one flow", "many clusters of a user", "many users of a cluster", "many of both"],
)
def test_the_cost_does_not_grow_with_those_who_wait(flow) -> None:
    """30,000 wait, half of them give up, the rest are served: quadratic takes many minutes."""
    queue = FairQueue(SeatLimits(8))
    served: list[tuple[str, str]] = []
    waiting = []
    for number in range(30_000):
        user, cluster = flow(number)
        if queue.start(user, cluster):
            served.append((user, cluster))
        else:
            flow_name = (user, cluster)
            waiting.append(queue.wait(user, cluster, lambda it=flow_name: served.append(it)))
    for place in waiting[::2]:
        assert queue.abandon(place)
    for user, cluster in served:  # grows meanwhile
        queue.finish(user, cluster)
    assert len(served) == 30_000 - len(waiting[::2])
    assert queue.is_idle


@pytest.mark.parametrize("seed", range(40))
def test_whatever_happens_the_books_balance(seed: int) -> None:
    """Random comings, goings and givings-up: limits hold, no seat stays free that somebody may
    have, and in the end nothing is left."""
    chance = random.Random(seed)
    limits = SeatLimits(chance.randrange(1, 13))
    queue = FairQueue(limits)
    running: list[tuple[str, str]] = []
    waiting: dict[Waiting, tuple[str, str]] = {}

    def begin(user: str, cluster: str) -> None:
        if queue.start(user, cluster):
            running.append((user, cluster))
            return

        def seated() -> None:
            running.append(waiting.pop(place))

        place = queue.wait(user, cluster, seated)
        waiting[place] = (user, cluster)

    for _ in range(600):
        match chance.randrange(6):
            case 0 | 1 | 2:
                begin(chance.choice("uvwxyz"), chance.choice("abcd"))
            case 3 | 4 if running:
                queue.finish(*running.pop(chance.randrange(len(running))))
            case 5 if waiting:
                place = chance.choice([*waiting])
                del waiting[place]
                assert queue.abandon(place)
        assert queue.running == len(running) <= limits.seats
        assert queue.queued == len(waiting)
        users = [user for user, _ in running]
        clusters = [cluster for _, cluster in running]
        assert all(users.count(user) <= limits.per_user for user in users)
        assert all(clusters.count(cluster) <= limits.per_cluster for cluster in clusters)
        for user, cluster in waiting.values():
            assert (
                len(running) == limits.seats
                or users.count(user) == limits.per_user
                or clusters.count(cluster) == limits.per_cluster
            )
    while running:
        queue.finish(*running.pop())
    assert not waiting
    assert queue.is_idle
