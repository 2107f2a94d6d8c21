"""Held requests: who goes on first, how many at a time, and that giving up is cheap."""

from __future__ import annotations

import pytest

from pykcp.server.filters.flow_cost import CostAccount
from pykcp.server.filters.flow_pace import Pace, Pacer


class Requests:
    """Requests of users for clusters, as "user/cluster"; each costs its user so much."""

    def __init__(self, costs: dict[str, float]) -> None:
        self.pacer = Pacer()
        self.served: list[str] = []
        self._costs = costs
        self._accounts: dict[str, CostAccount] = {}

    def account(self, name: str) -> CostAccount:
        return self._accounts.setdefault(name, CostAccount("", name, 0.25, 0.1))

    def hold(self, *requests: str, deadline: float = 9.0) -> None:
        for request in requests:
            user, _, cluster = request.partition("/")

            def wake(goes_on: bool, request: str = request) -> None:
                self.served.append(request if goes_on else f"late {request}")

            self.pacer.add(self.account(user), cluster, deadline, wake)

    def release(self, count: int) -> list[str]:
        for _ in range(count):
            assert self.pacer.release() is not None
            user = self.served[-1].partition("/")[0]
            self.account(user).charge(self._costs[user], 0.0)
        return self.served[-count:]


@pytest.mark.parametrize(
    ("held", "costs", "order"),
    [
        ("ann/a ann/a bob/b", {"ann": 1, "bob": 1}, "ann/a bob/b ann/a"),
        ("ann/a ann/b ann/c bob/d bob/d", {"ann": 1, "bob": 1}, "ann/a bob/d ann/b bob/d ann/c"),
        (
            "ann/a ann/a bob/b bob/b bob/b bob/b",
            {"ann": 3, "bob": 1},
            "ann/a bob/b bob/b bob/b ann/a bob/b",
        ),
        ("ann/a ann/a ann/a ann/b", {"ann": 1}, "ann/a ann/b ann/a ann/a"),
    ],
    ids=["in turn", "clusters do not help", "by cost, not by number", "clusters of one in turn"],
)
def test_who_owes_least_goes_on_first(held: str, costs: dict[str, float], order: str) -> None:
    requests = Requests(costs)
    requests.hold(*held.split())
    assert requests.release(len(order.split())) == order.split()
    assert requests.pacer.release() is None
    assert len(requests.pacer) == 0


def test_who_waited_too_long_is_told() -> None:
    requests = Requests({"ann": 1, "bob": 1})
    requests.hold("ann/a", deadline=1.0)
    requests.hold("bob/b", deadline=2.0)
    requests.pacer.expire(0.5)
    assert requests.served == []
    requests.pacer.expire(1.5)
    assert requests.served == ["late ann/a"]
    assert requests.release(1) == ["bob/b"]


@pytest.mark.parametrize("users", [1, 60_000])
def test_the_cost_does_not_grow_with_those_who_wait(users: int) -> None:
    """Of 60,000 in as many lanes half give up and half go on, each for a price: quadratic takes
    many minutes."""
    pacer = Pacer()
    accounts = [CostAccount("", f"u{number}", 0.25, 0.1) for number in range(users)]
    woken: list[bool] = []
    held = [
        pacer.add(accounts[number % users], f"c{number}", 9.0, woken.append)
        for number in range(60_000)
    ]
    for one in held[::2]:
        assert pacer.remove(one)
        assert not pacer.remove(one)
    while (account := pacer.release()) is not None:
        account.charge(1.0, 0.0)
    assert woken == [True] * 30_000
    assert len(pacer) == 0


@pytest.mark.parametrize(
    ("cost", "is_contended", "count"),
    [
        (0.00005, True, 6),
        (0.00005, False, 64),
        (0.0005, True, 1),
        (0.0005, False, 10),
        (0.05, True, 1),
        (0.05, False, 1),
        (0.0, True, 64),
    ],
)
def test_as_many_go_on_as_fit(cost: float, is_contended: bool, count: int) -> None:
    pace = Pace()
    for _ in range(40):
        pace.measured(3 * cost, 3)
    assert abs(pace.count(is_contended) - count) <= 1


@pytest.mark.parametrize(
    ("steps", "now", "is_contended", "pause"),
    [
        ([], 1.0, True, 0.0),
        ([0.02], 1.0, True, 0.02),
        ([0.02], 1.015, True, 0.005),
        ([0.02], 1.03, True, 0.0),
        ([0.02, 0.03], 1.0, True, 0.05),
        ([9.0], 1.0, True, 0.05),
        ([0.02], 1.0, False, 0.0),
    ],
)
def test_after_a_long_step_others_have_the_loop_for_as_long(
    steps: list[float], now: float, is_contended: bool, pause: float
) -> None:
    pace = Pace()
    for seconds in steps:
        pace.after_long_step(seconds, 1.0)
    assert pace.pause(now, is_contended) == pytest.approx(pause)
