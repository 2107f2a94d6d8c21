"""kcp-apibinding: binds the resources of exports.

One reconciliation takes a binding to Bound if nothing blocks it: the locks on its resources,
which are on the LogicalCluster, and its status are written in one transaction. A blocked binding
is recorded under its cluster and reconciled again when something there changes. After a change
of an export its bindings are updated a few at a time.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from dataclasses import dataclass

from pykcp.aio.slices import Slices, in_slices
from pykcp.clients.interface import Change, Feed
from pykcp.controllers.apis import binding as steps
from pykcp.controllers.apis.binder import Attempt, Binder, BindingBlocked
from pykcp.controllers.apis.bound_crds import BoundCRDs
from pykcp.controllers.apis.metrics import ApiMetrics
from pykcp.controllers.apis.objects import ApiObjects, ExportName
from pykcp.controllers.runtime.controller import Controller
from pykcp.controllers.runtime.fan_out import add_indexed, key_of
from pykcp.controllers.runtime.metrics import ControllerMetrics
from pykcp.controllers.runtime.shard_client import ShardClient
from pykcp.machinery import meta
from pykcp.machinery.kcp import bound_crd, claims, resource_locks
from pykcp.machinery.kcp.resource_locks import ResourceLock
from pykcp.machinery.object_keys import ObjectKey, ObjectRef
from pykcp.machinery.resources import (
    API_BINDINGS,
    API_EXPORTS,
    API_RESOURCE_SCHEMAS,
    CUSTOM_RESOURCE_DEFINITIONS,
    LOGICAL_CLUSTERS,
)
from pykcp.machinery.schema.growth import grow
from pykcp.machinery.status import Conflict, NotFound, StatusError
from pykcp.registry.catalog.bindings import LARGE
from pykcp.registry.clock import Timestamps
from pykcp.registry.indexes.apis import OPEN_BINDINGS, bindings_to_schema, is_settled
from pykcp.registry.verbs.transaction import Update
from pykcp.types import Object

_log = logging.getLogger(__name__)

NAME = "kcp-apibinding"
_AT_A_TIME = 16
"""Bindings of one export that are brought up to date at a time: few enough to let others in."""
_WHEN_BUSY = 0.01
_COMPLETE = b'"phase":"Bound"'


@dataclass(slots=True)
class BindingHooks:
    """Whom else a binding concerns."""

    relabel: Callable[[ObjectKey], None] = lambda _: None
    """Its claims want labels changed."""
    let_go: Callable[[str], None] = lambda _: None
    """It no longer uses the schema of this UID."""
    metrics: ApiMetrics | None = None


class APIBindings:
    def __init__(
        self,
        objects: ApiObjects,
        client: ShardClient,
        crds: BoundCRDs,
        now: Timestamps,
        hooks: BindingHooks,
        metrics: ControllerMetrics | None = None,
    ) -> None:
        self._objects, self._client, self._binder = objects, client, Binder(objects, crds)
        self._now, self._hooks = now, hooks
        self._busy: set[ObjectKey] = set()
        """Bindings that are being looked at: an export's change may lead to one, too."""
        self._writing: dict[ObjectKey, list[int]] = {}
        """Bindings that are being written here, with the revisions that were seen meanwhile."""
        self._blocked: dict[str, set[str]] = {}
        """Bindings that wait for a change in their cluster, by cluster."""
        self._waiting: set[ObjectKey] = set()
        """Bindings that wait for a bound CRD to be gone, so that it can be made anew."""
        self.controller: Controller[ObjectKey | ExportName] = Controller(
            NAME, self.reconcile, workers=8, metrics=metrics
        )

    # --- what happened

    def follow(self, feed: Feed) -> None:
        feed.on(API_BINDINGS, self._on_binding)
        feed.on(API_EXPORTS, self._on_export)
        feed.on(API_RESOURCE_SCHEMAS, self._on_schema)
        feed.on(CUSTOM_RESOURCE_DEFINITIONS, self._on_crd)
        feed.on(LOGICAL_CLUSTERS, self._on_cluster)
        feed.at_start(self._resume)
        replica = self._objects.lookup.replica
        if replica is not None:
            replica.follow(API_EXPORTS, self._on_published_export)
            replica.follow(API_RESOURCE_SCHEMAS, self._on_published_schema)
        if self._hooks.metrics is not None:
            self._hooks.metrics.bindings.follow(feed)

    def _on_binding(self, change: Change) -> None:
        key = change.key
        seen = self._writing.get(key)
        if seen is not None:
            seen.append(change.revision)
        elif change.deleted:
            self._unblock(key.cluster)
        elif not (change.created and _COMPLETE in change.value):  # made complete: nothing to do
            self.controller.add(key)

    def _on_export(self, change: Change) -> None:
        self.look_at_export(ExportName(change.cluster, change.name))

    def look_at_export(self, export: ExportName) -> None:
        """An export changed, here or on another shard."""
        if self._objects.is_bound(export):
            self.controller.add(export)

    def _on_published_export(self, cluster: str, name: str) -> None:
        """An export of another shard has arrived, changed or gone."""
        self.look_at_export(ExportName(cluster, name))

    def _on_published_schema(self, cluster: str, _: str) -> None:
        for export in self._objects.published_exports(cluster):
            self.look_at_export(export)

    def _on_schema(self, change: Change) -> None:
        for export in self._objects.exports_with_schema(change.cluster, change.name):
            self.look_at_export(export)

    def _on_crd(self, change: Change) -> None:
        if change.cluster != bound_crd.CLUSTER:
            self._unblock(change.cluster)
        elif change.deleted:
            index = bindings_to_schema(change.name)
            add_indexed(self.controller, self._objects.lister, index, API_BINDINGS, key_of)
            while self._waiting:
                self.controller.add(self._waiting.pop())

    def _on_cluster(self, change: Change) -> None:
        if not change.deleted:
            self._unblock(change.cluster)

    def _unblock(self, cluster: str) -> None:
        for name in self._blocked.pop(cluster, ()):
            self.controller.add(ObjectKey(cluster, "", name))

    async def _resume(self) -> None:
        for ref in self._objects.lister.find(OPEN_BINDINGS, API_BINDINGS):
            self.controller.add(ref.key)

    # --- what is done about it

    async def reconcile(self, key: ObjectKey | ExportName) -> None:
        if isinstance(key, ExportName):
            await self._roll_out(key)
        else:
            await self._reconcile_binding(key)

    async def _roll_out(self, name: ExportName) -> None:
        """Bring the bindings of an export up to date, a few at a time."""
        slices = Slices(name.cluster)
        for page in self._objects.bindings_of(name):
            stale = []
            for ref in page:
                if not await self._is_current(ref, name):
                    stale.append(ref.key)
                if slices.is_over():
                    await slices.next()
            for start in range(0, len(stale), _AT_A_TIME):
                await asyncio.gather(*map(self._try, stale[start : start + _AT_A_TIME]))
                if slices.is_over():
                    await slices.next()

    async def _try(self, key: ObjectKey) -> None:
        """One of many: what goes wrong is tried again on its own."""
        try:
            await self._reconcile_binding(key)
        except StatusError:
            self.controller.add(key)

    async def _is_current(self, ref: ObjectRef, name: ExportName) -> bool:
        """Whether a look at the binding would change nothing."""
        binding = await self._objects.read_binding(ref.key)
        if binding is None:
            return True
        export = await self._objects.read_export(name.cluster, "", name.name)
        if export is None or not is_settled(binding):
            return False
        spec, status = export.get("spec") or {}, binding["status"]
        bound = {one["schema"]["name"] for one in status.get("boundResources") or ()}
        return (
            (status.get("exportPermissionClaims") or []) == (spec.get("permissionClaims") or [])
            and bound >= {one["schema"] for one in spec.get("resources") or ()}
            and not (await in_slices(claims.compare(export, binding), ref.cluster)).changes
        )

    async def _reconcile_binding(self, key: ObjectKey) -> None:
        if key in self._busy:
            self.controller.add_after(key, _WHEN_BUSY)
            return
        self._busy.add(key)
        try:
            await self._look_at(key)
        finally:
            self._busy.discard(key)

    async def _look_at(self, key: ObjectKey) -> None:
        live = await self._objects.read_binding(key)
        if live is None or meta.is_deleting(live):
            return
        attempt = Attempt(key.cluster, {**live}, self._now())
        steps.begin(attempt.binding, attempt.now)
        failure: StatusError | None = None
        try:
            await self._binder.bind(attempt)
        except BindingBlocked:
            self._blocked.setdefault(key.cluster, set()).add(key.name)
        except StatusError as error:
            failure = error  # the status may say so; it is raised when that is written
        steps.finish(attempt.binding, attempt.now)
        octets = steps.status_octets(attempt.binding)
        attempt.is_large = octets > LARGE or self._objects.is_large(key)
        if attempt.takes or attempt.binding["status"] != live.get("status"):
            await self._write(key, attempt)
            self._tell(live, attempt)
        if attempt.wants_labels:
            self._hooks.relabel(key)
        if attempt.waits_for_crd:
            self._waiting.add(key)
        if failure is not None:
            raise failure

    async def _write(self, key: ObjectKey, attempt: Attempt) -> None:
        """The status, and the locks if there are new ones: both or none.

        For a large binding the locks come first, since no worker process takes part in a
        transaction. If the status is not written then, the binding has its locks already.
        """
        seen = self._writing[key] = []
        try:
            if attempt.takes and not attempt.is_large:
                await self._client.transaction(self._writes(key, attempt))
            else:
                if attempt.takes:
                    take = self._taking(key, attempt)
                    await self._client.change(key.cluster, LOGICAL_CLUSTERS, "cluster", take)
                await self._write_status(key, attempt.binding)
        except NotFound:
            if attempt.is_large and attempt.takes:
                await self._give_back(key, attempt)
        finally:
            self._writing.pop(key, None)  # its export's turn may have come in between
            if len(seen) != 1:
                self.controller.add(key)  # a concurrent write, or nothing was written

    async def _write_status(self, key: ObjectKey, binding: Object) -> None:
        octets = steps.status_octets(binding)

        def say(_live: Object) -> Object:
            grow(octets)  # a small binding may get the claims of a large export
            return binding

        await self._client.change(key.cluster, API_BINDINGS, key.name, say, subresource="status")

    def _writes(self, key: ObjectKey, attempt: Attempt) -> list[Update]:
        binding = attempt.binding

        def say(live: Object) -> None:
            if meta.resource_version(live) != meta.resource_version(binding):
                raise Conflict.resource(API_BINDINGS.group, API_BINDINGS.resource, key.name, "")
            live["status"] = binding["status"]

        take = self._taking(key, attempt)
        return [
            self._client.to_update(key.cluster, API_BINDINGS, key.name, say),
            self._client.to_update(key.cluster, LOGICAL_CLUSTERS, "cluster", take),
        ]

    def _taking(self, key: ObjectKey, attempt: Attempt) -> Callable[[Object], None]:
        """Takes the locks that were free, on the LogicalCluster; Conflict if one is not any more."""

        def take(live: Object) -> None:
            locks = resource_locks.parse(meta.annotation(live, resource_locks.ANNOTATION))
            after, held = resource_locks.acquire(
                locks,
                attempt.takes,
                ResourceLock(key.name),
                crds=self._objects.crd_locks(key.cluster),
                now=attempt.now,
            )
            if held:
                raise Conflict.resource(LOGICAL_CLUSTERS.group, LOGICAL_CLUSTERS.resource, "", "")
            meta.set_annotation(live, resource_locks.ANNOTATION, resource_locks.text(after))

        return take

    async def _give_back(self, key: ObjectKey, attempt: Attempt) -> None:
        """The locks of a binding that was deleted while it took them."""

        def drop(live: Object) -> None:
            locks = resource_locks.parse(meta.annotation(live, resource_locks.ANNOTATION))
            own = ResourceLock(key.name)
            left = {n: lock for n, lock in locks.items() if n not in attempt.takes or lock != own}
            meta.set_annotation(live, resource_locks.ANNOTATION, resource_locks.text(left))

        with contextlib.suppress(NotFound):  # the logical cluster is gone, too
            await self._client.change(key.cluster, LOGICAL_CLUSTERS, "cluster", drop)

    def _tell(self, before: Object, attempt: Attempt) -> None:
        after, metrics = attempt.binding, self._hooks.metrics
        for uid in attempt.replaced:
            self._hooks.let_go(uid)
        if metrics is not None:
            metrics.bindings.changed(before, after)
            if _phase(after) == steps.BOUND != _phase(before):
                metrics.binding_ready(after)


def _phase(binding: Object) -> str:
    return (binding.get("status") or {}).get("phase") or ""
