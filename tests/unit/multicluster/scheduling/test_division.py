"""Division by Webster's method: cases, and the properties that it promises."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from pykcp.multicluster.scheduling.division import Share, divide, divide_evenly, divide_sticky

CASES = {
    "even, the odd replica to one of them": (10, [1, 1, 1], [3, 3, 4]),
    "weights": (12, [1, 2, 3], [2, 4, 6]),
    "fewer replicas than clusters": (2, [1, 1, 1], [0, 1, 1]),
    "none": (0, [1, 1], [0, 0]),
    "a weight of zero gets nothing": (5, [0, 1], [0, 5]),
}


@pytest.mark.parametrize(("total", "weights", "expected"), CASES.values(), ids=CASES)
def test_cases(total: int, weights: list[int], expected: list[int]) -> None:
    shares = [Share(f"c{index}", weight) for index, weight in enumerate(weights)]
    assert sorted(divide(total, shares, "uid").values()) == sorted(expected)


def test_the_odd_replica_of_many_objects_goes_to_different_clusters() -> None:
    shares = [Share("a"), Share("b"), Share("c")]
    winners = {
        max(found, key=lambda name: found[name])
        for seed in range(50)
        for found in [divide(10, shares, f"uid-{seed}")]
    }
    assert winners == {"a", "b", "c"}


def test_minima_and_caps() -> None:
    shares = [Share("a", minimum=3), Share("b", cap=1), Share("c")]
    assert divide(8, shares, "x") == {"a": 4, "b": 1, "c": 3} or divide(8, shares, "x") == {
        "a": 3,
        "b": 1,
        "c": 4,
    }
    assert divide(2, [Share("a", minimum=3), Share("b", minimum=3)], "x") == {"a": 1, "b": 1}
    assert divide(9, [Share("a", cap=2), Share("b", cap=3)], "x") == {"a": 2, "b": 3}


def test_shares_that_are_all_alike_are_divided_without_a_search() -> None:
    for count in range(1, 12):
        names = [f"c{index}" for index in range(count)]
        for total in range(40):
            found = divide(total, [Share(name) for name in names], f"uid-{total}")
            wanted = {name: replicas for name, replicas in found.items() if replicas}
            assert divide_evenly(total, names, f"uid-{total}") == wanted


def test_sticky_division_moves_only_what_must_move() -> None:
    shares = [Share("a", current=5), Share("b", current=5), Share("c")]
    assert divide_sticky(10, shares) == {"a": 5, "b": 5, "c": 0}
    assert divide_sticky(12, shares) == {"a": 5, "b": 5, "c": 2}
    assert divide_sticky(4, shares) == {"a": 2, "b": 2, "c": 0}


CASES_EACH = 2500
Problem = tuple[int, list[Share], str]


def problems(seed: int) -> Iterator[Problem]:
    rng = random.Random(seed)
    for number in range(CASES_EACH):
        shares = []
        for index in range(rng.randint(1, 7)):
            cap = rng.choice((0, 1, 3, 10, 30))
            minimum, current = min(rng.randint(0, 4), cap), min(rng.randint(0, 20), cap)
            shares.append(Share(f"c{index}", rng.randint(1, 9), minimum, cap, current))
        yield rng.randint(0, 80), shares, f"uid-{number}"


def test_all_replicas_are_divided_within_bounds() -> None:
    for total, shares, seed in problems(1):
        for method in (divide, divide_sticky):
            found = method(total, shares, seed)
            assert sum(found.values()) == min(total, sum(one.cap for one in shares))
            are_minima_met = sum(one.minimum for one in shares) <= total
            for one in shares:
                assert found[one.name] <= one.cap
                assert not are_minima_met or found[one.name] >= one.minimum


def test_one_more_replica_changes_one_cluster() -> None:
    for total, shares, seed in problems(2):
        if total < sum(one.minimum for one in shares) or total >= sum(one.cap for one in shares):
            continue
        before, after = divide(total, shares, seed), divide(total + 1, shares, seed)
        assert sorted(after[name] - before[name] for name in before) == [0] * (len(before) - 1) + [
            1
        ]


def test_a_new_cluster_raises_no_other_share() -> None:
    for total, shares, seed in problems(3):
        if total < sum(one.minimum for one in shares) + 1:
            continue
        before = divide(total, shares, seed)
        after = divide(total, [*shares, Share("new", 3)], seed)
        assert all(after[name] <= before[name] for name in before)


def test_more_weight_never_loses_replicas() -> None:
    for total, shares, seed in problems(4):
        first = shares[0]
        heavier = Share(first.name, first.weight + 2, first.minimum, first.cap, first.current)
        before = divide(total, shares, seed)[first.name]
        assert divide(total, [heavier, *shares[1:]], seed)[first.name] >= before


def test_the_shortcut_for_many_replicas_is_exact() -> None:
    rng = random.Random(7)
    for _ in range(300):
        shares = [
            Share(f"c{n}", rng.randint(1, 50), 0, rng.choice((10, 100, 1 << 40)))
            for n in range(rng.randint(1, 12))
        ]
        total = rng.randint(256, 3000)
        slow = divide_sticky(total, shares, "s")  # begins with nothing and takes each step
        assert divide(total, shares, "s") == slow


def test_sticky_division_never_moves_and_adds_at_once() -> None:
    for total, shares, seed in problems(5):
        if total < sum(one.minimum for one in shares):
            continue
        found = divide_sticky(total, shares, seed)
        changes = [found[one.name] - max(one.current, one.minimum) for one in shares]
        assert all(change >= 0 for change in changes) or all(change <= 0 for change in changes)
