"""kcp-logicalclustercleanup: locks on resources end with the binding or CRD that holds them."""

from __future__ import annotations

import logging

from pykcp.clients.interface import Client
from pykcp.controllers.kcp.api_objects import BINDINGS, CRDS, ApiObjects, crd_lock
from pykcp.controllers.runtime.controller import Controller, is_cluster
from pykcp.controllers.runtime.feed import LogFeed
from pykcp.controllers.runtime.metrics import ControllerMetrics
from pykcp.machinery import bound_crd, meta, resource_locks
from pykcp.machinery.resource_locks import ANNOTATION, Lock, Locks, MalformedLocks, lock_name
from pykcp.machinery.resources import LOGICAL_CLUSTERS
from pykcp.machinery.status import NotFound
from pykcp.registry.clock import Timestamps
from pykcp.registry.keys import kind_prefix, split_key
from pykcp.storage.interface import Event
from pykcp.types import Object

_log = logging.getLogger(__name__)

NAME = "kcp-logicalclustercleanup"
_CLUSTERS = kind_prefix(LOGICAL_CLUSTERS)
_EXPIRES = rb"\"e\":"
"""As it stands in the annotation: a lock that may have to be taken away later."""


class LockCleanup:
    """Its keys are logical clusters."""

    def __init__(
        self,
        objects: ApiObjects,
        client: Client,
        now: Timestamps,
        metrics: ControllerMetrics | None = None,
    ) -> None:
        self._objects, self._client, self._now = objects, client, now
        self.controller: Controller[str] = Controller(
            NAME, self.reconcile, lane=is_cluster, metrics=metrics
        )

    def follow(self, feed: LogFeed) -> None:
        feed.on(BINDINGS, self._on_binding)
        feed.on(CRDS, self._on_crd)
        feed.on(_CLUSTERS, self._on_cluster)

    def _on_binding(self, event: Event) -> None:
        if event.deleted:
            self.controller.add(split_key(event.key).cluster)

    def _on_crd(self, event: Event) -> None:
        cluster = split_key(event.key).cluster
        if cluster != bound_crd.CLUSTER:
            self.controller.add(cluster)

    def _on_cluster(self, event: Event) -> None:
        if not event.deleted and _EXPIRES in event.value:
            self.controller.add(split_key(event.key).cluster)

    async def reconcile(self, cluster: str) -> float | None:
        found = self._objects.lookup.logical_cluster(cluster)
        if found is None:
            return None
        before = meta.annotation(found, ANNOTATION)
        locks = self._settled(cluster, before)
        if resource_locks.text(locks) != (before or "{}"):
            await self._write(cluster)
        expiry = resource_locks.next_expiry(locks)
        if not expiry:
            return None
        return max(0.0, meta.parse_rfc3339(expiry) - self._now.clock()) + 1

    async def _write(self, cluster: str) -> None:
        def settle(live: Object) -> None:
            locks = self._settled(cluster, meta.annotation(live, ANNOTATION))
            meta.set_annotation(live, ANNOTATION, resource_locks.text(locks))

        try:
            await self._client.change(cluster, LOGICAL_CLUSTERS, "cluster", settle)
        except NotFound:
            return

    def _settled(self, cluster: str, annotation: str) -> Locks:
        """The locks as they should be, by what is there."""
        try:
            locks = resource_locks.parse(annotation)
        except MalformedLocks as error:
            _log.error("%s: %s: %s; made anew", NAME, cluster, error)
            locks = {}
        if not locks:
            locks = _by_status(self._objects.bindings(cluster))
        names = {name: crd_lock(name) for name in self._objects.crd_names(cluster)}
        established = [
            lock
            for name, lock in names.items()
            if (found := self._objects.definition(cluster, name)) and found.is_established
        ]
        return resource_locks.pruned(
            locks,
            bindings=self._objects.binding_names(cluster),
            crds=set(names.values()),
            established=established,
            now=self._now(),
        )


def _by_status(bindings: list[Object]) -> Locks:
    """What bindings say that they have: for clusters that have lost their locks."""
    locks: Locks = {}
    for binding in bindings:
        for bound in (binding.get("status") or {}).get("boundResources") or ():
            name = lock_name(bound.get("group") or "", bound["resource"])
            locks.setdefault(name, Lock(meta.name(binding)))
    return locks
