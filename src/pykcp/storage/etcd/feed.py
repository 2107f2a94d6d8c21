"""Keeps the mirror in step with etcd, through lost connections and restarts."""

from __future__ import annotations

import asyncio
import heapq
import itertools
import logging
import random
import time
from collections.abc import AsyncIterator, Callable
from typing import Any, NamedTuple

from pykcp.storage.errors import Compacted, StoreError, StoreUnavailable
from pykcp.storage.etcd import messages
from pykcp.storage.etcd.client import EtcdClient, Watch
from pykcp.storage.etcd.decoding import EtcdEvent, EtcdOutcome
from pykcp.storage.etcd.encoding import head_of
from pykcp.storage.etcd.envelope import Keyspace
from pykcp.storage.etcd.mirror import Mirror
from pykcp.storage.interface import Sleep

logger = logging.getLogger(__name__)

KEYS_PER_PAGE = 250
RANGE_SECONDS = 10.0
FIRST_BACKOFF, LONGEST_BACKOFF = 0.05, 2.0


class Newest(NamedTuple):
    cluster: int
    revision: int
    head: int
    """The revision of our last change."""


class EtcdFeed:
    def __init__(
        self,
        client: EtcdClient,
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
        self.carried_out: Callable[[EtcdOutcome], None] = lambda _: None
        """Called with the requests of this server that the mirror has received."""
        self._sleep = sleep
        self._watch: Watch | None = None
        self._waiters: list[tuple[int, int, asyncio.Future[None]]] = []
        self._order = itertools.count()
        self._backoff = FIRST_BACKOFF
        self.problem: str | None = "not connected yet"
        """Why the mirror is not being kept current; None: it is."""
        self._lost_at = time.monotonic()

    async def run(self) -> None:
        """Until cancelled. An unexpected error is reported until etcd is followed again."""
        try:
            await self._run()
        except Exception as error:
            self.problem = f"the feed has failed: {error!r}"
            raise

    async def _run(self) -> None:
        while True:
            server = self._client.server
            try:
                await self._follow()
            except Compacted:
                await self._fetch_again()
            except StoreError as error:
                await self._lost(error, server)

    async def fetch(self, revision: int) -> None:
        """Fill the mirror with everything in etcd at a revision."""
        request = messages.RangeRequest(key=self._keyspace.numbering, revision=revision)
        found = (await self._client.range(request, RANGE_SECONDS)).kvs
        numbering = (
            EtcdEvent(found[0].mod_revision, found[0].key, found[0].value) if found else None
        )
        await self._mirror.replace(self._pages(revision), revision, numbering)
        await self.fetch_marks()
        self._wake()

    async def fetch_marks(self) -> None:
        """What is imported and held; changes of it come later, with the rest."""
        keyspace = self._keyspace
        request = messages.RangeRequest(key=keyspace.holds, range_end=keyspace.holds_end)
        for kv in (await self._client.range(request, RANGE_SECONDS)).kvs:
            self._mirror.note_hold(kv.key)
        request = messages.RangeRequest(key=keyspace.imports, range_end=keyspace.imports_end)
        for kv in (await self._client.range(request, RANGE_SECONDS)).kvs:
            part = keyspace.imported_part(kv.key)
            if part is not None:
                self._mirror.note_import(part, kv.mod_revision)

    async def newest(self, seconds: float) -> Newest:
        """How far etcd is, as agreed by a majority of its servers."""
        request = messages.RangeRequest(key=self._keyspace.head)
        response = await self._client.range(request, seconds)
        header = response.header
        return Newest(header.cluster_id, header.revision, head_of(response))

    async def reach(self, revision: int, seconds: float) -> None:
        """Wait until the mirror has reached a revision of etcd that changed one of the keys."""
        if self._mirror.applied >= revision:
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiters, (revision, next(self._order), future))
        try:
            async with asyncio.timeout(seconds):
                await future
        except TimeoutError:
            raise StoreUnavailable(
                f"etcd at {self._client.server} has not sent revision {revision} in time"
            ) from None

    def change_server(self) -> None:
        """The server in use has not answered in time: follow another, if there is one; otherwise
        the same, on a new connection.
        """
        self._client.drop_connection()
        if self._watch is not None:
            self._watch.end()

    def lost_seconds(self) -> float:
        """How long the mirror has not been kept current."""
        return 0.0 if self.problem is None else time.monotonic() - self._lost_at

    async def _follow(self) -> None:
        start = self._mirror.applied + 1
        watch = self._client.watch(self._keyspace.start, self._keyspace.end, start)
        self._watch = watch
        try:
            async for response in watch.responses():
                if response.created:
                    self._found()
                elif response.events:
                    self._take(response.events)
                else:
                    self._mirror.reached(response.header.revision)
                self._wake()
        finally:
            watch.end()

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

    async def _fetch_again(self) -> None:
        logger.warning(
            "etcd has compacted revisions that the mirror has not seen: fetching everything"
        )
        while True:
            server = self._client.server
            try:
                await self.fetch((await self.newest(RANGE_SECONDS)).revision)
            except StoreError as error:
                await self._lost(error, server)
            else:
                return

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

    async def _lost(self, error: StoreError, server: str) -> None:
        if self.problem is None:
            logger.warning("connection to etcd lost: %s", error)
            self._lost_at = time.monotonic()
        self.problem = str(error)
        self._client.leave(server)
        # Not all servers of an installation at the same moment.
        await self._sleep(self._backoff * random.uniform(0.5, 1.0))  # noqa: S311
        self._backoff = min(2 * self._backoff, LONGEST_BACKOFF)

    def _found(self) -> None:
        if self.problem is not None:
            logger.info("watching etcd at %s", self._client.server)
        self.problem = None
        self._backoff = FIRST_BACKOFF
