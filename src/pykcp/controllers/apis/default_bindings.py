"""kcp-default-apibinding-controller: keeps default bindings of types with `Maintain` up to date.

A type that says `Maintain` has its default bindings made again and their claims accepted anew
when the type changes or one of the exports does. Other types only make them at first.
"""

from __future__ import annotations

from typing import NamedTuple

from pykcp.aio.slices import Slices
from pykcp.apis.kcp import logical_clusters as lifecycle
from pykcp.apis.kcp import workspace_types
from pykcp.apis.kcp.logical_clusters import PATH_ANNOTATION
from pykcp.apis.kcp.workspace_types import ExportReference
from pykcp.clients.interface import Change, Client, Feed
from pykcp.controllers.apis.objects import ApiObjects, ExportName
from pykcp.controllers.apis.parts import with_reference
from pykcp.controllers.runtime.controller import Controller, Requeue
from pykcp.controllers.runtime.fan_out import add_indexed
from pykcp.controllers.runtime.metrics import ControllerMetrics
from pykcp.controllers.tenancy.initializers import default_binding
from pykcp.controllers.tenancy.provisioning import WorkspaceProvisioning
from pykcp.machinery import meta
from pykcp.machinery.conditions import is_true
from pykcp.machinery.kcp import clusters, hashes
from pykcp.machinery.kcp.condition_marks import mark_false, mark_true
from pykcp.machinery.kcp.conditions import INFO
from pykcp.machinery.object_keys import ObjectRef
from pykcp.machinery.resources import (
    API_BINDINGS,
    API_EXPORTS,
    LOGICAL_CLUSTERS,
    WORKSPACE_TYPES,
)
from pykcp.machinery.status import AlreadyExists
from pykcp.registry.clock import Timestamps
from pykcp.registry.indexes.apis import MAINTAIN, bindings_of, types_maintaining
from pykcp.types import Object

NAME = "kcp-default-apibinding-controller"
RECONCILED = "APIBindingsReconciled"
_MAINTAIN = f'"{MAINTAIN}"'.encode()


class ChangedType(NamedTuple):
    """A type whose workspaces are to be looked at; they are searched for."""

    cluster: str
    name: str


def _lane(key: str | ChangedType) -> str:
    return key.cluster if isinstance(key, ChangedType) else key


class DefaultBindings:
    """Its other keys are the names of logical clusters."""

    def __init__(
        self,
        objects: ApiObjects,
        client: Client,
        provisioning: WorkspaceProvisioning,
        now: Timestamps,
        metrics: ControllerMetrics | None = None,
    ) -> None:
        self._objects, self._client, self._provisioning, self._now = (
            objects,
            client,
            provisioning,
            now,
        )
        self._waiting: set[str] = set()
        """Logical clusters whose bindings were not complete when they were looked at."""
        self.controller: Controller[str | ChangedType] = Controller(
            NAME, self.reconcile, lane=_lane, metrics=metrics
        )

    def follow(self, feed: Feed) -> None:
        feed.on(WORKSPACE_TYPES, self._on_type)
        feed.on(API_EXPORTS, self._on_export)
        feed.on(API_BINDINGS, self._on_binding)
        replica = self._objects.lookup.replica
        if replica is not None:
            replica.follow(WORKSPACE_TYPES, self._on_published_type)
            replica.follow(API_EXPORTS, self._on_published_export)

    def _on_type(self, change: Change) -> None:
        if not (change.created or change.deleted) and _MAINTAIN in change.value:
            self.controller.add(ChangedType(change.cluster, change.name))

    def _on_published_type(self, cluster: str, name: str) -> None:
        found = self._objects.lookup.get(WORKSPACE_TYPES, cluster, name)
        if found is not None and is_maintaining(found):
            self.controller.add(ChangedType(cluster, name))

    def _on_export(self, change: Change) -> None:
        if not (change.created or change.deleted):
            path = meta.annotation(with_reference(change.value), PATH_ANNOTATION)
            self._on_changed(change.cluster, change.name, path)

    def _on_published_export(self, cluster: str, name: str) -> None:
        export = self._objects.export(cluster, "", name)
        path = meta.annotation(export, PATH_ANNOTATION) if export is not None else ""
        self._on_changed(cluster, name, path)

    def _on_changed(self, cluster: str, name: str, path: str) -> None:
        """Only clusters that have the binding by default, from a type with `Maintain`."""
        references = {types_maintaining(where, name) for where in (cluster, path)}
        if any(map(self._is_maintained, references)):
            index = bindings_of(ExportName(cluster, name).label)
            lister = self._objects.lister
            add_indexed(self.controller, lister, index, API_BINDINGS, _cluster_of)

    def _is_maintained(self, index: str) -> bool:
        """Whether there is such a type, here or on another shard."""
        if self._objects.lister.find(index, limit=1):
            return True
        replica = self._objects.lookup.replica
        return replica is not None and next(replica.find(WORKSPACE_TYPES, index), None) is not None

    def _on_binding(self, change: Change) -> None:
        if self._waiting:
            cluster = change.cluster
            if cluster in self._waiting:
                self._waiting.discard(cluster)
                self.controller.add(cluster)

    async def reconcile(self, key: str | ChangedType) -> None:
        if isinstance(key, ChangedType):
            await self._find_workspaces()
            return
        found = self._objects.lookup.logical_cluster(key)
        if found is None or meta.is_deleting(found):
            return
        path, kind = clusters.split(meta.annotation(found, lifecycle.TYPE_ANNOTATION))
        if not path:
            return
        try:
            types = self._provisioning.types_of(path, kind)
        except workspace_types.BadType:
            return  # nothing that could be done about it here
        kept = [one for one in types if is_maintaining(one)]
        if kept:
            await self._maintain(key, found, workspace_types.default_bindings(kept))

    async def _find_workspaces(self) -> None:
        """All of them: types extend one another, so any may be concerned."""
        slices = Slices()
        async for page in self._client.pages(clusters.WILDCARD, LOGICAL_CLUSTERS):
            for found in page:
                self.controller.add(meta.cluster(found))
                if slices.is_over():
                    await slices.next()

    async def _maintain(self, cluster: str, found: Object, wanted: list[ExportReference]) -> None:
        incomplete = []
        for reference in wanted:
            export = self._objects.lookup.find(API_EXPORTS, reference.path, reference.name)
            if export is None:
                raise Requeue(
                    "unable to complete reconciliation: unable to find at least 1 APIExport"
                )
            binding = await self._ensure(cluster, reference, export)
            if not is_true(binding, "InitialBindingCompleted"):
                incomplete.append(meta.name(binding))
        if incomplete:
            self._waiting.add(cluster)
        await self._tell(cluster, found, sorted(incomplete))

    async def _ensure(self, cluster: str, reference: ExportReference, export: Object) -> Object:
        name = hashes.default_binding_name(cluster, reference.path, reference.name)
        wanted = default_binding(name, reference, export)
        found = await self._client.get(cluster, API_BINDINGS, name)
        if found is None:
            try:
                return await self._client.create(cluster, API_BINDINGS, wanted)
            except AlreadyExists as error:
                raise Requeue("another client created its binding") from error
        if found["spec"] == wanted["spec"]:
            return found

        def put_back(live: Object) -> None:
            live["spec"] = wanted["spec"]

        return await self._client.change(cluster, API_BINDINGS, name, put_back)

    async def _tell(self, cluster: str, found: Object, incomplete: list[str]) -> None:
        now = self._now()

        def mark(live: Object) -> None:
            if incomplete:
                message = f"APIBinding(s) not yet fully reconciled: {', '.join(incomplete)}"
                mark_false(live, RECONCILED, "WaitingOnAPIBindings", message, now, severity=INFO)
            else:
                mark_true(live, RECONCILED, now)

        after = {**found}
        mark(after)
        if after.get("status") != found.get("status"):
            await self._client.change(
                cluster, LOGICAL_CLUSTERS, "cluster", mark, subresource="status"
            )


def _cluster_of(ref: ObjectRef) -> str:
    return ref.cluster


def is_maintaining(workspace_type: Object) -> bool:
    spec = workspace_type.get("spec") or {}
    return spec.get("defaultAPIBindingLifecycle") == MAINTAIN
