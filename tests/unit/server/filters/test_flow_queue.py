"""Seats shared fairly: who is served, in which order, and that nothing is left behind."""

from __future__ import annotations

import random

import pytest

from pykcp.server.filters.flow_queue import FairQueue, Limits, Waiting


class Requests:
    """Requests by name, and the order in which they got seats."""

    def __init__(self, seats: int, length: int = 100, size: int = 1 << 20) -> None:
        self.queue = FairQueue(Limits(seats, length, size))
        self.served: list[str] = []
        self.waiting: list[Waiting] = []

    def send(self, tenant: str, user: str, name: str = "", size: int = 0) -> bool:
        """Whether it was taken at all."""
        name = name or f"{tenant}/{user}"
        if self.queue.start(tenant, user):
            self.served.append(name)
            return True
        waiting = self.queue.wait(tenant, user, size, lambda: self.served.append(name))
        if waiting is not None:
            self.waiting.append(waiting)
        return waiting is not None


def test_a_tenant_gets_half_and_a_user_a_quarter() -> None:
    requests = Requests(8)
    for _ in range(5):
        requests.send("a", "ann")
    assert requests.served == ["a/ann"] * 2
    for _ in range(5):
        requests.send("a", "amy")
    assert requests.served == ["a/ann"] * 2 + ["a/amy"] * 2
    requests.send("a", "abe")
    assert len(requests.served) == 4
    requests.send("b", "bob")
    assert requests.served[-1] == "b/bob"


def test_there_is_a_seat_even_if_there_are_few() -> None:
    requests = Requests(1)
    requests.send("a", "ann")
    requests.send("b", "bob")
    assert requests.served == ["a/ann"]
    requests.queue.finish("a", "ann")
    assert requests.served == ["a/ann", "b/bob"]


def test_seats_go_round_the_tenants() -> None:
    """A flood of one tenant waits behind itself: the others come in between."""
    requests = Requests(1)
    for number in range(6):
        requests.send("flood", "x", f"flood{number}")
    requests.send("b", "bob")
    requests.send("c", "cid")
    running = "flood"
    for _ in range(4):
        requests.queue.finish(running, {"flood": "x", "b": "bob", "c": "cid"}[running])
        running = "flood" if requests.served[-1].startswith("flood") else requests.served[-1][0]
    assert requests.served == ["flood0", "flood1", "b/bob", "c/cid", "flood2"]


def test_seats_go_round_the_users_of_a_tenant() -> None:
    """A tenant does not get more by having more users, nor a user by sending more."""
    requests = Requests(1)
    for user in ("u1", "u2", "u3"):
        for _ in range(3):
            requests.send("many", user)
    for _ in range(3):
        requests.send("one", "bob")
    order = list(requests.served)
    while len(order) < 12:
        tenant, _, user = order[-1].partition("/")
        requests.queue.finish(tenant, user)
        order = list(requests.served)
    assert order[1:7] == ["many/u1", "one/bob", "many/u2", "one/bob", "many/u3", "one/bob"]


@pytest.mark.parametrize(
    ("length", "size", "each", "taken"),
    [(3, 1 << 20, 0, 3), (100, 400, 30, 3), (100, 400, 101, 0)],
    ids=["by number", "by octets", "one too large"],
)
def test_a_queue_has_an_end(length: int, size: int, each: int, taken: int) -> None:
    requests = Requests(1, length, size)
    assert requests.send("a", "ann")
    assert [requests.send("a", "ann", size=each) for _ in range(5)].count(True) == taken


def test_a_tenant_cannot_queue_more_by_having_more_users() -> None:
    requests = Requests(1, length=2)
    requests.send("a", "first")
    taken = [requests.send("a", f"u{number}") for number in range(20)]
    assert taken.count(True) == 8


def test_who_gives_up_is_not_served() -> None:
    requests = Requests(1)
    requests.send("a", "ann")
    requests.send("a", "ann", "gone")
    requests.send("b", "bob", "stays")
    assert requests.queue.abandon(requests.waiting[0])
    assert not requests.queue.abandon(requests.waiting[0])
    requests.queue.finish("a", "ann")
    assert requests.served == ["a/ann", "stays"]
    assert not requests.queue.abandon(requests.waiting[1])
    requests.queue.finish("b", "bob")
    assert requests.queue.is_idle


def test_who_waits_is_not_overtaken_by_the_same_user() -> None:
    requests = Requests(4)
    requests.send("a", "ann", "first")
    requests.send("a", "ann", "second")
    requests.send("a", "ann", "third")
    requests.queue.finish("a", "ann")
    assert requests.served == ["first", "second"]


@pytest.mark.parametrize("seed", range(20))
def test_whatever_happens_the_books_balance(seed: int) -> None:
    """Random comings, goings and givings-up: limits hold, and in the end nothing is left."""
    chance = random.Random(seed)
    seats = chance.randrange(1, 9)
    queue = FairQueue(Limits(seats, queue_length=4))
    running: list[tuple[str, str]] = []
    waiting: list[Waiting] = []

    def begin(tenant: str, user: str) -> None:
        if queue.start(tenant, user):
            running.append((tenant, user))
            return

        def seated() -> None:
            assert place is not None
            waiting.remove(place)
            running.append((tenant, user))

        place = queue.wait(tenant, user, chance.randrange(100), seated)
        if place is not None:
            waiting.append(place)

    for _ in range(400):
        match chance.randrange(5):
            case 0 | 1 | 2:
                begin(chance.choice("abc"), chance.choice("xyz"))
            case 3 if running:
                queue.finish(*running.pop(chance.randrange(len(running))))
            case 4 if waiting:
                place = waiting.pop(chance.randrange(len(waiting)))
                assert queue.abandon(place)
        assert queue.running == len(running) <= seats
        assert queue.queued == len(waiting)
        for tenant in "abc":
            mine = [flow for flow in running if flow[0] == tenant]
            assert len(mine) <= max(1, seats // 2)
    while running:
        queue.finish(*running.pop())
    assert not waiting
    assert queue.is_idle
