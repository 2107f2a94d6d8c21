"""Cluster IPs and node ports: given to services, and kept apart within each logical cluster.

What is in use is read from the store at the first write of a service in a logical cluster, and followed by events from
then on. A value that a service gets is claimed from validation until its write is committed.
"""

from __future__ import annotations

import random
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, TypeVar

from pykcp.admission.plugins.kubernetes import is_kubernetes
from pykcp.apis.kube.workloads.forms import WRONG_FORM
from pykcp.machinery.resources import GroupVersionResource
from pykcp.machinery.status import Conflict
from pykcp.registry import codec
from pykcp.registry.keys import range_prefix
from pykcp.registry.stored import Event, Query, StoreReader
from pykcp.registry.verbs.admitting import AdmissionRequest, Counts
from pykcp.registry.verbs.reservations import turn_of
from pykcp.types import Object

if TYPE_CHECKING:
    from pykcp.apis.kube.workloads.service_addresses import ServiceRanges

_SERVICES = GroupVersionResource("", "v1", "services")
_REMEMBER = 256
_PAGE = 200
_CLAIMED_SECONDS = 30.0
_TRIES = 16
"""Random picks before the first free value is looked for."""

HeldValues = frozenset[str | int]
Picked = TypeVar("Picked", str, int)


class _Pool:
    """What the services of one logical cluster have."""

    def __init__(self) -> None:
        self._owners: dict[str | int, str] = {}
        self._held: dict[str, HeldValues] = {}
        """By key of a service."""
        self._claims: dict[str, tuple[float, HeldValues]] = {}
        """By key of a service: what it is about to have, and until when that is believed."""
        self.is_complete = False

    def follow(self, event: Event) -> None:
        self._claims.pop(event.key, None)
        self.set(event.key, frozenset() if event.deleted else _held(codec.decode(event.value)))

    def learn(self, prefix: str, service: Object) -> None:
        """A service that was found in the store; what events said of it is newer."""
        metadata = service["metadata"]
        key = f"{prefix}{metadata.get('namespace', '')}/{metadata['name']}"
        if key not in self._held:
            self.set(key, _held(service))

    def set(self, key: str, held: HeldValues) -> None:
        for value in self._held.get(key, frozenset()) - held:
            if self._owners.get(value) == key:
                del self._owners[value]
        for value in held:
            self._owners.setdefault(value, key)
        if held or not self.is_complete:
            self._held[key] = held
        else:
            self._held.pop(key, None)

    def claim(self, key: str, held: HeldValues) -> None:
        self._claims[key] = (time.monotonic() + _CLAIMED_SECONDS, held)

    def release(self, key: str) -> None:
        self._claims.pop(key, None)

    def is_taken(self, value: str | int, key: str) -> bool:
        """Whether another service than `key` has a value, or is about to."""
        if self._owners.get(value, key) != key:
            return True
        now = time.monotonic()
        for other, (until, held) in list(self._claims.items()):
            if until < now:
                del self._claims[other]
            elif other != key and value in held:
                return True
        return False

    @property
    def is_idle(self) -> bool:
        return not self._claims


def _held(service: Object) -> HeldValues:
    from pykcp.apis.kube.workloads.service_addresses import held_by

    try:
        return frozenset(held_by(service))
    except WRONG_FORM:
        return frozenset()


class _View:
    """A pool as one service sees it."""

    def __init__(self, pool: _Pool, key: str, ranges: ServiceRanges) -> None:
        self._pool, self._key, self._ranges = pool, key, ranges

    def is_free(self, value: str | int) -> bool:
        return not self._pool.is_taken(value, self._key)

    def pick_address(self) -> str | None:
        network = self._ranges.addresses
        count = network.num_addresses - 2
        return self._pick(count, lambda number: str(network[number + 1]), ())

    def pick_port(self, used: Collection[int]) -> int | None:
        first, last = self._ranges.first_port, self._ranges.last_port
        return self._pick(last - first + 1, lambda number: first + number, used)

    def _pick(
        self, size: int, value_of: Callable[[int], Picked], used: Collection[Picked]
    ) -> Picked | None:
        for _ in range(_TRIES):
            found = value_of(random.randrange(size))  # noqa: S311
            if found not in used and self.is_free(found):
                return found
        start = random.randrange(size)  # noqa: S311
        for number in range(min(size, 1 << 16)):
            found = value_of((start + number) % size)
            if found not in used and self.is_free(found):
                return found
        return None


class ServiceAddresses:
    """Takes part in both phases: mutating gives values, validating claims them."""

    name = "ServiceAddresses"
    kind = _SERVICES
    operations = ("CREATE", "UPDATE")

    def __init__(self, store: StoreReader, ranges: Callable[[], ServiceRanges]) -> None:
        self._store, self._make_ranges = store, ranges
        self._ranges: ServiceRanges | None = None
        self._pools: OrderedDict[str, _Pool] = OrderedDict()
        """By the prefix of the services of a logical cluster."""
        store.listen(self._follow)

    def wants(self, request: AdmissionRequest) -> bool:
        return is_kubernetes(request)

    async def mutate(self, request: AdmissionRequest) -> None:
        from pykcp.apis.kube.workloads.service_addresses import allocate

        service = request.obj
        if service is None:
            return
        pool = await self._pool(request)
        try:
            ranges = self._known_ranges()
            allocate(service, request.old, ranges, _View(pool, _key(request), ranges))
        except WRONG_FORM:
            return  # the checks reject it

    async def validate(self, request: AdmissionRequest) -> None:
        """Claim what the service got: the last thing before it is written."""
        if request.context.dry_run or request.obj is None:
            return
        pool = await self._pool(request)
        self._claim(request, pool)
        if request.operation == "CREATE":
            request.reserve(self._reserve)

    @asynccontextmanager
    async def _reserve(self, requests: Sequence[AdmissionRequest]) -> AsyncIterator[Counts]:
        turns = {}
        try:
            for request in requests:
                cluster = request.context.cluster
                if self._store.group is not None:  # another server gives addresses, too
                    turns[cluster] = turn_of(self._store, cluster)
                self._claim(request, await self._pool(request))
            yield list({turn.key: turn for turn in turns.values()}.values())
        finally:
            for request in requests:
                (await self._pool(request)).release(_key(request))

    def _claim(self, request: AdmissionRequest, pool: _Pool) -> None:
        key, held = _key(request), _held(request.obj or {})
        for value in held:
            if pool.is_taken(value, key):
                why = f"{value} was allocated to another service meanwhile"
                raise Conflict.resource("", "services", request.name, why)
        pool.claim(key, held)

    def _known_ranges(self) -> ServiceRanges:
        if self._ranges is None:
            self._ranges = self._make_ranges()
        return self._ranges

    def _follow(self, events: Sequence[Event]) -> None:
        if not self._pools:
            return
        for event in events:
            pool = self._pools.get(event.key.rsplit("/", 2)[0] + "/")
            if pool is not None:
                pool.follow(event)

    async def _pool(self, request: AdmissionRequest) -> _Pool:
        prefix = range_prefix(request.resource.prefix, request.context.cluster)
        pool = self._pools.get(prefix)
        if pool is None:
            self._evict()
            pool = self._pools[prefix] = _Pool()
        while not pool.is_complete:
            await self._read(prefix, pool)
        return pool

    async def _read(self, prefix: str, pool: _Pool) -> None:
        """Page by page; several requests may do so at once, and find the same."""
        after = ""
        while True:
            page = await self._store.list(Query(prefix, after=after, limit=_PAGE))
            for value in page.values:
                pool.learn(prefix, codec.decode(value))
            after = page.next_after
            if not after:
                pool.is_complete = True
                return

    def _evict(self) -> None:
        """Evict the oldest pool from which nothing is being claimed."""
        if len(self._pools) < _REMEMBER:
            return
        for prefix, pool in self._pools.items():
            if pool.is_complete and pool.is_idle:
                del self._pools[prefix]
                return


def _key(request: AdmissionRequest) -> str:
    return request.resource.key(request.context.cluster, request.namespace, request.name)
