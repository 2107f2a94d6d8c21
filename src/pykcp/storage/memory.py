"""The store in memory, for tests: the contract and nothing else."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Sequence
from itertools import accumulate

from pykcp.machinery.terms import matcher
from pykcp.storage import changes as planning
from pykcp.storage.changes import StoredChange, StoredRow
from pykcp.storage.errors import Compacted, FutureRevision
from pykcp.storage.group import ServerGroup
from pykcp.storage.holds import Holds
from pykcp.storage.interface import Entry, Event, History, Keys, Page, Query, Revisions
from pykcp.storage.keys import part_of, start_of_range
from pykcp.storage.listeners import Listeners
from pykcp.storage.moving import EXPORT_ROWS, Adoption, ExportedRow, ExportPage, IncomingRow
from pykcp.storage.numbering import Numbering, PlainCounter, numbering
from pykcp.storage.operations import DeleteKey, Operation
from pykcp.storage.size_limit import SizeLimit
from pykcp.storage.terms import is_filtered, split_indexes

Changes = list[StoredChange]


class MemoryStore:
    group: ServerGroup | None = None

    def __init__(self, most_bytes: int = 0) -> None:
        self.size = SizeLimit(most_bytes, self._used_bytes)
        self.revision = 0
        self.compacted = 0
        self._keys: list[str] = []
        """All keys there is something to say of, in order; deleted ones until compaction."""
        self._changes: dict[str, list[StoredChange]] = {}
        """Of each key, oldest first."""
        self._events: list[Event] = []
        self._listeners = Listeners()
        self._numbering: Numbering = PlainCounter()
        self._holds = Holds()
        self._staged: dict[str, tuple[dict[int, IncomingRow], str]] = {}
        self._adopted: dict[str, Adoption] = {}

    async def start(self) -> None:
        pass

    async def drain(self) -> None:
        pass

    async def stop(self) -> None:
        pass

    def get(self, key: str) -> Entry | None:
        change = self._change_at(key, self.revision)
        return Entry(key, change.revision, change.value, change.terms) if change else None

    async def list(self, query: Query) -> Page:
        at = query.at or self.revision
        oldest = self.complete_since(query.prefix)
        if at < oldest:
            raise Compacted(at, oldest)
        if at > self.revision:
            raise FutureRevision(at, self.revision)
        wanted = matcher(query.where, query.residual)
        rows = self._range(query.prefix, query.after, at)
        found = [change for change in rows if wanted is None or wanted(change.terms)]
        limit = query.limit or len(found)
        if query.max_bytes:
            sizes = accumulate(len(change.value) for change in found)
            limit = min(limit, 1 + sum(1 for size in sizes if size < query.max_bytes))
        page = found[:limit]
        # After a full page there is more if there is any key, wanted or not.
        is_full = query.limit > 0 and len(page) >= query.limit
        if len(found) <= limit and not (is_full and rows[-1].key > page[-1].key):
            return Page([change.value for change in page], at, "", None)
        counted = query.count_remaining and not is_filtered(query)
        return Page(
            [change.value for change in page],
            at,
            page[-1].key,
            len(found) - limit if counted else None,
        )

    def keys(self, prefix: str, *, limit: int = 0) -> Keys:
        found = [change.key for change in self._range(prefix, "", self.revision)]
        return found[:limit] if limit else found

    def get_before(self, key: str, revision: int) -> bytes | None:
        change = self._change_at(key, revision - 1)
        return None if change is None or change.deleted else change.value

    async def count(self, prefix: str) -> int:
        return len(self._range(prefix, "", self.revision))

    def lookup(self, index: str, *, after: str = "", limit: int = 0) -> Keys:
        found = [
            change.key
            for change in self._range("", after, self.revision)
            if index in split_indexes(change.indexes)
        ]
        return found[:limit] if limit else found

    async def write(self, operations: Sequence[Operation]) -> Revisions:
        if self._holds:
            await self._holds.wait(operations)
        return self._write(operations)

    def _write(self, operations: Sequence[Operation]) -> Revisions:
        if self.size.is_reached:
            self.size.check(operations, self.get)
        base = self._numbering.base(self.revision)
        changes = planning.plan(operations, self._row, base, self._numbering.step)
        for change in changes:
            self._keep(change)
        if changes:
            events = [planning.event(change) for change in changes]
            self._events.extend(events)
            self.revision = changes[-1].revision
            self._listeners.tell(events)
            self.size.note(sum(len(change.value) for change in changes))
        return planning.revisions(operations, changes)

    def _keep(self, change: StoredChange) -> None:
        if change.key not in self._changes:
            self._changes[change.key] = []
            insort(self._keys, change.key)
        self._changes[change.key].append(change)

    # -- moving --------------------------------------------------------------------------------

    async def use_slot(self, slot: int) -> None:
        self._numbering = numbering(slot)

    async def advance(self, revision: int) -> None:
        self._numbering.reserve(revision)
        self.revision = max(self.revision, revision)

    def complete_since(self, prefix: str) -> int:
        part, adopted = part_of(prefix), self._adopted
        if part:
            return max(self.compacted, adopted[part].base if part in adopted else 0)
        return max(self.compacted, *(one.revision for one in adopted.values()), 0)

    async def export(self, part: str, *, after: str = "", at: int = 0) -> ExportPage:
        at = at or self.revision
        if at < self.compacted:
            raise Compacted(at, self.compacted)
        found = [c for c in self._range("", after, at) if part_of(c.key) == part]
        rows = [ExportedRow(c.key, c.revision, c.value, c.terms) for c in found[:EXPORT_ROWS]]
        return ExportPage(rows, rows[-1].key if len(found) > len(rows) else "")

    async def hold(self, part: str) -> int:
        self._holds.hold(part)
        return self.revision

    def release(self, part: str) -> None:
        self._holds.release(part)

    def refuse(self, part: str, shard: str) -> None:
        self._holds.refuse(part, shard)

    async def evict(self, operations: Sequence[DeleteKey]) -> None:
        self._write(operations)

    async def stage(self, part: str, rows: Sequence[IncomingRow], note: str) -> None:
        staged = self._staged.get(part, ({}, ""))[0]
        staged.update((row.revision, row) for row in rows)
        self._staged[part] = (staged, note)
        self._adopted.pop(part, None)

    def staged(self, part: str) -> str | None:
        return self._staged[part][1] if part in self._staged else None

    async def discard(self, part: str) -> None:
        self._staged.pop(part, None)

    async def adopt(self, part: str, base: int) -> Adoption:
        if part in self._adopted:
            return self._adopted[part]
        rows, _ = self._staged.pop(part)
        for key in [key for key in self._keys if part_of(key) == part]:
            del self._changes[key]
            self._keys.remove(key)
        self._events = [event for event in self._events if part_of(event.key) != part]
        # What the other store counted ahead of its clock must be visible here at once.
        last = max(self.revision, base)
        revision = self._numbering.base(last) + self._numbering.step
        taken = rows.keys() & {c.revision for changes in self._changes.values() for c in changes}
        for number, row in sorted(rows.items()):
            if number in taken:
                base = revision = revision + self._numbering.step
            number = revision if number in taken else number
            change = planning.change(row.operation, self._row(row.operation.key), number)
            self._keep(change)
            self._events.append(planning.event(change))
        self._events.sort(key=lambda event: event.revision)
        self.revision = revision
        self._adopted[part] = Adoption(revision if taken else base, revision)
        return self._adopted[part]

    async def announce(self, part: str) -> None:
        rows = (await self.export(part)).rows
        events = [Event(r.revision, r.key, r.value, r.terms, "", True, False) for r in rows]
        self._listeners.tell(events)

    async def tidy(self, part: str) -> None:
        """Nothing is left."""

    def listen(
        self, callback: Callable[[Sequence[Event]], None], prefixes: Sequence[str] = ()
    ) -> Callable[[], None]:
        return self._listeners.add(callback, prefixes)

    async def history(self, prefix: str, after: int, until: int, limit: int) -> History:
        if after < self.compacted:
            raise Compacted(after, self.compacted)
        events = [
            event
            for event in self._events
            if after < event.revision <= until and event.key.startswith(prefix)
        ][:limit]
        return History(events, events[-1].revision if len(events) >= limit else until)

    async def barrier(self) -> None:
        pass

    async def compact(self, revision: int) -> None:
        if revision > self.revision:
            raise FutureRevision(revision, self.revision)
        if revision <= self.compacted:
            return
        self.compacted = revision
        self._events = [event for event in self._events if event.revision > revision]
        for key in tuple(self._keys):
            self._forget(key, revision)
        self.size.look()

    def _used_bytes(self) -> int:
        return sum(len(change.value) for changes in self._changes.values() for change in changes)

    def health(self) -> str | None:
        return None

    def _forget(self, key: str, revision: int) -> None:
        """Of what a key was before the revision, keep only its state at the revision."""
        changes = self._changes[key]
        newer = [change for change in changes if change.revision > revision]
        then = self._change_at(key, revision)
        kept = [then, *newer] if then else newer
        if kept:
            self._changes[key] = kept
        else:
            del self._changes[key]
            self._keys.remove(key)

    def _row(self, key: str) -> StoredRow | None:
        changes = self._changes.get(key)
        return planning.row_after(changes[-1]) if changes else None

    def _change_at(self, key: str, at: int) -> StoredChange | None:
        """What was current at a revision."""
        for change in reversed(self._changes.get(key, ())):
            if change.revision <= at:
                return None if change.deleted else change
        return None

    def _range(self, prefix: str, after: str, at: int) -> Changes:
        found: list[StoredChange] = []
        for index in range(bisect_left(self._keys, start_of_range(prefix, after)), len(self._keys)):
            key = self._keys[index]
            if not key.startswith(prefix):
                break
            if change := self._change_at(key, at):
                found.append(change)
        return found
