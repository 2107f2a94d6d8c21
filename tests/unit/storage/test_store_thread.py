"""The thread that commits gets the interpreter sooner while the event loop is busy all the time."""

from __future__ import annotations

import asyncio
import sys

from pykcp.storage.sqlite.worker import USUAL_TURN, StoreThread


async def test_turns_are_short_while_jobs_start_late() -> None:
    sys.setswitchinterval(USUAL_TURN)
    usual = sys.getswitchinterval()
    thread = StoreThread("test", asyncio.get_running_loop())
    try:
        thread._set_turn(100.001, 100.0)
        assert sys.getswitchinterval() == usual
        thread._set_turn(101.01, 101.0)
        assert sys.getswitchinterval() < usual / 2
        thread._set_turn(101.5, 101.5)  # not late, because turns are short
        assert sys.getswitchinterval() < usual / 2
        thread._set_turn(103.0, 103.0)
        assert sys.getswitchinterval() == usual
        thread._set_turn(104.01, 104.0)
    finally:
        thread.close()
    assert sys.getswitchinterval() == usual
