"""A second budget for work that CEL's cost model does not cover.

Kubernetes charges some functions by the call although they read a whole list or text:
`max`, `flatten`, `format`, `duration`, values that lose their type. They spend steps of a
second budget before they do the work; an evaluation that runs out of it ends as one that
runs out of cost. A step is about a microsecond.
"""

from __future__ import annotations

from pykcp.machinery.cel.runtime.values import CostExceeded

CALL_WORK = 500_000
"""Steps of one evaluation."""
OBJECT_WORK = 1_000_000
"""Steps of all rules on one object."""


class _Work:
    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = CALL_WORK


_work = _Work()
"""Of the evaluation that is under way: evaluations neither wait nor nest."""


def allow(steps: int) -> None:
    """Begins an evaluation, or several that share a budget."""
    _work.left = steps


def remaining() -> int:
    """What is left for a further evaluation."""
    return max(_work.left, 0)


def spend(steps: int) -> None:
    _work.left -= steps
    if _work.left < 0:
        raise CostExceeded
