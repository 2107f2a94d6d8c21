"""The bounded cache: its bound, what it keeps, its numbers."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pykcp.caching import BoundedCache, totals

LIMIT = 4


def filled(*keys: str, limit: int = LIMIT) -> BoundedCache[str, str]:
    cache: BoundedCache[str, str] = BoundedCache("", limit)
    for key in keys:
        cache.put(key, key.upper())
    return cache


def test_what_is_put_is_found() -> None:
    """A second value replaces the first; what was removed is not found."""
    cache = filled("a", "b")
    assert cache.get("a") == "A"
    assert cache.put("a", "other") == "other"
    assert cache.get("a") == "other"
    assert cache.pop("a") == "other"
    assert cache.pop("a") is None
    assert cache.get("a") is None
    assert "b" in cache
    cache.clear()
    assert (len(cache), list(cache.values()), list(cache)) == (0, [], [])


def test_the_oldest_goes_first() -> None:
    """Without hits it is first in, first out, and it is full all the time."""
    cache = filled(*"abcdef")
    assert sorted(cache) == list("cdef")
    cache.put("g", "G")
    assert sorted(cache) == list("defg")


def test_what_is_used_stays() -> None:
    """A key that is asked for between insertions is never evicted; others take their turns."""
    cache = filled("hot")
    for number in range(100):
        assert cache.get("hot") == "HOT"
        cache.put(str(number), "x")
    assert len(cache) == LIMIT


def test_costs() -> None:
    """The sum of the costs is bounded; what does not fit at all replaces and keeps nothing."""
    cache: BoundedCache[str, bytes] = BoundedCache("", 10, cost=len)
    cache.put("a", b"1234")
    cache.put("b", b"1234")
    assert cache.size == 8
    cache.put("c", b"123456")
    assert (sorted(cache), cache.size) == (["b", "c"], 10)
    cache.put("c", b"x" * 11)
    assert (sorted(cache), cache.size) == (["b"], 4)
    cache.put("b", b"1")
    assert cache.size == 1
    cache.clear()
    assert cache.size == 0


def test_numbers() -> None:
    """Hits, misses and evictions are counted; caches of one name are added up."""
    one: BoundedCache[int, int] = BoundedCache("test-numbers", 2)
    two: BoundedCache[int, int] = BoundedCache("test-numbers", 2)
    for number in range(3):
        one.put(number, number + 1)
    two.put(1, 1)
    assert [one.get(0), one.get(2), two.get(1), two.get(5)] == [None, 3, 1, None]
    assert totals()["test-numbers"] == (2, 2, 1, 3)
    del one
    assert totals()["test-numbers"] == (1, 1, 0, 1)


KEYS = st.integers(0, 9)
ACTIONS = st.lists(st.tuples(st.sampled_from(["get", "put", "pop"]), KEYS, st.integers(1, 6)))


@given(ACTIONS, st.booleans())
def test_as_a_dict_that_forgets(actions: list[tuple[str, int, int]], has_cost: bool) -> None:
    """Whatever happens: never more than the limit, and never another value than the last put."""
    cache: BoundedCache[int, int] = (
        BoundedCache("", 12, cost=int) if has_cost else BoundedCache("", 5)
    )
    model: dict[int, int] = {}
    for action, key, value in actions:
        if action == "put":
            cache.put(key, value)
            model[key] = value
            assert cache.get(key) == value
        elif action == "get":
            assert cache.get(key) in (None, model.get(key))
        else:
            cache.pop(key)
            model.pop(key, None)
            assert cache.get(key) is None
        kept = list(cache.values())
        assert len(kept) == len(cache)
        assert cache.size == (sum(kept) if has_cost else len(kept))
        assert cache.size <= (12 if has_cost else 5)


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 30)), max_size=200), st.integers(2, 10))
def test_the_more_recently_used_half_stays(actions: list[tuple[bool, int]], limit: int) -> None:
    """However keys are used, the last limit/2 of them that were used are there."""
    cache: BoundedCache[int, int] = BoundedCache("", limit)
    used: dict[int, None] = {}
    for is_put, key in actions:
        if is_put:
            cache.put(key, key + 1)
        elif cache.get(key) is None:
            continue
        used.pop(key, None)
        used[key] = None
        assert all(recent in cache for recent in list(used)[-(limit // 2) :])
