"""kcp-logicalclustercleanup: removes resource locks of deleted bindings and CRDs."""

from __future__ import annotations

import logging
from typing import NamedTuple

from pykcp.aio.slices import Slices
from pykcp.apis.kcp_catalog import kind_id
from pykcp.clients.interface import Change, Client, Feed
from pykcp.controllers.apis.objects import ApiObjects, crd_lock
from pykcp.controllers.runtime.controller import Controller, is_cluster
from pykcp.controllers.runtime.metrics import ControllerMetrics
from pykcp.machinery import meta
from pykcp.machinery.kcp import bound_crd, resource_locks
from pykcp.machinery.kcp.resource_locks import (
    ANNOTATION,
    Locks,
    MalformedLocks,
    ResourceLock,
    lock_name,
)
from pykcp.machinery.object_keys import ObjectRef
from pykcp.machinery.resources import API_BINDINGS, CUSTOM_RESOURCE_DEFINITIONS, LOGICAL_CLUSTERS
from pykcp.machinery.status import NotFound
from pykcp.registry.catalog.bindings import decode_binding
from pykcp.registry.clock import Timestamps
from pykcp.types import Object

_log = logging.getLogger(__name__)

NAME = "kcp-logicalclustercleanup"
_BINDINGS = kind_id(API_BINDINGS)
_EXPIRES = rb"\"e\":"
"""As it stands in the annotation: a lock that may have to be taken away later."""


class _CRDs(NamedTuple):
    locks: set[str]
    established: list[str]


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

    def follow(self, feed: Feed) -> None:
        feed.on(API_BINDINGS, self._on_binding)
        feed.on(CUSTOM_RESOURCE_DEFINITIONS, self._on_crd)
        feed.on(LOGICAL_CLUSTERS, self._on_cluster)

    def _on_binding(self, change: Change) -> None:
        if change.deleted:
            self.controller.add(change.cluster)

    def _on_crd(self, change: Change) -> None:
        cluster = change.cluster
        if cluster != bound_crd.CLUSTER:
            self.controller.add(cluster)

    def _on_cluster(self, change: Change) -> None:
        if not change.deleted and _EXPIRES in change.value:
            self.controller.add(change.cluster)

    async def reconcile(self, cluster: str) -> float | None:
        found = self._objects.lookup.logical_cluster(cluster)
        if found is None:
            return None
        before = meta.annotation(found, ANNOTATION)
        crds, known = await self._crds(cluster), _parsed(cluster, found)
        listed = {} if known else await self._listed(cluster)
        locks = self._pruned(cluster, known or listed, crds)
        if resource_locks.text(locks) != (before or "{}"):
            await self._write(cluster, listed, crds)
        expiry = resource_locks.next_expiry(locks)
        if not expiry:
            return None
        return max(0.0, meta.parse_rfc3339(expiry) - self._now.clock()) + 1

    async def _write(self, cluster: str, listed: Locks, crds: _CRDs) -> None:
        def settle(live: Object) -> None:
            locks = self._pruned(cluster, _parsed(cluster, live) or listed, crds)
            meta.set_annotation(live, ANNOTATION, resource_locks.text(locks))

        try:
            await self._client.change(cluster, LOGICAL_CLUSTERS, "cluster", settle)
        except NotFound:
            return

    async def _crds(self, cluster: str) -> _CRDs:
        """The locks of the CRDs that there are. One that is created meanwhile has taken its lock
        for a while, and is looked at when it is established."""
        slices, found = Slices(cluster), _CRDs(set(), [])
        for name in self._objects.crd_names(cluster):
            lock, definition = crd_lock(name), self._objects.definition(cluster, name)
            found.locks.add(lock)
            if definition is not None and definition.is_established:
                found.established.append(lock)
            if slices.is_over():
                await slices.next()
        return found

    async def _listed(self, cluster: str) -> Locks:
        """What bindings say that they have: for clusters that have lost their locks."""
        slices = Slices(cluster)
        locks: Locks = {}
        for key in self._objects.lister.keys(API_BINDINGS, cluster):
            value = self._objects.lister.value(ObjectRef(_BINDINGS, *key))
            for (group, resource), bound in decode_binding(value) if value is not None else ():
                locks.setdefault(lock_name(group, resource), ResourceLock(bound.binding))
                if slices.is_over():
                    await slices.next()
        return locks

    def _pruned(self, cluster: str, locks: Locks, crds: _CRDs) -> Locks:
        """The locks as they should be, by what is there."""
        return resource_locks.pruned(
            locks,
            bindings=self._objects.binding_names(cluster),
            crds=crds.locks,
            established=crds.established,
            now=self._now(),
        )


def _parsed(cluster: str, found: Object) -> Locks:
    """The locks that a LogicalCluster says; none if they cannot be read."""
    try:
        return resource_locks.parse(meta.annotation(found, ANNOTATION))
    except MalformedLocks as error:
        _log.warning("%s: %s: %s; recreated", NAME, cluster, error)
        return {}
