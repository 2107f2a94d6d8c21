"""What every serving program does for its event loop: it measures it, and collects garbage when it
has time."""

from __future__ import annotations

import asyncio

from pykcp.aio.garbage import Collector
from pykcp.observe.loop_meter import LoopMeter
from pykcp.observe.metrics import Registry


class Housekeeping:
    def __init__(self, registry: Registry) -> None:
        self.meter = LoopMeter(registry)
        """For the listener: what arrives wakes it."""
        self._collector = Collector()

    def start(self) -> None:
        """In the thread of the event loop, when the program is ready."""
        self._collector.start()
        self.meter.on_end = lambda is_pause: self._collector.tick(is_pause=is_pause)
        self.meter.start(asyncio.get_running_loop())

    def stop(self) -> None:
        self.meter.stop()
        self._collector.stop()
