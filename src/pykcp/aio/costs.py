"""The payer of the running task: to whom CPU time is charged.

Steps of a request on the event loop are measured by the loop's owner. Work in a worker process is
charged by the code that started it:

    payer = costs.payer()
    result, seconds = await …
    payer.charge(seconds)

`metered` measures the steps of a coroutine on the event loop.
"""

from __future__ import annotations

import time
import types
from collections.abc import Callable, Coroutine, Generator
from contextvars import ContextVar
from typing import Any, Protocol, TypeVar

Result = TypeVar("Result")
_CHUNK = 0.0005
"""Seconds after which steps are charged; what is less at the end."""
_clock = time.perf_counter


class Payer(Protocol):
    @property
    def tenant(self) -> str:
        """For taking turns: the same for all requests that are counted together."""

    def charge(self, seconds: float) -> None:
        """Processor time that was spent for this request, but not on the event loop."""


class _OwnWork:
    """What the process does by itself."""

    tenant = ""

    def charge(self, seconds: float) -> None:
        """Not charged: no request waits for it."""


_OWN_WORK = _OwnWork()
_payer: ContextVar[Payer] = ContextVar("payer", default=_OWN_WORK)


def payer() -> Payer:
    """Whose request the running task is part of."""
    return _payer.get()


def set_payer(found: Payer) -> None:
    """From here on in this task, and in tasks that it starts."""
    _payer.set(found)


@types.coroutine
def metered(
    charge: Callable[[float], None], pending: Coroutine[Any, Any, Result], spent: float = 0.0
) -> Generator[Any, None, Result]:
    """Run a coroutine and charge its steps on the event loop, and what was spent before."""
    error: BaseException | None = None
    while True:
        began = _clock()
        try:
            awaited = pending.send(None) if error is None else pending.throw(error)
        except BaseException as end:
            charge(spent + _clock() - began)
            error = None  # its traceback holds this frame: without the garbage collector for ever
            if isinstance(end, StopIteration):
                result: Result = end.value
                return result
            raise
        spent += _clock() - began
        if spent > _CHUNK:
            charge(spent)
            spent = 0.0
        error = None
        try:
            yield awaited
        except GeneratorExit:
            pending.close()
            raise
        except BaseException as thrown:
            error = thrown
        awaited = None  # an error of it is going to hold this frame
