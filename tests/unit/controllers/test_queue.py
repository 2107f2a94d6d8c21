"""The queue of keys: once each, one at a time, gentle after failures."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykcp.controllers.runtime.queue import (
    FAILING,
    FIRST_DELAY,
    LAST_DELAY,
    KeyedQueue,
    backoff,
)


def test_keys_come_in_order_and_once() -> None:
    queue: KeyedQueue[str] = KeyedQueue()
    assert [queue.add(key) for key in "abab"] == [True, True, False, False]
    assert [queue.take(), queue.take(), queue.take()] == ["a", "b", None]


def test_a_key_added_while_it_runs_runs_again_afterwards() -> None:
    """Not at the same time, and once however often it was added."""
    queue: KeyedQueue[str] = KeyedQueue()
    queue.add("a")
    assert queue.take() == "a"
    assert queue.add("a")
    assert not queue.add("a")
    assert queue.take() is None
    queue.done("a")
    assert queue.take() == "a"
    queue.done("a")
    assert queue.take() is None
    assert queue.is_idle


def test_a_delayed_key_comes_when_it_is_due() -> None:
    queue: KeyedQueue[str] = KeyedQueue()
    queue.add_at("late", 20.0)
    queue.add_at("soon", 10.0)
    assert queue.next_due() == 10.0
    queue.advance(9.9)
    assert queue.take() is None
    queue.advance(10.0)
    assert queue.take() == "soon"
    assert queue.next_due() == 20.0


@pytest.mark.parametrize(
    ("first", "second", "due"),
    [(10.0, 20.0, 10.0), (20.0, 10.0, 10.0), (10.0, 10.0, 10.0)],
    ids=["later-is-ignored", "sooner-wins", "same"],
)
def test_the_sooner_of_two_delays_counts(first: float, second: float, due: float) -> None:
    queue: KeyedQueue[str] = KeyedQueue()
    queue.add_at("a", first)
    queue.add_at("a", second)
    assert queue.next_due() == due
    queue.advance(100.0)
    assert [queue.take(), queue.take()] == ["a", None]
    queue.done("a")
    assert queue.is_idle


def test_adding_a_delayed_key_runs_it_now_and_not_again() -> None:
    queue: KeyedQueue[str] = KeyedQueue()
    queue.add_at("a", 10.0)
    queue.add("a")
    assert queue.take() == "a"
    queue.done("a")
    queue.advance(100.0)
    assert queue.take() is None


def test_a_delay_for_a_queued_key_is_not_needed() -> None:
    queue: KeyedQueue[str] = KeyedQueue()
    queue.add("a")
    assert not queue.add_at("a", 10.0)
    assert queue.next_due() is None


def test_failures_wait_longer_and_longer_until_forgiven() -> None:
    queue: KeyedQueue[str] = KeyedQueue()
    delays = []
    for _ in range(20):
        queue.add("a")
        assert queue.take() == "a"
        queue.done("a")
        delays.append(queue.fail("a", now=0.0, jitter=0.0))
    assert delays[:4] == [0.005, 0.01, 0.02, 0.04]
    assert delays[-1] == LAST_DELAY
    assert queue.failures("a") == 20
    queue.forget("a")
    assert queue.fail("a", now=0.0, jitter=0.0) == FIRST_DELAY


@given(st.integers(1, 10_000), st.floats(0, 1, exclude_max=True))
def test_backoff_stays_within_its_bounds(failures: int, jitter: float) -> None:
    assert 0.8 * FIRST_DELAY <= backoff(failures, jitter) <= LAST_DELAY


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["add", "after", "take", "done", "fail", "advance"]), st.integers(0, 3)
        )
    )
)
def test_no_key_runs_twice_at_a_time_and_none_is_lost(steps: list[tuple[str, int]]) -> None:
    """Whatever the order: a key that was added after its last start is started again."""
    queue: KeyedQueue[int] = KeyedQueue()
    running: list[int] = []
    wanted: set[int] = set()
    now = 0.0
    for step, key in steps:
        now += 1.0
        match step:
            case "add":
                queue.add(key)
                wanted.add(key)
            case "after":
                queue.add_at(key, now + 3)
                wanted.add(key)
            case "take" if (taken := queue.take()) is not None:
                assert taken not in running
                running.append(taken)
                wanted.discard(taken)
            case "done" | "fail" if running:
                ended = running.pop(0)
                queue.done(ended)
                if step == "fail":
                    queue.fail(ended, now, 0.5)
                    wanted.add(ended)
            case "advance":
                queue.advance(now)
    for key in running:
        queue.done(key)
    queue.advance(now + 1000)
    left = set()
    while (taken := queue.take()) is not None:
        left.add(taken)
    assert wanted <= left


def lanes(**more: int) -> KeyedQueue[str]:
    """Keys such as a1: the letter is the lane."""
    return KeyedQueue(lambda key: key[0], **more)


def test_lanes_take_turns_however_many_keys_one_has() -> None:
    queue = lanes()
    for key in ("a1", "a2", "a3", "a4", "b1", "c1", "b2"):
        queue.add(key)
    taken = [queue.take() for _ in range(7)]
    assert taken == ["a1", "b1", "c1", "a2", "b2", "a3", "a4"]
    assert queue.take() is None


def test_a_lane_does_not_have_all_workers() -> None:
    queue = lanes(at_a_time=2)
    for key in ("a1", "a2", "a3", "b1"):
        queue.add(key)
    assert [queue.take() for _ in range(4)] == ["a1", "b1", "a2", None]
    assert (len(queue), queue.takable) == (1, 0)
    queue.add("a4")
    assert (len(queue), queue.takable, queue.take()) == (2, 0, None)
    queue.done("a1")
    assert (len(queue), queue.takable) == (2, 2)
    assert [queue.take(), queue.take()] == ["a3", None]
    for key in ("a2", "a3"):
        queue.done(key)
    assert [queue.take(), queue.take()] == ["a4", None]


def test_keys_that_take_long_do_not_count_for_their_lane() -> None:
    queue = lanes(at_a_time=2)
    for number in range(12):
        queue.add(f"a{number}")
    assert [queue.take(), queue.take(), queue.take()] == ["a0", "a1", None]
    assert queue.is_held
    queue.set_aside("a0")
    queue.set_aside("a0")
    assert [queue.take(), queue.take()] == ["a2", None]
    queue.done("a0")  # another one has run in its place already
    assert queue.take() is None
    running = ["a1", "a2"]
    for _ in range(12):
        for key in running:
            queue.set_aside(key)
        if (taken := queue.take()) is not None:
            running.append(taken)
    assert len(running) == 8  # not any number of them
    for key in running:
        queue.done(key)
    assert [queue.take(), queue.take(), queue.take()] == ["a9", "a10", None]


def test_keys_that_are_nobodys_may_have_all_workers() -> None:
    queue: KeyedQueue[int] = KeyedQueue(at_a_time=1)
    for key in range(3):
        queue.add(key)
    assert [queue.take(), queue.take(), queue.take()] == [0, 1, 2]


def test_the_more_keys_of_a_lane_fail_the_longer_they_wait() -> None:
    queue = lanes()
    delays = [queue.fail(f"a{n}", now=0.0, jitter=0.0) for n in range(10 * FAILING)]
    assert delays[FAILING - 1] == FIRST_DELAY
    assert delays[-1] == pytest.approx(10 * FIRST_DELAY)
    assert queue.fail("b1", now=0.0, jitter=0.0) == FIRST_DELAY
    for n in range(10 * FAILING):
        queue.forget(f"a{n}")
    assert queue.fail("a1", now=0.0, jitter=0.0) == FIRST_DELAY


def test_a_hundred_thousand_keys_are_taken_in_linear_time() -> None:
    queue = lanes()
    for n in range(100_000):
        queue.add(f"a{n}")
    queue.add("b1")
    assert [queue.take(), queue.take()] == ["a0", "b1"]
    for n in range(1, 100_000):
        assert queue.take() == f"a{n}"


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["add", "take", "done", "aside"]),
            st.sampled_from("ab"),
            st.integers(0, 9),
        )
    )
)
def test_lanes_never_have_more_workers_and_lose_nothing(steps: list[tuple[str, str, int]]) -> None:
    queue = lanes(at_a_time=2)
    running: list[str] = []
    aside: set[str] = set()
    wanted: set[str] = set()
    for step, lane, number in steps:
        if step == "add":
            queue.add(f"{lane}{number}")
            wanted.add(f"{lane}{number}")
        elif step == "take":
            before = queue.takable
            taken = queue.take()
            assert (taken is None) == (before == 0)
            if taken is not None:
                running.append(taken)
                wanted.discard(taken)
                assert sum(key[0] == taken[0] for key in running if key not in aside) <= 2
                assert sum(key[0] == taken[0] for key in running) <= 8
        elif step == "aside" and running:
            queue.set_aside(running[-1])
            aside.add(running[-1])
        elif running:
            aside.discard(running[0])
            queue.done(running.pop(0))
    for key in running:
        queue.done(key)
    left: set[str] = set()
    while (taken := queue.take()) is not None:
        left.add(taken)
        queue.done(taken)
    assert wanted <= left
    assert queue.is_idle
