"""The lifecycle of a CustomResourceDefinition: names, establishment, deletion.

Names belong to the first definition in a group that uses them. A definition whose names are
accepted is established immediately; a deleted one remains until its last object is deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pykcp.aio.slices import Slices
from pykcp.apis.catalog import ResourceDefinition, builtin_definitions
from pykcp.apis.kcp_catalog import kind_id
from pykcp.clients.interface import Change, Client, Feed, Lister
from pykcp.controllers.kube.crd_conditions import after_naming, condition_of, set_condition
from pykcp.controllers.runtime.controller import Controller, Requeue
from pykcp.controllers.runtime.metrics import ControllerMetrics
from pykcp.machinery import meta
from pykcp.machinery.kcp import bound_crd
from pykcp.machinery.metadata import Metadata
from pykcp.machinery.object_keys import ObjectKey, ObjectRef, resource_id
from pykcp.machinery.resources import (
    API_BINDINGS,
    CUSTOM_RESOURCE_DEFINITIONS,
    GroupVersionResource,
)
from pykcp.machinery.schema.crd_text import defined_resource, read_crd
from pykcp.machinery.status import NotFound, StatusError
from pykcp.registry.clock import Timestamps
from pykcp.registry.watch.hub import WatchHub
from pykcp.types import Object

NAME = "customresourcedefinition-controller"
FINALIZER = "customresourcecleanup.apiextensions.k8s.io"
_DEFINITIONS = kind_id(CUSTOM_RESOURCE_DEFINITIONS)


class CustomResourceDefinitions:
    def __init__(
        self,
        lister: Lister,
        client: Client,
        hub: WatchHub,
        now: Timestamps,
        metrics: ControllerMetrics | None = None,
        bound: Callable[[str], Sequence[ResourceDefinition]] = lambda _: (),
    ) -> None:
        """`bound`: what a logical cluster has from its bindings, whose names are taken, too."""
        self._lister, self._client, self._hub = lister, client, hub
        self._bound = bound
        self._now = now
        self._builtin = {(d.group, d.plural) for d in builtin_definitions()}
        self.controller = Controller(NAME, self.reconcile, workers=4, metrics=metrics)

    def follow(self, feed: Feed) -> None:
        feed.on(CUSTOM_RESOURCE_DEFINITIONS, self._on_definition)
        feed.on(API_BINDINGS, self._on_binding)

    def _on_binding(self, change: Change) -> None:
        """Definitions may have waited for the names that it gives up."""
        if change.deleted:
            for key in self._lister.keys(CUSTOM_RESOURCE_DEFINITIONS, change.cluster):
                self.controller.add(key)

    def _on_definition(self, change: Change) -> None:
        self.controller.add(change.key)
        if change.deleted:
            self._forget(change.cluster, *defined_resource(change.value))

    def _forget(self, cluster: str, group: str, plural: str) -> None:
        """Watches of a type that is gone end; others may have waited for its names."""
        if (group, plural) not in self._builtin:
            self._hub.end_kind(resource_id(group, plural), cluster)
        self._revisit_later(cluster, group)

    def _revisit_later(self, cluster: str, group: str) -> None:
        if cluster == bound_crd.CLUSTER:
            return  # these are many, and never wait for one another's names
        self.controller.add_after(ObjectKey(cluster, "", f"*.{group}"), 0.01)

    async def reconcile(self, key: ObjectKey) -> float | None:
        if key.name.startswith("*."):
            await self._revisit_group(key.cluster, key.name[2:])
            return None
        value = self._lister.value(ObjectRef(_DEFINITIONS, *key))
        if value is None:
            return None
        crd = read_crd(value).crd
        if meta.is_deleting(crd):
            await self._clean_up(key.cluster, crd)
        else:
            await self._accept(key.cluster, crd)
        return None

    async def _revisit_group(self, cluster: str, group: str) -> None:
        for crd in await self._of_group(cluster, group):
            self.controller.add(ObjectKey(cluster, "", meta.name(crd)))

    async def _of_group(self, cluster: str, group: str) -> list[Object]:
        """The cluster's definitions in a group, large ones without their schemas."""
        found, slices = [], Slices()
        for key in self._lister.keys(CUSTOM_RESOURCE_DEFINITIONS, cluster):
            if not key.name.endswith(f".{group or 'core'}"):  # names end with the group
                continue
            value = self._lister.value(ObjectRef(_DEFINITIONS, *key))
            if value is not None:
                found.append(read_crd(value).crd)
            if slices.is_over():
                await slices.next()
        return found

    # -- names

    async def _accept(self, cluster: str, crd: Object) -> None:
        others = [] if cluster == bound_crd.CLUSTER else await self._rivals(cluster, crd)
        now = self._now()
        names: Object = {}

        def settle(live: Object) -> None:
            live["status"] = after_naming(live, others, now)
            names.clear()
            names.update(live["status"].get("acceptedNames") or {})

        await self._client.change(
            cluster, CUSTOM_RESOURCE_DEFINITIONS, meta.name(crd), settle, subresource="status"
        )
        before = (crd.get("status") or {}).get("acceptedNames")
        if before and before != names:
            self._revisit_later(cluster, crd["spec"]["group"])  # it may have given up names

    async def _rivals(self, cluster: str, crd: Object) -> list[Object]:
        """Definitions that may want the same names, and bindings that have them."""
        group = crd["spec"]["group"]
        others = await self._of_group(cluster, group)
        rivals = [other for other in others if meta.uid(other) != meta.uid(crd)]
        return rivals + [_named(d) for d in self._bound(cluster) if d.group == group]

    # -- the end

    async def _clean_up(self, cluster: str, crd: Object) -> None:
        if not meta.has_finalizer(crd, FINALIZER):
            return
        name = meta.name(crd)
        if not _is_true(crd, "Established"):
            await self._tell(
                cluster, name, "False", "NeverEstablished", "resource was never established"
            )
            await self._let_go(cluster, name)
            return
        if (crd["spec"]["group"], crd["spec"]["names"]["plural"]) in self._builtin:
            # Its objects are those of the built-in kind, which was served in its place.
            why = "instances overlap with built-in resources in storage"
            await self._tell(cluster, name, "False", "OverlappingBuiltInResource", why)
            await self._let_go(cluster, name)
            return
        await self._tell(
            cluster,
            name,
            "True",
            "InstanceDeletionInProgress",
            "CustomResource deletion is in progress",
        )
        try:
            left = await self._delete_instances(cluster, crd)
        except StatusError as error:
            why = f"could not issue all deletes: {error.message}"
            await self._tell(cluster, name, "True", "InstanceDeletionFailed", why)
            raise
        if left:
            raise Requeue(f"{left} objects of {name} remain")
        await self._tell(
            cluster, name, "False", "InstanceDeletionCompleted", "removed all instances"
        )
        await self._let_go(cluster, name)

    async def _tell(self, cluster: str, name: str, status: str, reason: str, message: str) -> None:
        now = self._now()

        def change(live: Object) -> None:
            set_condition(live, "Terminating", status, reason, message, now)

        await self._client.change(
            cluster, CUSTOM_RESOURCE_DEFINITIONS, name, change, subresource="status"
        )

    async def _let_go(self, cluster: str, name: str) -> None:
        try:
            await self._client.change(
                cluster,
                CUSTOM_RESOURCE_DEFINITIONS,
                name,
                _drop_finalizer,
            )
        except NotFound:
            return  # that was the last one

    async def _delete_instances(self, cluster: str, crd: Object) -> int:
        """Delete what there is; returns how many are left, waiting for finalizers."""
        spec = crd["spec"]
        plural = spec["names"]["plural"]
        kind = GroupVersionResource(spec["group"], _version_to_delete(spec), plural)
        left = 0
        async for page in self._lister.metadata_of(resource_id(spec["group"], plural), cluster):
            for metadata in page:
                left += await self._delete_one(cluster, kind, metadata)
        return left

    async def _delete_one(
        self, cluster: str, kind: GroupVersionResource, metadata: Metadata
    ) -> int:
        name, namespace = metadata.name, metadata.namespace
        await self._client.delete(cluster, kind, name, namespace, metadata.uid)
        return int(await self._client.get(cluster, kind, name, namespace) is not None)


def _named(definition: ResourceDefinition) -> Object:
    """A bound resource as a definition that has its names."""
    names = {
        "plural": definition.plural,
        "singular": definition.singular,
        "shortNames": list(definition.short_names),
        "kind": definition.kind,
        "listKind": definition.list_kind,
    }
    return {"status": {"acceptedNames": names}}


def _version_to_delete(spec: Object) -> str:
    """The storage version if it is served, since nothing must be converted then."""
    served = [v for v in spec["versions"] if v.get("served")] or spec["versions"]
    return str(next((v for v in served if v.get("storage")), served[0])["name"])


def _drop_finalizer(live: Object) -> None:
    meta.remove_finalizer(live, FINALIZER)


def _is_true(crd: Object, kind: str) -> bool:
    condition = condition_of(crd, kind)
    return condition is not None and condition["status"] == "True"
