"""Chooses the revision to compact to.

Revisions have no time of their own, so the compactor writes down now and then
which revision is the newest. What was the newest at least `keep_seconds` ago is
where the store is compacted to. After a restart nothing has been written down:
everything is kept for another window.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from typing import Protocol

from pykcp.storage.errors import StoreError
from pykcp.storage.interface import Clock, Sleep

logger = logging.getLogger(__name__)

KEEP_SECONDS = 300.0
"""As kube-apiserver: a watch or a continue token of the last five minutes is good."""
SAMPLE_SECONDS = 30.0


class Compactable(Protocol):
    """The part of a store that the compactor needs."""

    @property
    def revision(self) -> int: ...

    @property
    def compacted(self) -> int: ...

    async def compact(self, revision: int) -> None: ...


class Compactor:
    def __init__(
        self,
        store: Compactable,
        *,
        keep_seconds: float = KEEP_SECONDS,
        sample_seconds: float = SAMPLE_SECONDS,
        clock: Clock = time.monotonic,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self._store = store
        self._keep_seconds = keep_seconds
        self._sample_seconds = sample_seconds
        self._clock = clock
        self._sleep = sleep
        self._samples: deque[tuple[float, int]] = deque()

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self.step()
            await self._sleep(self._sample_seconds)

    async def step(self) -> None:
        """Take a sample; compact to the newest one that is old enough."""
        now = self._clock()
        revision = self._store.revision
        if not self._samples or self._samples[-1][1] != revision:
            self._samples.append((now, revision))
        target = 0
        while self._samples and now - self._samples[0][0] >= self._keep_seconds:
            _, target = self._samples.popleft()
        if target > self._store.compacted:
            await self._compact(target)

    async def _compact(self, revision: int) -> None:
        try:
            await self._store.compact(revision)
        except StoreError as error:
            # What is not forgotten now is forgotten with the next sample.
            logger.warning("compaction to revision %d failed: %s", revision, error)
