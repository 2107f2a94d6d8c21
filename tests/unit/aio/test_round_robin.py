"""Queues served in turn, at a cost that does not grow with them."""

from __future__ import annotations

import pytest

from pykcp.aio.round_robin import RoundRobin


def _drain(queues: RoundRobin[str, str]) -> list[str]:
    return [queues.take()[1] for _ in range(len(queues))]


@pytest.mark.parametrize(
    ("items", "order"),
    [
        ("a1", "a1"),
        ("a1 a2 a3", "a1 a2 a3"),
        ("a1 a2 a3 b1", "a1 b1 a2 a3"),
        ("a1 a2 b1 c1 b2", "a1 b1 c1 a2 b2"),
    ],
)
def test_owners_take_turns(items: str, order: str) -> None:
    queues: RoundRobin[str, str] = RoundRobin()
    for item in items.split():
        queues.add(item[0], item)
    assert _drain(queues) == order.split()
    with pytest.raises(StopIteration):
        queues.take()


def test_who_comes_late_waits_for_one_of_each() -> None:
    queues: RoundRobin[str, str] = RoundRobin()
    for item in ("a1", "a2", "a3", "b1", "b2"):
        queues.add(item[0], item)
    assert queues.take() == ("a", "a1")
    queues.add("c", "c1")
    assert _drain(queues) == ["b1", "a2", "c1", "b2", "a3"]


def test_what_is_removed_is_not_served() -> None:
    queues: RoundRobin[str, str] = RoundRobin()
    for item in ("a1", "a2", "b1"):
        queues.add(item[0], item)
    assert queues.remove("a", "a1")
    assert not queues.remove("a", "a1")
    assert queues.remove("b", "b1")
    assert not queues.remove("b", "b1")
    assert _drain(queues) == ["a2"]


def test_many_owners_and_items_cost_no_more_each() -> None:
    """Half a million steps; if each looked at all others, it would take hours."""
    queues: RoundRobin[int, int] = RoundRobin()
    for number in range(200_000):
        queues.add(number % 50_000, number)
    for number in reversed(range(100_000, 200_000)):
        assert queues.remove(number % 50_000, number)
    for _ in range(100_000):
        queues.take()
    assert len(queues) == 0
