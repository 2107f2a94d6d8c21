"""The destination of a migration: copies a logical cluster, follows it, and takes it over.

`take` can be interrupted at any point and called again: everything that it has done is stored.

1. Everything in the logical cluster is copied as it was at one revision, page by page.
2. Changes since then are copied until there are few.
3. The origin holds writes for at most a second; the last changes are copied and stored.
4. The origin gives the logical cluster away: it stores that this shard has it. Before this, the
   origin goes on if anything fails; after this, everything is stored here.
5. The copy is adopted with the revisions that it has, and served.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from itertools import pairwise

from pykcp.clients.peers import Peers
from pykcp.controllers.migration.needed_definitions import NeededDefinitions
from pykcp.controllers.migration.objects import MigrationKey
from pykcp.controllers.runtime.controller import Requeue
from pykcp.machinery.status import Conflict, Expired, Gone, StatusError, TooManyRequests
from pykcp.registry.moving.incoming import IncomingMoves
from pykcp.registry.moving.records import CopyProgress, Departure, TravellingRow
from pykcp.types import Object

_log = logging.getLogger(__name__)

SERVICE = "/services/moving"
FEW_CHANGES = 50
"""Writes are held when no more than so many changes are missing."""
_REPORT_SECONDS = 1.0
_HOLD_PAUSE = 0.1

Report = Callable[[int], Awaitable[None]]
"""Called now and then, and when everything is copied, with the number of copied entries."""


class MigrationCancelled(Exception):
    """The origin does not let this migration have the logical cluster: it was cancelled."""


class DestinationFull(Exception):
    """The shard may not have more logical clusters."""


class MigrationDestination:
    def __init__(
        self,
        incoming: IncomingMoves,
        definitions: NeededDefinitions,
        peers: Peers,
        shard: str,
    ) -> None:
        self._incoming, self._definitions, self._peers = incoming, definitions, peers
        self._shard = shard

    async def take(self, key: MigrationKey, cluster: str, origin: str, report: Report) -> int:
        """Make a logical cluster one of this shard's; the number of entries that were copied.

        Raises MigrationCancelled, DestinationFull, and Requeue if the origin does not answer.
        """
        incoming, entries = self._incoming, 0
        arrival = incoming.arrival(cluster)
        if arrival is None and incoming.is_leaving(cluster):
            raise Requeue("what an earlier move has left here is not removed yet")
        if arrival is None and incoming.exists(cluster):
            return 0  # done before
        try:
            await incoming.begin(cluster, origin, key.mark)
        except TooManyRequests as full:
            raise DestinationFull(full.message) from full
        move = _Move(self._peers, key, cluster, origin, self._shard)
        if incoming.progress(cluster) is not None or not incoming.exists(cluster):
            await self._copy(move, report)
            progress = incoming.progress(cluster)
            entries = progress.entries if progress is not None else 0
        copied = time.monotonic()
        await incoming.adopt(cluster)
        adopted = time.monotonic()
        await incoming.announce(cluster)
        announced = time.monotonic()
        await incoming.arrive(cluster)
        _log.info(
            "logical cluster %s has come from shard %s: %d entries; writes waited %d ms for the last "
            "changes, %d ms for the adoption, %d ms for those who follow, %d ms for the end",
            cluster,
            origin,
            entries,
            *_milliseconds(move.held_at or copied, copied, adopted, announced, time.monotonic()),
        )
        await incoming.tidy(cluster)
        return entries

    async def abandon(self, key: MigrationKey, cluster: str) -> None:
        """The migration was cancelled: drop what was copied."""
        arrival = self._incoming.arrival(cluster)
        if arrival is not None and arrival.migration == key.mark:
            await self._incoming.abandon(cluster)

    async def _copy(self, move: _Move, report: Report) -> None:
        while True:
            departure = await move.departure()
            progress = self._incoming.progress(move.cluster)
            if departure is not None:
                if _has_all(progress, departure):
                    return
                await self._copy_all(move, departure.revision, report)
                return
            await self._incoming.expect(move.cluster, is_due=False)
            try:
                await self._copy_all(move, 0, report)
                await self._definitions.ensure(move.origin, move.cluster)
                await self._follow(move, report)
                # Later it may be too late: nothing counts them again once they are adopted.
                await report(self._progress(move).entries)
                if await self._finish(move):
                    return
            except (Expired, Gone):
                # The origin has compacted what is missing.
                await self._incoming.restart(move.cluster)
            await asyncio.sleep(_HOLD_PAUSE)

    async def _copy_all(self, move: _Move, at: int, report: Report) -> None:
        """The first copy; `at`: as it was when it was given away, with nothing to follow."""
        progress = self._incoming.progress(move.cluster)
        if progress is not None and at not in (0, progress.base):
            await self._incoming.restart(move.cluster)
            progress = None
        told = time.monotonic()
        while progress is None or not progress.is_copied:
            after, base = (progress.after, progress.base) if progress else ("", at)
            page = await move.ask("copy", after=after, at=base)
            rows = _rows(page)
            entries = (progress.entries if progress else 0) + len(rows)
            base, after = page["revision"], page["next"]
            is_complete = bool(at) and not after
            progress = CopyProgress(
                move.key.mark, base, after, base, entries, not after, is_complete
            )
            await self._incoming.stage(move.cluster, rows, progress)
            if time.monotonic() - told > _REPORT_SECONDS:
                told = time.monotonic()
                await report(entries)

    async def _follow(self, move: _Move, report: Report) -> None:
        """Copy changes until there are few."""
        while True:
            progress = self._progress(move)
            page = await move.ask("changes", after=progress.revision)
            rows = await self._stage_changes(move, progress, page)
            if not page["isBehind"] and rows <= FEW_CHANGES:
                return

    async def _finish(self, move: _Move) -> bool:
        """Let the origin hold writes, copy the last changes, have the cluster; False: again."""
        await self._incoming.prepare(move.cluster)
        await self._incoming.expect(move.cluster, is_due=True)
        progress = self._progress(move)
        move.held_at = time.monotonic()
        page = await move.ask("hold", after=progress.revision)
        if page["isBehind"]:
            await self._stage_changes(move, progress, page)
            return False
        await self._stage_changes(move, progress, page, is_complete=True)
        try:
            await move.ask("give", shard=self._shard, revision=page["revision"])
        except Conflict:
            # The hold was over. Changes go on from here.
            progress = self._progress(move)._replace(is_complete=False)
            await self._incoming.stage(move.cluster, (), progress)
            return False
        return True

    async def _stage_changes(
        self, move: _Move, progress: CopyProgress, page: Object, is_complete: bool = False
    ) -> int:
        rows = _rows(page)
        entries = progress.entries + len(rows)
        progress = progress._replace(
            revision=page["revision"], entries=entries, is_complete=is_complete
        )
        await self._incoming.stage(move.cluster, rows, progress)
        return len(rows)

    def _progress(self, move: _Move) -> CopyProgress:
        progress = self._incoming.progress(move.cluster)
        assert progress is not None  # the first copy has been staged
        return progress


class _Move:
    """One migration's requests to the origin."""

    def __init__(
        self, peers: Peers, key: MigrationKey, cluster: str, origin: str, shard: str
    ) -> None:
        self._peers, self.key, self.cluster, self.origin = peers, key, cluster, origin
        self._shard = shard
        self.held_at = 0.0
        """When the origin was asked to hold writes."""

    async def ask(self, action: str, **fields: object) -> Object:
        body = {"cluster": self.cluster, "migration": self.key.mark, **fields}
        try:
            return await self._peers.client(self.origin).send("POST", f"{SERVICE}/{action}", body)
        except (Conflict, Expired, Gone):
            raise
        except StatusError as error:
            if error.reason == "NotMigrating":
                raise MigrationCancelled(str(error)) from error
            raise Requeue(f"shard {self.origin}: {error}") from error

    async def departure(self) -> Departure | None:
        found = (await self.ask("state"))["departure"]
        departure = Departure(**found) if found is not None else None
        if departure is not None and departure.migration != self.key.mark:
            raise MigrationCancelled(f"the logical cluster is on shard {departure.shard}")
        return departure


def _has_all(progress: CopyProgress | None, departure: Departure) -> bool:
    if progress is None or not progress.is_complete:
        return False
    return progress.revision == departure.revision


def _milliseconds(*moments: float) -> list[int]:
    """Between each of these moments and the next."""
    return [round((after - before) * 1000) for before, after in pairwise(moments)]


def _rows(page: Object) -> list[TravellingRow]:
    return [TravellingRow(*row) for row in page["rows"]]
