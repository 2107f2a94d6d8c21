"""What was made of objects, by their identity."""

from __future__ import annotations

from typing import Any

from pykcp.machinery.remembered import Remembered


def test_the_same_object_is_looked_at_once() -> None:
    seen: list[Any] = []

    def make(obj: Any) -> int:
        seen.append(obj)
        return len(obj)

    remembered = Remembered(make, 2)
    one, equal, other = {"a": 1}, {"a": 1}, {"b": 1, "c": 2}
    assert [remembered(one), remembered(one), remembered(equal), remembered(one)] == [1, 1, 1, 1]
    assert len(seen) == 2
    assert remembered(other) == 2
    assert remembered(one) == 1
    assert len(seen) == 3
    assert remembered(equal) == 1  # the least recently used was forgotten
    assert len(seen) == 4
