"""Keeps the mirror in step with etcd, through lost connections and restarts."""

from __future__ import annotations

import asyncio
import heapq
import itertools
import logging
import random
from collections.abc import AsyncIterator, Callable
from typing import Any

from pykcp.storage.errors import Compacted, StoreError, Unavailable
from pykcp.storage.etcd import messages
from pykcp.storage.etcd.client import Client, Watch
from pykcp.storage.etcd.decoding import EtcdEvent, Outcome
from pykcp.storage.etcd.envelope import Keyspace
from pykcp.storage.etcd.mirror import Mirror
from pykcp.storage.interface import Sleep

logger = logging.getLogger(__name__)

KEYS_PER_PAGE = 250
RANGE_SECONDS = 10.0
PROGRESS_SECONDS = 0.1
"""etcd drops a request for progress while it is catching up: ask again."""
FIRST_BACKOFF, LONGEST_BACKOFF = 0.05, 2.0


class Feed:
    def __init__(
        self,
        client: Client,
        mirror: Mirror,
        keyspace: Keyspace,
        writer: int,
        *,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self._client = client
        self._mirror = mirror
        self._keyspace = keyspace
        self._writer = writer
        self.carried_out: Callable[[Outcome], None] = lambda _: None
        """Is told which requests of this server the mirror has received."""
        self._sleep = sleep
        self._watch: Watch | None = None
        self._waiters: list[tuple[int, int, asyncio.Future[None]]] = []
        self._order = itertools.count()
        self._backoff = FIRST_BACKOFF
        self.problem: str | None = "not connected yet"
        """Why the mirror is not being kept current; None: it is."""

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            try:
                await self._follow()
            except Compacted:
                await self._retrying(self._fetch_again)
            except StoreError as error:
                await self._lost(error)

    async def fetch(self, revision: int) -> None:
        """Fill the mirror with everything in etcd at a revision."""
        await self._mirror.replace(self._pages(revision), revision)
        self._wake()

    async def newest(self, seconds: float) -> Any:
        """etcd's header now, as agreed by a majority: has its identity and its revision."""
        key = self._keyspace.start
        request = messages.RangeRequest(key=key, count_only=True)
        return (await self._client.range(request, seconds)).header

    async def reach(self, revision: int, seconds: float, *, is_news: bool) -> None:
        """Return when the mirror is at a revision of etcd's.

        `is_news`: something of ours was written then, so that the watch will tell.
        """
        if self._mirror.applied >= revision:
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiters, (revision, next(self._order), future))
        try:
            async with asyncio.timeout(seconds):
                while not is_news and not future.done():
                    await self._ask_for_progress()
                    await asyncio.wait((future,), timeout=PROGRESS_SECONDS)
                await future
        except TimeoutError:
            raise Unavailable(
                f"etcd at {self._client.server} has not sent revision {revision} in time"
            ) from None

    async def _follow(self) -> None:
        start = self._mirror.applied + 1
        watch = self._client.watch(self._keyspace.start, self._keyspace.end, start)
        try:
            async for response in watch.responses():
                if response.created:
                    self._watch = watch
                    self._found()
                elif response.events:
                    self._take(response.events)
                else:
                    self._mirror.reached(response.header.revision)
                self._wake()
        finally:
            self._watch = None
            watch.cancel()

    def _take(self, events: Any) -> None:
        taken = [
            EtcdEvent(
                event.kv.mod_revision,
                event.kv.key,
                None if event.type == messages.DELETE else event.kv.value,
            )
            for event in events
        ]
        for outcome in self._mirror.apply(taken, self._writer):
            self.carried_out(outcome)

    def _wake(self) -> None:
        applied = self._mirror.applied
        while self._waiters and self._waiters[0][0] <= applied:
            _, _, future = heapq.heappop(self._waiters)
            if not future.done():
                future.set_result(None)

    async def _ask_for_progress(self) -> None:
        if self._watch is None:
            return
        try:
            await self._watch.ask_for_progress()
        except Unavailable:
            return  # `_follow` hears of it too, and starts another watch

    async def _fetch_again(self) -> None:
        logger.warning("etcd has forgotten what the mirror has not seen yet: fetching everything")
        header = await self.newest(RANGE_SECONDS)
        await self.fetch(header.revision)

    async def _pages(self, revision: int) -> AsyncIterator[Any]:
        start, is_more = self._keyspace.data, True
        while is_more:
            request = messages.RangeRequest(
                key=start,
                range_end=self._keyspace.data_end,
                limit=KEYS_PER_PAGE,
                revision=revision,
            )
            response = await self._client.range(request, RANGE_SECONDS)
            yield response.kvs
            is_more = response.more
            if is_more:
                start = response.kvs[-1].key + b"\0"

    async def _retrying(self, work: Callable[[], Any]) -> None:
        while True:
            try:
                await work()
            except StoreError as error:
                await self._lost(error)
            else:
                return

    async def _lost(self, error: StoreError) -> None:
        if self.problem is None:
            logger.warning("lost etcd: %s", error)
        self.problem = str(error)
        self._client.use_next()
        # Not all servers of an installation at the same moment.
        await self._sleep(self._backoff * random.uniform(0.5, 1.0))  # noqa: S311
        self._backoff = min(2 * self._backoff, LONGEST_BACKOFF)

    def _found(self) -> None:
        if self.problem is not None:
            logger.info("following etcd at %s", self._client.server)
        self.problem = None
        self._backoff = FIRST_BACKOFF
