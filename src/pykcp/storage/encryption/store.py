"""A store that encrypts the values of selected resources in the store below it.

Its users see plain values and terms; the store below, its log, its index of terms,
its files and a mirror of etcd contain sealed ones. Resources that are not
encrypted pass through with one comparison of their first bytes.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Iterable, Sequence
from concurrent.futures import TimeoutError as NotYet
from functools import partial
from typing import Any, TypeVar

from pykcp.aio.owner import TaskOwner
from pykcp.storage.encryption import sealed
from pykcp.storage.encryption.config import EncryptionConfig, EncryptionProvider
from pykcp.storage.encryption.errors import KeyPending, Unreadable
from pykcp.storage.encryption.kms import KmsProvider
from pykcp.storage.encryption.kms_client import KmsClient
from pykcp.storage.encryption.opening import Opening
from pykcp.storage.encryption.transformers import MakeKms, Transformers
from pykcp.storage.errors import StoreUnavailable
from pykcp.storage.group import ServerGroup
from pykcp.storage.interface import (
    SEALED_INDEX,
    Entry,
    Event,
    History,
    Keys,
    Page,
    Query,
    Revisions,
    Size,
    Store,
)
from pykcp.storage.listeners import Listeners
from pykcp.storage.moving import Adoption, ExportedRow, ExportPage, IncomingRow
from pykcp.storage.operations import Check, DeleteKey, Operation

_log = logging.getLogger(__name__)

GET_WAITS = 0.2
"""How long a read that cannot wait stands still for a KMS plugin, once per data key."""
PROBE_SECONDS, PROBE_AGAIN_SECONDS = 60.0, 10.0
"""How often a KMS plugin is asked for its status: while it is well, and while it is not."""
WARM_VALUES = 20_000
"""How many values are looked at for unknown data keys when the process starts."""
VALUES_PER_TURN = 16
TURN_SECONDS = 0.004
"""Values are opened a few at a time; after so long the loop gets its turn."""
KEYS_PER_TURN = 200

Answer = TypeVar("Answer")
Stored = TypeVar("Stored")
Plain = TypeVar("Plain")
Collected = list  # inside the class `list` is a method
Values = list[bytes]


def make_kms(provider: EncryptionProvider) -> KmsProvider:
    return KmsProvider(KmsClient(provider.name, provider.endpoint, provider.seconds))


class EncryptedStore:
    def __init__(
        self, store: Store, config: EncryptionConfig, *, make_kms: MakeKms = make_kms
    ) -> None:
        self._store = store
        self._make_kms = make_kms
        self._transformers = Transformers(config, make_kms)
        self._opening = Opening(self._transformers)
        self._listeners = Listeners()
        self._unlisten = store.listen(self._deliver)
        self._waited: set[object] = set()
        self._owner = TaskOwner("encryption")
        self._tell_unreadable: Callable[[str], None] | None = None
        self._lookup = store.lookup
        self._get = store.get

    @property
    def revision(self) -> int:
        return self._store.revision

    @property
    def group(self) -> ServerGroup | None:
        return self._store.group

    @property
    def compacted(self) -> int:
        return self._store.compacted

    def seals(self, key: str) -> bool:
        """Whether the value of a key is encrypted when it is written."""
        found = self._transformers.of(key)
        return found is not None and not found.writes_plain

    def on_unreadable(self, tell: Callable[[str], None]) -> None:
        """Have the key of each event that cannot be opened told: its watches must not go on."""
        self._tell_unreadable = tell

    async def start(self) -> None:
        await self._store.start()
        await self._start_providers(self._transformers)

    async def drain(self) -> None:
        await self._store.drain()

    async def stop(self) -> None:
        await self._owner.stop()
        self._unlisten()
        await self._store.stop()
        for provider in self._transformers.kms:
            provider.close()

    async def configure(self, config: EncryptionConfig) -> None:
        """Work by another configuration from now on; ConfigError leaves the old one in force.

        A KMS plugin of the new configuration that does not answer is such an error.
        """
        transformers = Transformers(config, self._make_kms)
        for provider in transformers.kms:
            await asyncio.to_thread(provider.refresh)
        broken = [f"{p.name}: {p.problem}" for p in transformers.kms if p.problem]
        if broken:
            for provider in transformers.kms:
                provider.close()
            raise Unreadable(f"KMS providers are not ready: {'; '.join(broken)}")
        previous, self._transformers = self._transformers, transformers
        self._opening = Opening(transformers)
        for provider in previous.kms:
            provider.close()
        self._keep_probing()

    # -- reading -------------------------------------------------------------------------------

    def get(self, key: str) -> Entry | None:
        entry = self._get(key)
        if entry is None:
            return None
        try:
            return self._opening.entry(entry)
        except KeyPending as pending:
            return self._get_later(entry, pending)

    def _get_later(self, entry: Entry, pending: KeyPending) -> Entry:
        """The only place where the loop stands still for a plugin: shortly, once per data key."""
        answer = pending.answer
        if answer in self._waited:
            raise StoreUnavailable("a key is still being fetched from the KMS plugin")
        self._waited.add(answer)
        answer.add_done_callback(self._waited.discard)
        try:
            answer.exception(GET_WAITS)
            return self._opening.entry(entry)
        except (NotYet, TimeoutError, KeyPending):
            raise StoreUnavailable("a key is being fetched from the KMS plugin") from None

    def keys(self, prefix: str, *, limit: int = 0) -> Keys:
        return self._store.keys(prefix, limit=limit)

    def get_before(self, key: str, revision: int) -> bytes | None:
        value = self._store.get_before(key, revision)
        if value is None:
            return None
        try:
            return self._opening.entry(Entry(key, revision, value, "")).value
        except KeyPending:
            return None  # not worth waiting for: callers do without

    async def list(self, query: Query) -> Page:
        page = await self._patiently(lambda: self._store.list(self._opening.sealed_query(query)))
        values = await self._open_values(query, page.values)
        return page._replace(values=values)

    async def _open_values(self, query: Query, values: Values) -> Values:
        if len(values) <= VALUES_PER_TURN:
            return await self._patiently_now(lambda: self._opening.values(query, values))
        if not query.prefix.startswith(self._transformers.prefixes) and not any(
            map(sealed.is_sealed, values)
        ):
            return values
        return await self._in_turns(values, partial(self._opening.values, query))

    async def _in_turns(
        self, things: Sequence[Stored], open_some: Callable[[Sequence[Stored]], Iterable[Plain]]
    ) -> Collected[Plain]:
        """Open a few at a time; the loop gets its turn after some milliseconds."""
        out: Collected[Plain] = []
        began = time.monotonic()
        for start in range(0, len(things), VALUES_PER_TURN):
            turn = things[start : start + VALUES_PER_TURN]
            out += await self._patiently_now(partial(open_some, turn))
            if time.monotonic() - began > TURN_SECONDS:
                await asyncio.sleep(0)
                began = time.monotonic()
        return out

    async def count(self, prefix: str) -> int:
        return await self._store.count(prefix)

    def lookup(self, index: str, *, after: str = "", limit: int = 0) -> Keys:
        return self._lookup(index, after=after, limit=limit)

    async def history(self, prefix: str, after: int, until: int, limit: int) -> History:
        found = await self._store.history(prefix, after, until, limit)
        return History(await self._in_turns(found.events, self._open_events), found.reached)

    def _open_events(self, events: Sequence[Event]) -> Iterable[Event]:
        return [self._opening.event(event) for event in events]

    def listen(
        self, callback: Callable[[Sequence[Event]], None], prefixes: Sequence[str] = ()
    ) -> Callable[[], None]:
        return self._listeners.add(callback, prefixes)

    def _deliver(self, events: Sequence[Event]) -> None:
        opened: list[Event] = []
        for event in events:
            try:
                opened.append(self._opening.event(event))
            except (Unreadable, KeyPending) as error:
                # Only another server's write can be unreadable; its watches must end and list again.
                _log.error("an event cannot be decrypted: %s", error)
                if self._tell_unreadable is not None:
                    self._tell_unreadable(event.key)
        if opened:
            self._listeners.tell(opened)

    # -- writing and the rest ------------------------------------------------------------------

    async def write(self, operations: Sequence[Operation]) -> Revisions:
        return await self._store.write(self._opening.sealed_operations(operations))

    async def barrier(self) -> None:
        await self._store.barrier()

    # -- moving: values travel in plain, each shard seals them with its own keys ----------------

    async def use_slot(self, slot: int) -> None:
        await self._store.use_slot(slot)

    async def advance(self, revision: int) -> None:
        await self._store.advance(revision)

    def complete_since(self, prefix: str) -> int:
        return self._store.complete_since(prefix)

    async def export(self, part: str, *, after: str = "", at: int = 0) -> ExportPage:
        page = await self._store.export(part, after=after, at=at)
        return page._replace(rows=await self._in_turns(page.rows, self._open_rows))

    def _open_rows(self, rows: Sequence[ExportedRow]) -> Iterable[ExportedRow]:
        opened = [self._opening.entry(Entry(*row)) for row in rows]
        return [ExportedRow(*entry[:4]) for entry in opened]

    async def hold(self, part: str) -> int:
        return await self._store.hold(part)

    def release(self, part: str) -> None:
        self._store.release(part)

    def refuse(self, part: str, shard: str) -> None:
        self._store.refuse(part, shard)

    async def evict(self, operations: Sequence[DeleteKey]) -> None:
        sealed_ones = self._opening.sealed_operations(operations)
        await self._store.evict([one for one in sealed_ones if isinstance(one, DeleteKey)])

    async def stage(self, part: str, rows: Sequence[IncomingRow], note: str) -> None:
        await self._store.stage(part, await self._in_turns(rows, self._seal_rows), note)

    def _seal_rows(self, rows: Sequence[IncomingRow]) -> Iterable[IncomingRow]:
        operations = self._opening.sealed_operations([row.operation for row in rows])
        return [
            IncomingRow(operation, row.revision)
            for row, operation in zip(rows, operations, strict=True)
            if not isinstance(operation, Check)
        ]

    def staged(self, part: str) -> str | None:
        return self._store.staged(part)

    async def discard(self, part: str) -> None:
        await self._store.discard(part)

    async def adopt(self, part: str, base: int) -> Adoption:
        return await self._store.adopt(part, base)

    async def announce(self, part: str) -> None:
        await self._store.announce(part)

    async def tidy(self, part: str) -> None:
        await self._store.tidy(part)

    async def compact(self, revision: int) -> None:
        await self._store.compact(revision)

    def health(self) -> str | None:
        return self._store.health()

    @property
    def size(self) -> Size:
        return self._store.size

    def providers_health(self) -> str | None:
        """None when all KMS plugins are well, otherwise what is wrong with them."""
        problems = [f"{p.name}: {p.problem}" for p in self._transformers.kms if p.problem]
        return "; ".join(problems) or None

    # -- KMS plugins ---------------------------------------------------------------------------

    async def _start_providers(self, transformers: Transformers) -> None:
        for provider in transformers.kms:
            await asyncio.to_thread(provider.refresh)
            if provider.problem:
                _log.error("KMS provider %s: %s", provider.name, provider.problem)
        if transformers.kms:
            await self._fetch_keys()
        self._keep_probing()

    async def _fetch_keys(self) -> None:
        """Ask for the data keys of earlier processes now, so that reads need not wait for them."""
        after = ""
        for _ in range(WARM_VALUES // KEYS_PER_TURN):
            keys = self._lookup(SEALED_INDEX, after=after, limit=KEYS_PER_TURN)
            for key in keys:
                try:
                    await self._patiently_now(partial(self._peek, key))
                except Unreadable as error:
                    _log.warning("%s", error)
            if len(keys) < KEYS_PER_TURN:
                return
            after = keys[-1]
            await asyncio.sleep(0)

    def _peek(self, key: str) -> None:
        entry = self._get(key)
        if entry is not None:
            self._opening.entry(entry)

    def _keep_probing(self) -> None:
        if self._transformers.kms and not self._owner.is_running("kms-status"):
            self._owner.start_restartable("kms-status", self._probe_plugins)

    async def _probe_plugins(self) -> None:
        while self._transformers.kms:
            is_well = self.providers_health() is None
            await asyncio.sleep(PROBE_SECONDS if is_well else PROBE_AGAIN_SECONDS)
            for provider in self._transformers.kms:
                await asyncio.to_thread(provider.refresh)

    async def _patiently(self, read: Callable[[], Coroutine[Any, Any, Answer]]) -> Answer:
        """Read; whenever a key has to be fetched first, wait for it and read again."""
        while True:
            try:
                return await read()
            except KeyPending as pending:
                await _settled(pending)

    async def _patiently_now(self, open_all: Callable[[], Answer]) -> Answer:
        while True:
            try:
                return open_all()
            except KeyPending as pending:
                await _settled(pending)


async def _settled(pending: KeyPending) -> None:
    """Wait for the response; errors are reported to the next caller."""
    await asyncio.wait((asyncio.wrap_future(pending.answer),))


def guarded(store: Store) -> Store:
    """A started store without a configuration: as it is, unless it holds sealed values.

    Then they are refused with a clear error instead of being taken for objects.
    """
    if isinstance(store, EncryptedStore) or not store.lookup(SEALED_INDEX, limit=1):
        return store
    _log.error(
        "the store contains encrypted values, but --encryption-provider-config is not set: "
        "they cannot be read"
    )
    return EncryptedStore(store, EncryptionConfig(()))
