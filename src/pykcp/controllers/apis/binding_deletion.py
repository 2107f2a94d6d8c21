"""kcp-apibindingdeletion: deletes the bound objects of a deleted binding.

Unless another binding of the cluster brings the same schema with the same identity: then the
objects are its own, unchanged. Objects with finalizers keep the binding until they are gone;
it is looked at again when objects of its cluster go.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from pykcp.aio.slices import Slices, in_slices
from pykcp.clients.interface import Change, Client, ShardFeed
from pykcp.controllers.apis.binding import FINALIZER, aggregate
from pykcp.controllers.apis.metrics import ApiMetrics
from pykcp.controllers.apis.objects import ApiObjects, ExportName
from pykcp.controllers.runtime.controller import Controller, Requeue
from pykcp.controllers.runtime.deleting import delete_together
from pykcp.controllers.runtime.kinds import ServedKind, ServedKinds
from pykcp.controllers.runtime.metrics import ControllerMetrics
from pykcp.machinery import meta
from pykcp.machinery.kcp.condition_marks import mark_false, mark_true
from pykcp.machinery.object_keys import ObjectKey
from pykcp.machinery.resources import API_BINDINGS
from pykcp.machinery.status import NotFound
from pykcp.registry.catalog.bound import BoundResources
from pykcp.registry.clock import Timestamps
from pykcp.registry.indexes.entries import DELETING
from pykcp.steps import Steps
from pykcp.types import Object

NAME = "kcp-apibindingdeletion"
DELETED = "BindingResourceDeleteSuccess"
LOOK_AGAIN = 3.0
"""Seconds until a binding whose objects have finalizers is looked at without news."""
_GATHER = 0.02
_AT_A_TIME = 32
_DELETING = b'"deletionTimestamp":"'


@dataclass(slots=True)
class RemainingBoundObjects:
    """What is left of a binding's objects."""

    by_resource: Counter[str] = field(default_factory=Counter)
    by_finalizer: Counter[str] = field(default_factory=Counter)
    errors: list[str] = field(default_factory=list)


def report(binding: Object, remains: RemainingBoundObjects, now: str) -> bool:
    """Say in the condition what is left; True if nothing is."""
    if remains.errors:
        mark_false(binding, DELETED, "ResourceDeletionFailed", aggregate(remains.errors), now)
    elif remains.by_finalizer:
        left = ", ".join(
            f"{finalizer} in {n} resource instances"
            for finalizer, n in sorted(remains.by_finalizer.items())
        )
        message = f"Some content in the workspace has finalizers remaining: {left}"
        mark_false(binding, DELETED, "SomeFinalizersRemain", message, now)
    elif remains.by_resource:
        left = ", ".join(
            f"{resource} has {n} resource instances"
            for resource, n in sorted(remains.by_resource.items())
        )
        message = f"Some resources are remaining: {left}"
        mark_false(binding, DELETED, "SomeResourcesRemain", message, now)
    else:
        mark_true(binding, DELETED, now)
        return True
    return False


class BindingDeletion:
    def __init__(
        self,
        objects: ApiObjects,
        client: Client,
        kinds: ServedKinds,
        bound: BoundResources,
        now: Timestamps,
        api_metrics: ApiMetrics | None = None,
        metrics: ControllerMetrics | None = None,
    ) -> None:
        self._objects, self._client, self._kinds, self._bound = objects, client, kinds, bound
        self._now, self._metrics = now, api_metrics
        self._waiting: dict[str, set[str]] = {}
        """Bindings whose objects have finalizers, by cluster."""
        self.controller = Controller(NAME, self.reconcile, metrics=metrics)

    def follow(self, feed: ShardFeed) -> None:
        feed.on(API_BINDINGS, self._on_binding)
        feed.on_deletions(self._on_deletion)
        feed.at_start(self._resume)

    def _on_binding(self, change: Change) -> None:
        if not change.deleted and _DELETING in change.value:
            self.controller.add(change.key)

    def _on_deletion(self, change: Change) -> None:
        if self._waiting:
            cluster = change.cluster
            for name in self._waiting.get(cluster, ()):
                self.controller.add_after(ObjectKey(cluster, "", name), _GATHER)

    async def _resume(self) -> None:
        for ref in self._objects.lister.find(DELETING, API_BINDINGS):
            self.controller.add(ref.key)

    async def reconcile(self, key: ObjectKey) -> float | None:
        binding = await self._objects.read_binding(key)
        if binding is None or not meta.is_deleting(binding):
            self._forget(key)
            return None
        if not meta.has_finalizer(binding, FINALIZER):
            self._forget(key)
            return None  # another finalizer remains
        self._waiting.setdefault(key.cluster, set()).add(key.name)
        remains = await self._delete_all(key.cluster, binding)
        after = {**binding}
        is_done = report(after, remains, self._now())
        if is_done:
            await self._let_go(key)
            self._forget(key)
            return None
        await self._write(key, binding, after)
        if remains.errors:
            raise Requeue(aggregate(remains.errors))
        return LOOK_AGAIN

    def _forget(self, key: ObjectKey) -> None:
        waiting = self._waiting.get(key.cluster)
        if waiting is not None:
            waiting.discard(key.name)
            if not waiting:
                del self._waiting[key.cluster]

    async def _write(self, key: ObjectKey, before: Object, after: Object) -> None:
        if after["status"] == before.get("status"):
            return
        await self._client.update(key.cluster, API_BINDINGS, after, "status")
        if self._metrics is not None:
            self._metrics.bindings.changed(before, after)

    async def _let_go(self, key: ObjectKey) -> None:
        def release(live: Object) -> None:
            meta.remove_finalizer(live, FINALIZER)

        try:
            await self._client.change(key.cluster, API_BINDINGS, key.name, release)
        except NotFound:
            return

    # --- its objects

    async def _delete_all(self, cluster: str, binding: Object) -> RemainingBoundObjects:
        remains, slices = RemainingBoundObjects(), Slices(cluster)
        await in_slices(self._bound.in_steps(cluster), cluster)
        successors = _Successors(self._objects, cluster, meta.name(binding))
        for bound in (binding.get("status") or {}).get("boundResources") or ():
            if slices.is_over():
                await slices.next()
            if await in_slices(successors.has(bound), cluster):
                continue
            kind = self._kind(cluster, meta.name(binding), bound)
            if kind is not None and bound.get("storageVersions"):
                await self._delete_kind(cluster, kind, remains)
        return remains

    def _kind(self, cluster: str, binding: str, bound: Object) -> ServedKind | None:
        """How the cluster serves a bound resource; None if another binding brings it."""
        group, resource = bound.get("group") or "", bound["resource"]
        served = self._bound.of_cluster(cluster).get((group, resource))
        if served is None or served.binding != binding:
            return None
        return self._kinds.by_resource(cluster, group, resource)

    async def _delete_kind(
        self, cluster: str, kind: ServedKind, remains: RemainingBoundObjects
    ) -> None:
        lister = self._objects.lister
        async for page in lister.metadata_of(kind.stored, cluster):
            going = [item for item in page if not item.is_deleting]
            for start in range(0, len(going), _AT_A_TIME):
                some = [(o.name, o.namespace) for o in going[start : start + _AT_A_TIME]]
                remains.errors += await delete_together(self._client, cluster, kind.resource, some)
        resource = f"{kind.resource.resource}.{kind.resource.group}"
        async for page in lister.metadata_of(kind.stored, cluster):
            remains.by_resource[resource] += len(page)
            for item in page:
                remains.by_finalizer.update(item.finalizers or ())


class _Successors:
    """Whether other bindings of a cluster serve what a binding did."""

    def __init__(self, objects: ApiObjects, cluster: str, binding: str) -> None:
        self._objects, self._cluster, self._binding = objects, cluster, binding
        self._offered = objects.offered()

    def has(self, bound: Object) -> Steps[bool]:
        """Whether another binding serves a resource from the same storage."""
        schema, group = bound["schema"], bound.get("group") or ""
        named = yield from self._offered.named(schema["identityHash"], group, bound["resource"])
        for cluster, name, export in named:
            found = self._objects.schema(cluster, name)
            is_same = found is not None and meta.uid(found) == schema["UID"]
            if is_same and self._is_bound(ExportName(cluster, export)):
                return True
        return False

    def _is_bound(self, export: ExportName) -> bool:
        """Whether another binding of the cluster is for an export; asked anew each time."""
        return any(
            meta.name(other) != self._binding and not meta.is_deleting(other)
            for other in self._objects.bindings_to(export, self._cluster)
        )
