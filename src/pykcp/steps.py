"""Long work that can be interrupted: a generator that yields wherever that may happen.

    def sum_up(numbers: Iterable[int]) -> Steps[int]:
        total = 0
        for number in numbers:
            total += number
            yield
        return total

`at_once(sum_up(…))` is its result; `await aio.slices.in_slices(sum_up(…))` is the same, and the
event loop serves others in between. Steps should take some microseconds each, up to a tenth of
a millisecond.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeAlias, TypeVar

Result = TypeVar("Result")
Steps: TypeAlias = Generator[None, None, Result]


def at_once(steps: Steps[Result]) -> Result:
    """The result of all steps, without a pause."""
    try:
        while True:
            next(steps)
    except StopIteration as end:
        result: Result = end.value
        return result
