"""Usage of quotas: keeps `status.used` correct.

Admission adds created objects (see `admission.plugins.resource_quota`); this controller does
the rest: the first count of a new or changed quota, deletions, and manual changes of the status.
It counts key prefixes, and decodes objects only of kinds of which a quota limits more than the
number. It uses the same lock of a namespace as creates, so a count is never outdated by a
concurrent create.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import orjson

from pykcp.admission.plugins.quota_measure import USED_BY, limits_of, used_by
from pykcp.admission.plugins.resource_quota import (
    COUNT,
    METERED,
    OLD_NAMES,
    RESOURCE_QUOTAS,
    UNCOUNTED,
    Quotas,
    is_scoped,
    is_wide,
    meter_of,
)
from pykcp.aio.resting import ShortSlices
from pykcp.aio.slices import Slices
from pykcp.apis.kcp_catalog import kind_id
from pykcp.clients.interface import Change, Client, Lister, ShardFeed
from pykcp.controllers.runtime.controller import Controller
from pykcp.controllers.runtime.metrics import ControllerMetrics
from pykcp.machinery.object_keys import resource_id
from pykcp.machinery.quantity import Quantity
from pykcp.machinery.status import NotFound
from pykcp.registry.catalog.directory import Directory
from pykcp.registry.codec import decode
from pykcp.types import Object

NAME = "resourcequota-controller"
_QUOTAS = kind_id(RESOURCE_QUOTAS)
_METERED = frozenset(resource_id(*kind) for kind in METERED)
_ZERO = Quantity(0, 0)
_LARGE = 64 << 10
"""Larger objects are not decoded when they change, but counted again."""
_GATHER = 0.02
"""Seconds to wait for more news: a thousand deletions are not a thousand counts."""
_CHECK_AGAIN = 1.0
"""Seconds until a status that looks right is checked: it may have been written by hand."""


class RunJob(Protocol):
    """Calls `module:function`, which has no side effects, with these arguments."""

    async def __call__(self, function: str, *args: Any, tenant: str) -> Any: ...


class QuotaNamespace(NamedTuple):
    """A namespace whose quotas are to be looked at."""

    cluster: str
    namespace: str


class ResourceQuotas:
    def __init__(
        self,
        lister: Lister,
        client: Client,
        directory: Directory,
        quotas: Quotas,
        metrics: ControllerMetrics | None = None,
        compute: RunJob | None = None,
    ) -> None:
        """`compute` calls a function in a worker process; None: there are none."""
        self._lister, self._client, self._quotas = lister, client, quotas
        self._directory, self._compute = directory, compute
        self._accounted: tuple[str, int] = ("", 0)
        """The namespace prefix and revision of the last change of a quota."""
        self.controller: Controller[QuotaNamespace] = Controller(
            NAME, self.reconcile, metrics=metrics
        )

    def follow(self, feed: ShardFeed) -> None:
        feed.on_everything(self._on_anything)

    def _on_anything(self, change: Change) -> None:
        if change.resource == _QUOTAS:
            self._on_quota(change)
        is_update = not (change.created or change.deleted)
        if is_update and change.resource.partition(":")[0] not in _METERED:
            return
        cluster = change.cluster
        for place in self._quotas.places(cluster, change.namespace):
            if is_update and not _uses_other(change):
                return
            if change.created and self._accounted == (place, _revision_before(change.revision)):
                continue  # admission counted it in the same transaction
            self.controller.add_after(QuotaNamespace(cluster, place.partition("/")[2]), _GATHER)

    def _on_quota(self, change: Change) -> None:
        if change.deleted:
            return
        self._accounted = (f"{change.cluster}/{change.namespace}", change.revision)
        place = QuotaNamespace(change.cluster, change.namespace)
        if _is_complete(decode(change.value)):
            self.controller.add_after(place, _CHECK_AGAIN)
        else:
            self.controller.add(place)

    async def reconcile(self, place: QuotaNamespace) -> None:
        cluster, namespace = place
        slices = ShortSlices()
        for name in await self._quotas.own(cluster, namespace):
            async with self._quotas.turn(cluster, namespace):
                await self._count(place, name)
            if slices.is_over():
                await slices.rest()

    async def _count(self, place: QuotaNamespace, name: str) -> None:
        quota = await self._client.get(place.cluster, RESOURCE_QUOTAS, name, place.namespace)
        if quota is None:
            return
        hard = (quota.get("spec") or {}).get("hard") or {}
        before = quota.get("status") or {}
        used = {n: amount for n, amount in (before.get("used") or {}).items() if n in hard}
        where = place._replace(namespace="") if is_wide(quota) else place
        slices, stored = Slices(place.cluster), self._stored(place.cluster)
        counts = {name for name in hard if _is_counted(name) and not _is_metered(name, quota)}
        for counted in counts:
            number = await self._number(where, counted, stored)
            if number is not None:
                used[counted] = "0" if is_scoped(quota) else str(Quantity(number, 0))
            if slices.is_over():
                await slices.next()
        if not is_wide(quota):
            others = [name for name in hard if name not in counts]
            used |= await self._measured(place, quota, others, stored)
        status = {"hard": dict(hard), "used": used}
        if (before.get("hard") or {}) == hard and (before.get("used") or {}) == used:
            return
        try:
            changed = {**quota, "status": status}
            await self._client.update(place.cluster, RESOURCE_QUOTAS, changed, "status")
        except NotFound:
            return  # the quota is gone: nothing to keep

    async def _measured(
        self,
        place: QuotaNamespace,
        quota: Object,
        names: Sequence[str],
        stored: Mapping[tuple[str, str], str],
    ) -> dict[str, str]:
        """What the objects of a namespace use of what is limited, as far as their kinds are served."""
        found = {name: _ZERO for name in names if _is_counted(name)}
        served = self._served(place.cluster) if names else ()
        for kind in sorted(METERED.intersection(served)):
            meter = meter_of(*kind)
            limited = [name for name in names if meter is not None and meter.measures(name)]
            if not limited:
                continue
            found |= {name: found.get(name, _ZERO) for name in limited}
            await self._add_up(place, quota, (kind, stored[kind]), found)
        return {name: str(used) for name, used in found.items()}

    async def _add_up(
        self,
        place: QuotaNamespace,
        quota: Object,
        kind: tuple[tuple[str, str], str],
        totals: dict[str, Quantity],
    ) -> None:
        """Add what all objects of a kind (and its resource) use, as far as it is asked for."""
        (named, resource), slices, now = kind, Slices(place.cluster), time.time()
        limits = orjson.dumps(limits_of(quota))
        async for page in self._lister.values_of(resource, place.cluster, place.namespace):
            for value in page:
                if self._compute is None or len(value) <= _LARGE:
                    amounts = used_by(named, value, limits, now)
                else:
                    job = (USED_BY, named, value, limits, now)
                    amounts = await self._compute(*job, tenant=place.cluster)
                for name in totals.keys() & amounts.keys():
                    totals[name] += amounts[name]
                if slices.is_over():
                    await slices.next()

    def _served(self, cluster: str) -> set[tuple[str, str]]:
        """Kinds of Kubernetes, not others that only have their names."""
        definitions = self._directory.definitions(cluster)
        return {(kind.group, kind.plural) for kind in definitions if kind.is_kubernetes}

    def _stored(self, cluster: str) -> dict[tuple[str, str], str]:
        """What objects are stored as, by group and plural of their kind."""
        return {
            (kind.group, kind.plural): resource_id(*kind.storage, kind.identity)
            for kind in self._directory.definitions(cluster)
            if not kind.ephemeral
        }

    async def _number(
        self, place: QuotaNamespace, counted: str, stored: Mapping[tuple[str, str], str]
    ) -> int | None:
        """The number of objects; None for resources that are not counted.

        Kinds that the cluster does not serve have no objects.
        """
        if not _is_counted(counted):
            return None
        resource = stored.get(_kind_of(counted))
        return await self._lister.count(resource, *place) if resource else 0


def _kind_of(counted: str) -> tuple[str, str]:
    if counted in OLD_NAMES:
        return "", counted
    plural, _, group = counted[len(COUNT) :].partition(".")
    return group, plural


def _is_metered(name: str, quota: Object) -> bool:
    """Whether objects have to be looked at: scopes select some of them."""
    return is_scoped(quota) and not is_wide(quota) and _kind_of(name) in METERED


def _uses_other(change: Change) -> bool:
    """Whether an update changed what its object uses of any quota."""
    group, _, plural = change.resource.partition(":")[0].partition("/")
    meter, before = meter_of("" if group == "core" else group, plural), change.previous()
    if meter is None or before is None or len(change.value) > _LARGE:
        return True
    old, new, now = decode(before), decode(change.value), time.time()
    return meter.charges("", new, old) or meter.usage(old, now) != meter.usage(new, now)


def _is_counted(name: str) -> bool:
    if name in OLD_NAMES:
        return True
    return name.startswith(COUNT) and _kind_of(name) not in UNCOUNTED


def _is_complete(quota: Object) -> bool:
    """Whether the status speaks of everything that the quota limits."""
    hard = (quota.get("spec") or {}).get("hard") or {}
    status = quota.get("status") or {}
    used = status.get("used") or {}
    return (status.get("hard") or {}) == hard and all(
        name in used for name in hard if _is_counted(name)
    )


def _revision_before(revision: int) -> int:
    """The one before in the same transaction: a single server counts, a shard of several has a
    clock (docs/design/moving.md)."""
    return revision - (_CLOCK_STEP if revision >= _FIRST_OF_CLOCK else 1)


_CLOCK_STEP, _FIRST_OF_CLOCK = 128, 1 << 40
