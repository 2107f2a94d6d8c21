"""A shard of several whose store went back: which logical clusters are still its own?

It was restored from a backup, or an older copy of its file was put back. Since then, logical
clusters may have moved to other shards. The store has them as they were; if the shard served them,
there would be two of each. So before it serves anything, it asks all others which logical clusters
they have. Those it gives up, as if they had moved.

Which others there are is not in the store either: the root shard says it, and the cache server,
where every shard keeps its own Shard object. A shard that joined later is in the latter also if the
root shard was restored.
"""

from __future__ import annotations

import asyncio
import json
import logging
import pathlib
import time
from collections.abc import Iterator, Sequence

from pykcp.apis.kcp.shard_load import load_of
from pykcp.cache.remote import EVERYTHING, CacheServerClient
from pykcp.cache.scopes import join
from pykcp.clients.errors import SendFailed
from pykcp.clients.peers import Peers
from pykcp.controllers.cache.replication_plan import ORIGINAL_VERSION
from pykcp.machinery import meta
from pykcp.machinery.kcp import clusters
from pykcp.machinery.resources import LOGICAL_CLUSTERS, SHARDS
from pykcp.machinery.status import StatusError
from pykcp.programs.shard.stages.stores import StoresStage
from pykcp.registry.codec import decode
from pykcp.registry.keys import kind_prefix, object_key, split_key
from pykcp.registry.moving.outgoing import OutgoingMoves
from pykcp.storage.errors import StoreError
from pykcp.storage.interface import Store, StoreReader
from pykcp.types import Object

_log = logging.getLogger(__name__)
FILE = "restored.json"
"""In the root directory of a shard that has to ask."""
_ASK_AGAIN = 1.0
_SAY_AGAIN = 10.0
_CACHE_SECONDS = 30.0
"""How long a shard waits for the cache server, and for shards of which only that knows, if the root
shard has answered."""
_LOOK_SECONDS = 1.0
_SYSTEM_CLUSTERS = 100
"""More than there can be."""
_SKEW_SECONDS = 60.0
_FAILURES = (StatusError, SendFailed, OSError, TimeoutError)


def mark_restored(root: pathlib.Path, together: Sequence[str] = ()) -> None:
    """`together`: shards whose stores went back to the same moment; they need not ask each other."""
    path = root / FILE
    path.touch(mode=0o600)
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    path.write_text(json.dumps({"restoredAt": now, "together": sorted(together)}))


def _together(file: pathlib.Path) -> frozenset[str]:
    text = file.read_text()  # empty if an administrator has made it
    return frozenset(json.loads(text).get("together", ()) if text else ())


def own_shards(store: StoreReader) -> list[str]:
    """The shard whose store it is, if it is one of several."""
    prefix = f"{kind_prefix(SHARDS)}{clusters.SYSTEM_SHARD}//"
    return [key.removeprefix(prefix) for key in store.keys(prefix)]


async def lost_revision(stores: StoresStage, shard: str) -> int:
    """A revision that the shard has published and its store does not have; 0 if there is none.

    A shard publishes its report every few seconds. If the cache server does not answer, its local
    copy says how far the shard was.
    """
    key = object_key(kind_prefix(SHARDS), join(shard, clusters.SYSTEM_SHARD), "", shard)
    entry = stores.cache.store.get(key)
    published = [decode(entry.value)] if entry is not None else []
    if stores.mirror is not None:
        place = join(shard, clusters.SYSTEM_SHARD)
        try:
            async with asyncio.timeout(_LOOK_SECONDS):
                found = await stores.mirror.client.get(place, SHARDS, shard)
            published += [found] if found is not None else []
        except _FAILURES as error:
            _log.debug("what this shard has published is not known: %s", error)
    versions = [meta.annotation(one, ORIGINAL_VERSION) for one in published]
    await stores.store.barrier()  # another server of the shard may have published a moment ago
    newest = max((int(one) for one in versions if one.isdecimal()), default=0)
    return newest if newest > stores.store.revision else 0


def last_report(stores: StoresStage, shard: str) -> float:
    """When a shard reported last, as its own store knows it; 0 if it never did."""
    entry = stores.store.get(object_key(kind_prefix(SHARDS), clusters.SYSTEM_SHARD, "", shard))
    load = load_of(decode(entry.value)) if entry is not None else None
    return load.reported if load is not None else 0.0


async def settle_ownership(
    root: pathlib.Path, peers: Peers, stores: StoresStage, moves: OutgoingMoves
) -> None:
    """Return when the shard may serve what it has."""
    file = root / FILE
    if not file.exists():
        lost = await lost_revision(stores, peers.own)
        if not lost:
            return
        _log.warning(
            "the store is at revision %d, but this shard has published revision %d: it went back",
            stores.store.revision,
            lost,
        )
        mark_restored(root)
        await _leave_behind(stores.store, lost)
    if not _has_clusters(stores):
        file.unlink()
        return
    cache = stores.mirror.client if stores.mirror is not None else None
    since = last_report(stores, peers.own)
    await RestoredShard(file, peers, moves, cache, since).settle()


async def _leave_behind(store: Store, revision: int) -> None:
    """Go on after a revision that was lost: clients that know later ones list again."""
    try:
        await store.advance(revision)
        await store.compact(revision)
    except StoreError as error:
        _log.warning("clients may know revisions that will be given out again: %s", error)


def _has_clusters(stores: StoresStage) -> bool:
    """Whether there is anything that could have moved."""
    names = stores.store.keys(kind_prefix(LOGICAL_CLUSTERS), limit=_SYSTEM_CLUSTERS)
    return any(not clusters.is_system(split_key(key).cluster) for key in names)


class RestoredShard:
    def __init__(
        self,
        file: pathlib.Path,
        peers: Peers,
        moves: OutgoingMoves,
        cache: CacheServerClient | None,
        since: float,
    ) -> None:
        """`cache`: a remote cache server; `since`: of when the store is. Shards that only the cache
        server knows and that have not been seen since then were removed before.
        """
        self._file, self._together = file, _together(file)
        self._peers, self._moves, self._cache, self._since = peers, moves, cache, since
        self._known: dict[str, Object] | None = None
        """The other shards, as the root shard knows them; None: it has not answered."""
        self._published: dict[str, Object] | None = {} if cache is None else None
        """Those that only the cache server knows; None: it has not answered."""
        self._answered: set[str] = set()

    async def settle(self) -> None:
        """Return when the other shards have answered and what they have is given up."""
        deadline, said = time.monotonic() + _CACHE_SECONDS, 0.0
        while True:
            await self._find_others()
            for name, shard in {**(self._published or {}), **(self._known or {})}.items():
                if name not in self._answered and await self._ask(name, shard):
                    self._answered.add(name)
            missing, unsure = sorted(self._missing()), sorted(self._unsure())
            # Nothing but the cache server tells a root shard which shards have joined since.
            if unsure and time.monotonic() > deadline and not self._peers.is_root and not missing:
                _log.warning("serving without an answer of %s", ", ".join(unsure))
                unsure = []
            if not missing and not unsure:
                break
            said = self._complain([*missing, *unsure], said)
            await asyncio.sleep(_ASK_AGAIN)
        self._file.unlink()
        joined_later = self._answered.difference(self._known or ())
        if joined_later and self._peers.is_root:
            _log.warning(
                "shards %s joined after this state of root: restart them, and they register again",
                ", ".join(sorted(joined_later)),
            )

    def _missing(self) -> Iterator[str]:
        if self._known is None:
            yield "the root shard"
        yield from (f"shard {name}" for name in self._known or () if name not in self._answered)

    def _unsure(self) -> Iterator[str]:
        if self._published is None:
            yield "the cache server"
        if self._known is not None:
            others = (name for name in self._published or () if name not in self._known)
            yield from (f"shard {name}" for name in others if name not in self._answered)

    async def _find_others(self) -> None:
        if self._known is None:
            try:
                found = await self._peers.listed()
                self._known = {meta.name(one): one for one in found if self._is_asked(one)}
            except _FAILURES as error:
                _log.info("the root shard does not answer: %s", error)
        if self._published is None and self._cache is not None:
            try:
                found = await self._cache.list(EVERYTHING, SHARDS)
            except _FAILURES as error:
                _log.info("the cache server does not answer: %s", error)
            else:
                self._published = {meta.name(one): one for one in found if self._may_run(one)}

    def _may_run(self, shard: Object) -> bool:
        load = load_of(shard)
        is_recent = load is None or load.reported > self._since - _SKEW_SECONDS
        return is_recent and self._is_asked(shard)

    def _is_asked(self, shard: Object) -> bool:
        return meta.name(shard) not in self._together and meta.name(shard) != self._peers.own

    def _complain(self, names: list[str], said: float) -> float:
        now = time.monotonic()
        if said and now < said + _SAY_AGAIN:
            return said
        _log.warning(
            "the store went back (restored from a backup?): waiting for %s to say which logical"
            " clusters are elsewhere by now; to serve without asking, remove %s and restart",
            ", ".join(names),
            self._file,
        )
        return now

    async def _ask(self, name: str, shard: Object) -> bool:
        try:
            client = self._peers.client_at(shard)
            found: list[Object] = await client.list(clusters.WILDCARD, LOGICAL_CLUSTERS)
        except _FAILURES as error:
            _log.info("shard %s does not answer: %s", name, error)
            return False
        for obj in found:
            cluster = meta.cluster(obj)
            if clusters.is_system(cluster) or not self._moves.has(cluster):
                continue
            _log.warning("logical cluster %s is on shard %s now, and given up here", cluster, name)
            await self._moves.disown(cluster, name)
        return True
