"""The payer of the running task: to whom CPU time is charged.

Steps of a request on the event loop are measured by the loop's owner. Work in a worker process is
charged by the code that started it:

    payer = costs.payer()
    result, seconds = await …
    payer.charge(seconds)
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Protocol


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
