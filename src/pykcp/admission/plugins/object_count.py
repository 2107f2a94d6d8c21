"""Limit on the total number of objects in a logical cluster.

The limit is the LogicalCluster's annotation, or the shard's flag. Only clusters with a limit and
with writes have a count: it is read from the store once, and then updated by committed events.
A create in progress is counted until its event arrives, so that the limit is never exceeded, and
a failed create does not count.

Servers that share an etcd count separately. Where few objects are left, creates take turns: each
one fails, and is tried again, if another server has created something since it counted.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

from pykcp.caching import BoundedCache
from pykcp.machinery import meta
from pykcp.machinery.kcp import clusters
from pykcp.machinery.resources import CLUSTER_ROLE_BINDINGS, EVENTS, LOGICAL_CLUSTERS
from pykcp.machinery.status import Forbidden, go_quote
from pykcp.observe.metrics import LabelledGauge, Registry
from pykcp.registry import codec
from pykcp.registry.catalog.directory import Directory
from pykcp.registry.keys import object_key, range_prefix, resource_prefix
from pykcp.registry.stored import Event, Query, StoreReader
from pykcp.registry.verbs.admitting import AdmissionRequest, Counts
from pykcp.registry.verbs.reservations import turn_of
from pykcp.types import Object

ANNOTATION = "core.kcp.io/max-total-objects"
_CLUSTERS = resource_prefix(LOGICAL_CLUSTERS.group, LOGICAL_CLUSTERS.resource)
_EVENTS = resource_prefix(EVENTS.group, EVENTS.resource)
_EXEMPT = frozenset((
    (LOGICAL_CLUSTERS.group, LOGICAL_CLUSTERS.resource),
    ("", "events"),
    ("events.k8s.io", "events"),
))  # fmt: skip
_WORKSPACE_ADMIN = "workspace-admin"
_REMEMBER_LIMITS = 16384
_REMEMBER_COUNTS = 4096
_TRIES = 8
_TURNS_BELOW = 1000
"""Objects left below which creates of several servers take turns: more than they create at once."""
_SHOWN_FROM = 0.9
"""How full a cluster must be to be seen in the metrics: that keeps their labels few."""


class _Count:
    """The objects of one cluster."""

    __slots__ = ("changes", "is_exact", "lock", "objects", "pending", "turns")

    def __init__(self) -> None:
        self.objects = 0
        self.pending: set[str] = set()
        """Keys on their way into the store."""
        self.is_exact = False
        self.changes: list[tuple[int, int]] = []
        """Revision and +1 or -1, of what happened while counting."""
        self.lock = asyncio.Lock()
        self.turns = asyncio.Lock()
        """Creates of this server that have to take turns do so here first."""

    @property
    def total(self) -> int:
        return self.objects + len(self.pending)

    def follow(self, event: Event) -> None:
        step = 1 if event.created else -1
        self.pending.discard(event.key)
        self.objects += step
        if not self.is_exact:
            self.changes.append((event.revision, step))


class ObjectCountLimit:
    name = "core.kcp.io/LogicalClusterObjectCountLimit"
    operations = ("CREATE",)

    def __init__(self, store: StoreReader, directory: Directory, default: int) -> None:
        """`default` is the limit of clusters that say nothing; 0 or less is none."""
        self._store, self._directory, self._default = store, directory, default
        self._limits: BoundedCache[str, int] = BoundedCache("object-limits", _REMEMBER_LIMITS)
        self._counts: OrderedDict[str, _Count] = OrderedDict()
        self._news = asyncio.Event()
        store.listen(self._follow)

    def wants(self, request: AdmissionRequest) -> bool:
        if request.operation != "CREATE" or request.subresource or request.context.is_new:
            return False
        limit = self._limits.get(request.context.cluster)
        if limit is not None and limit <= 0:
            return False
        return not _is_exempt(request)

    async def validate(self, request: AdmissionRequest) -> None:
        cluster = request.context.cluster
        limit = self._limit(cluster)
        if limit <= 0:
            return
        if request.context.dry_run:
            _check(request, await self._counted(cluster), limit)
        else:
            request.reserve(self._reserve)

    @asynccontextmanager
    async def _reserve(self, requests: Sequence[AdmissionRequest]) -> AsyncIterator[Counts]:
        added: list[tuple[_Count, str]] = []
        turns: dict[str, Counts] = {}
        held = AsyncExitStack()
        try:
            # In one order everywhere, so that no two wait for each other.
            for request in sorted(requests, key=lambda each: each.context.cluster):
                cluster = request.context.cluster
                limit = self._limit(cluster)
                if limit <= 0:
                    continue  # lifted a moment ago
                count = await self._counted(cluster)
                if self._takes_turns(count, limit) and cluster not in turns:
                    await held.enter_async_context(count.turns)
                    turns[cluster] = [turn_of(self._store, cluster)]
                _check(request, count, limit)
                key = request.resource.key(cluster, request.namespace, request.name)
                if key not in count.pending:  # else another request creates the same object
                    count.pending.add(key)
                    added.append((count, key))
            yield list({turn.key: turn for (turn,) in turns.values()}.values())
        finally:
            for count, key in added:
                count.pending.discard(key)
            await held.aclose()

    def _takes_turns(self, count: _Count, limit: int) -> bool:
        """Whether creates on other servers could exceed the limit together with those here."""
        return self._store.group is not None and limit - count.total < _TURNS_BELOW

    def _limit(self, cluster: str) -> int:
        limit = self._limits.get(cluster)
        if limit is None:
            entry = self._store.get(object_key(_CLUSTERS, cluster, "", "cluster"))
            obj = codec.decode(entry.value) if entry else None
            limit = limit_of(cluster, obj, self._default)
            self._limits.put(cluster, limit)
        return limit

    def _follow(self, events: Sequence[Event]) -> None:
        self._news.set()
        counts = self._counts
        for event in events:
            key = event.key
            if key.startswith(_CLUSTERS):
                cluster = key[len(_CLUSTERS) :].partition("/")[0]
                self._limits.pop(cluster)
                if event.deleted:
                    counts.pop(cluster, None)
            if counts and (event.created or event.deleted) and not key.startswith(_EVENTS):
                count = counts.get(key.split("/", 3)[2])
                if count is not None:
                    count.follow(event)

    async def _counted(self, cluster: str) -> _Count:
        count = self._counts.get(cluster)
        if count is None:
            self._evict()
            count = self._counts[cluster] = _Count()
        if not count.is_exact:
            async with count.lock:
                if not count.is_exact:
                    await self._scan(cluster, count)
        return count

    def _evict(self) -> None:
        """Evict the oldest count without creates in progress."""
        if len(self._counts) < _REMEMBER_COUNTS:
            return
        for cluster, count in self._counts.items():
            if not count.pending and not count.lock.locked():
                del self._counts[cluster]
                return

    async def _scan(self, cluster: str, count: _Count) -> None:
        """Count kind by kind; again if something came or went meanwhile.

        If that never ends the last result serves, and the next create counts again.
        """
        for _ in range(_TRIES):
            count.changes.clear()
            total = 0
            for prefix in self._prefixes(cluster):
                total += await self._store.count(range_prefix(prefix, cluster))
            # Scans may see commits whose events are still on their way.
            newest = (await self._store.list(Query(_CLUSTERS, limit=1))).revision
            await self._heard_until(newest)
            count.objects = total + sum(step for at, step in count.changes if at > newest)
            if all(at > newest for at, _ in count.changes):
                count.is_exact = True
                break
        count.changes.clear()

    async def _heard_until(self, revision: int) -> None:
        while self._store.revision < revision:
            self._news.clear()
            await self._news.wait()

    def _prefixes(self, cluster: str) -> set[str]:
        definitions = self._directory.definitions(cluster)
        stored = {
            resource_prefix(*definition.storage, definition.identity)
            for definition in definitions
            if not definition.ephemeral
        }
        return stored - {_EVENTS}

    def show(self, metrics: Registry, shard: str) -> None:
        """Add the gauges of clusters that are nearly full."""
        metrics.add(
            LabelledGauge(
                "kcp_logicalcluster_object_count",
                "Number of objects in logical clusters that have reached 90% of their limit.",
                ("shard", "cluster"),
                lambda: (((shard, name), count) for name, count, _ in self._nearly_full()),
            ),
            LabelledGauge(
                "kcp_logicalcluster_object_limit",
                "Object limit of logical clusters that have reached 90% of it.",
                ("shard", "cluster"),
                lambda: (((shard, name), limit) for name, _, limit in self._nearly_full()),
            ),
        )

    def _nearly_full(self) -> Iterator[tuple[str, int, int]]:
        for cluster, count in self._counts.items():
            limit = self._limit(cluster)
            if limit > 0 and count.is_exact and count.objects >= _SHOWN_FROM * limit:
                yield cluster, count.objects, limit


def limit_of(cluster: str, obj: Object | None, default: int) -> int:
    """The limit in force in a logical cluster; 0 or less is none.

    There is none before the cluster is ready, and the shard's default is not for `root` and
    `system:*`, which the shard itself fills.
    """
    if obj is None or (obj.get("status") or {}).get("phase") != "Ready":
        return 0
    own = _integer(meta.annotation(obj, ANNOTATION) or "")
    if own is not None:
        return own
    return 0 if cluster == clusters.ROOT or clusters.is_system(cluster) else default


def _integer(text: str) -> int | None:
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not (digits.isascii() and digits.isdigit()) or len(digits) > 19:
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None


def _is_exempt(request: AdmissionRequest) -> bool:
    """Events, and what a workspace begins with."""
    name = (request.resource.group, request.resource.plural)
    if name in _EXEMPT or request.resource.definition.ephemeral:
        return True
    is_binding = name == (CLUSTER_ROLE_BINDINGS.group, CLUSTER_ROLE_BINDINGS.resource)
    return is_binding and request.name == _WORKSPACE_ADMIN


def _check(request: AdmissionRequest, count: _Count, limit: int) -> None:
    if count.total < limit:
        return
    cluster = request.context.cluster
    raise Forbidden.resource(
        request.resource.group,
        request.resource.plural,
        request.name,
        f"logical cluster {go_quote(cluster)} has reached its total object count limit "
        f"({count.total}/{limit} objects); delete objects to free up capacity",
    )
