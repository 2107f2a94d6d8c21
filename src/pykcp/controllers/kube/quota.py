"""Usage of quotas: keeps `status.used` correct.

Admission adds created objects (see `admission.plugins.resource_quota`); this controller does
the rest: the first count of a new or changed quota, deletions, and manual changes of the status.
It counts key prefixes and decodes nothing. It uses the same lock of a namespace as creates, so
a count is never outdated by a concurrent create.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from pykcp.admission.plugins.resource_quota import (
    COUNT,
    OLD_NAMES,
    PREFIX,
    RESOURCE_QUOTAS,
    UNCOUNTED,
    Quotas,
    is_scoped,
    is_wide,
)
from pykcp.aio.slices import Slices
from pykcp.clients.interface import Client
from pykcp.controllers.runtime.controller import Controller
from pykcp.controllers.runtime.feed import EVERYTHING, LogFeed
from pykcp.controllers.runtime.metrics import ControllerMetrics
from pykcp.machinery.status import NotFound
from pykcp.registry.catalog.directory import Directory
from pykcp.registry.codec import decode
from pykcp.registry.keys import range_prefix, resource_prefix, split_key
from pykcp.storage.interface import Event, Store
from pykcp.types import Object

NAME = "resourcequota-controller"
_GATHER = 0.02
"""Seconds to wait for more news: a thousand deletions are not a thousand counts."""
_CHECK_AGAIN = 1.0
"""Seconds until a status that looks right is checked: it may have been written by hand."""


class QuotaNamespace(NamedTuple):
    """A namespace whose quotas are to be looked at."""

    cluster: str
    namespace: str


class ResourceQuotas:
    def __init__(
        self,
        store: Store,
        client: Client,
        directory: Directory,
        quotas: Quotas,
        metrics: ControllerMetrics | None = None,
    ) -> None:
        self._store, self._client, self._quotas = store, client, quotas
        self._directory = directory
        self._accounted: tuple[str, int] = ("", 0)
        """The namespace prefix and revision of the last change of a quota."""
        self.controller: Controller[QuotaNamespace] = Controller(
            NAME, self.reconcile, metrics=metrics
        )

    def follow(self, feed: LogFeed) -> None:
        feed.on(EVERYTHING, self._on_anything)

    def _on_anything(self, event: Event) -> None:
        key = event.key
        if key.startswith(PREFIX):
            self._on_quota(event)
        if not (event.created or event.deleted):
            return
        _, _, cluster, namespace, _ = key.split("/", 4)
        for place in self._quotas.places(cluster, namespace):
            if event.created and self._accounted == (place, event.revision - 1):
                continue  # admission counted it in the same transaction
            self.controller.add_after(QuotaNamespace(cluster, place.partition("/")[2]), _GATHER)

    def _on_quota(self, event: Event) -> None:
        if event.deleted:
            return
        parts = split_key(event.key)
        self._accounted = (f"{parts.cluster}/{parts.namespace}", event.revision)
        place = QuotaNamespace(parts.cluster, parts.namespace)
        if _is_complete(decode(event.value)):
            self.controller.add_after(place, _CHECK_AGAIN)
        else:
            self.controller.add(place)

    async def reconcile(self, place: QuotaNamespace) -> None:
        cluster, namespace = place
        for key in await self._quotas.own(cluster, namespace):
            name = split_key(key).name
            async with self._quotas.turn(cluster, namespace):
                await self._count(place, name)

    async def _count(self, place: QuotaNamespace, name: str) -> None:
        quota = self._client.get(place.cluster, RESOURCE_QUOTAS, name, place.namespace)
        if quota is None:
            return
        hard = (quota.get("spec") or {}).get("hard") or {}
        before = quota.get("status") or {}
        used = {n: amount for n, amount in (before.get("used") or {}).items() if n in hard}
        where = place._replace(namespace="") if is_wide(quota) else place
        slices, prefixes = Slices(place.cluster), self._prefixes(place.cluster)
        for counted in hard:
            number = await self._number(where, counted, prefixes)
            if number is not None:
                used[counted] = "0" if is_scoped(quota) else str(number)
            if slices.is_over():
                await slices.next()
        status = {"hard": dict(hard), "used": used}
        if (before.get("hard") or {}) == hard and (before.get("used") or {}) == used:
            return
        try:
            changed = {**quota, "status": status}
            await self._client.update(place.cluster, RESOURCE_QUOTAS, changed, "status")
        except NotFound:
            return  # the quota is gone: nothing to keep

    def _prefixes(self, cluster: str) -> dict[tuple[str, str], str]:
        """Where objects are kept, by group and plural of their kind."""
        return {
            (kind.group, kind.plural): resource_prefix(*kind.storage, kind.identity)
            for kind in self._directory.definitions(cluster)
            if not kind.ephemeral
        }

    async def _number(
        self, place: QuotaNamespace, counted: str, prefixes: Mapping[tuple[str, str], str]
    ) -> int | None:
        """The number of objects; None for resources that are not counted.

        Kinds that the cluster does not serve have no objects.
        """
        if not _is_counted(counted):
            return None
        prefix = prefixes.get(_kind_of(counted))
        return await self._store.count(range_prefix(prefix, *place)) if prefix else 0


def _kind_of(counted: str) -> tuple[str, str]:
    if counted in OLD_NAMES:
        return "", counted
    plural, _, group = counted[len(COUNT) :].partition(".")
    return group, plural


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
