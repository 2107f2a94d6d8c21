"""Work that the process does for a logical cluster outside of requests, at the cluster's expense."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from typing import Any, TypeVar

from pykcp.aio.costs import metered
from pykcp.server.filters.flow_meter import CostMeter

_LONGEST_PAUSE = 1.0
_clock = time.perf_counter
Result = TypeVar("Result")


class OwnWork:
    def __init__(self, meter: CostMeter) -> None:
        self._meter = meter

    async def run(self, cluster: str, work: Coroutine[Any, Any, Result]) -> Result:
        """Do some work and charge the cluster; an indebted one waits first, while others are active."""
        account = self._meter.cluster_account(cluster)
        pause = self._meter.pause_of(account)
        try:
            if pause > 0:
                await asyncio.sleep(min(pause, _LONGEST_PAUSE))
        except BaseException:
            work.close()
            raise

        def charge(seconds: float) -> None:
            account.charge(seconds, _clock())

        return await metered(charge, work)
