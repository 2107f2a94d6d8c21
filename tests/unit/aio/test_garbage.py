"""Garbage collection on the event loop's schedule: short, and no cycle stays for ever."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from pykcp.aio.garbage import Collector


class Node:
    """Refers to itself: only the collector frees it."""

    def __init__(self) -> None:
        self.own = self
        self.more: list[object] = []


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def collector(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    """Counts the objects of this test only: other tests may have left many in the process."""
    made = Collector(clock)
    made.start()
    count, before = gc.get_freeze_count, gc.get_freeze_count()
    monkeypatch.setattr(gc, "get_freeze_count", lambda: count() - before)
    made._settle()
    yield made
    made.stop()


@pytest.fixture
def generations(collector: Collector) -> Iterator[list[int]]:
    """Those that were collected."""
    found: list[int] = []

    def note(phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            found.append(info["generation"])

    gc.callbacks.append(note)
    yield found
    gc.callbacks.remove(note)


def garbage() -> weakref.ref[Node]:
    return weakref.ref(Node())


def lists(count: int) -> list[list[object]]:
    return [[] for _ in range(count)]


def test_the_interpreter_has_no_schedule_of_its_own(
    collector: Collector, generations: list[int]
) -> None:
    kept = lists(100_000)
    assert generations == []
    assert not gc.isenabled()
    collector.stop()
    assert gc.isenabled()
    assert len(kept) == 100_000


def test_nothing_is_done_for_few_objects(collector: Collector, generations: list[int]) -> None:
    node = garbage()
    collector.tick(is_pause=False)
    collector.tick(is_pause=True)
    assert generations == []
    assert node() is not None


def test_young_cycles_go_while_there_is_work(collector: Collector, generations: list[int]) -> None:
    node = garbage()
    kept = lists(6_000)
    collector.tick(is_pause=False)
    assert node() is None
    assert generations == [0]
    assert len(kept) == 6_000


def test_survivors_are_looked_at_again(collector: Collector, generations: list[int]) -> None:
    """A cycle that became garbage after the first look is found by the second, or by the third."""
    nodes = [Node(), Node()]
    second, third = map(weakref.ref, nodes)
    kept = []
    for number in range(12):
        kept.append(lists(5_500))
        collector.tick(is_pause=False)
        if number == 1:
            del nodes[0]
        if number == 4:
            assert second() is None
            nodes.clear()
    assert generations == [0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 1]
    assert third() is None
    assert len(kept) == 12


def test_survivors_of_three_looks_wait_for_a_pause(
    collector: Collector, generations: list[int]
) -> None:
    node = Node()
    found = weakref.ref(node)
    kept = []
    for _ in range(8):
        kept.append(lists(5_500))
        collector.tick(is_pause=False)
    assert generations[-1] == 2
    del node
    for _ in range(8):
        kept.append(lists(5_500))
        collector.tick(is_pause=False)
    assert found() is not None
    collector.tick(is_pause=True)
    assert found() is None
    assert len(kept) == 16


def test_very_many_at_once_are_not_looked_at(collector: Collector, generations: list[int]) -> None:
    """They are freed by their reference counts all the same, their cycles in the next pause."""
    node = Node()
    found = weakref.ref(node)
    node.more = [*lists(80_000)]
    collector.tick(is_pause=False)
    assert generations == []
    del node
    collector.tick(is_pause=False)
    assert found() is not None
    collector.tick(is_pause=True)
    assert generations == [2]
    assert found() is None
    collector.tick(is_pause=True)
    assert generations == [2]


def test_too_many_objects_for_a_pause(
    collector: Collector, generations: list[int], clock: Clock
) -> None:
    """They are not looked at before most of them are gone, and counted now and then only."""
    node = garbage()
    kept = lists(400_000)
    collector.tick(is_pause=False)
    collector.tick(is_pause=True)
    assert generations == []
    assert node() is not None
    del kept
    more = lists(200_000)
    collector.tick(is_pause=True)
    assert generations == []
    clock.now += 61
    collector.tick(is_pause=True)
    assert generations == [2]
    assert node() is None
    assert len(more) == 200_000


def test_too_many_objects_for_too_long(
    collector: Collector, generations: list[int], clock: Clock
) -> None:
    """They may be garbage themselves."""
    node = Node()
    found = weakref.ref(node)
    node.more = [*lists(400_000)]
    collector.tick(is_pause=False)
    del node
    for _ in range(9):
        clock.now += 61
        collector.tick(is_pause=True)
    assert generations == []
    assert found() is not None
    clock.now += 61
    collector.tick(is_pause=False)
    assert generations == []
    collector.tick(is_pause=True)
    assert generations == [2]
    assert found() is None


def test_what_was_freed_meanwhile_is_no_reason(
    collector: Collector, generations: list[int]
) -> None:
    for _ in range(30):
        kept = lists(100_000)
        collector.tick(is_pause=False)
        del kept
    assert generations == []
