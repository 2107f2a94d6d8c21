"""kcp's two own initializers, for workspaces that provisioning could not complete.

`root:universal` makes the namespaces of a universal workspace, `system:apibindings` the
default bindings of all its types.
"""

from __future__ import annotations

from collections.abc import Callable

from pykcp.apis.kcp import logical_clusters as lifecycle
from pykcp.apis.kcp import workspace_types
from pykcp.apis.kcp.workspace_types import API_BINDINGS_INITIALIZER, ExportReference
from pykcp.clients.interface import Change, Client, Feed, Lister
from pykcp.controllers.runtime.controller import Controller, Requeue
from pykcp.controllers.runtime.fan_out import add_indexed, key_of
from pykcp.controllers.runtime.metrics import ControllerMetrics
from pykcp.controllers.tenancy.provisioning import (
    NAMESPACES_OF_UNIVERSAL,
    UNIVERSAL,
    WorkspaceProvisioning,
    universal_namespace,
)
from pykcp.machinery import meta
from pykcp.machinery.conditions import is_true
from pykcp.machinery.kcp import clusters, hashes
from pykcp.machinery.kcp.condition_marks import drop, mark_false
from pykcp.machinery.kcp.conditions import ERROR, INFO
from pykcp.machinery.object_keys import ObjectKey
from pykcp.machinery.resources import (
    API_BINDINGS,
    API_EXPORTS,
    LOGICAL_CLUSTERS,
    NAMESPACES,
)
from pykcp.machinery.status import AlreadyExists, NotFound
from pykcp.machinery.terms import label_term
from pykcp.registry.indexes.entries import UNSETTLED_CLUSTERS
from pykcp.registry.lookup import ObjectLookup
from pykcp.types import Object

INITIALIZED = "APIBindingsInitialized"


class _Initializer:
    """What both have in common: they look at clusters that carry their label."""

    initializer: str

    def __init__(
        self, name: str, lister: Lister, client: Client, metrics: ControllerMetrics | None
    ) -> None:
        self._lister, self._client = lister, client
        self._term = label_term(*hashes.initializer_label(self.initializer))
        self.controller: Controller[ObjectKey] = Controller(
            name, self.reconcile, workers=8, metrics=metrics
        )

    def follow(self, feed: Feed) -> None:
        feed.on(LOGICAL_CLUSTERS, self._on_cluster)
        feed.at_start(self._resume)

    def _on_cluster(self, change: Change) -> None:
        if not change.deleted and self._term in change.terms:
            self.controller.add(ObjectKey(change.cluster, "", "cluster"))

    async def _resume(self) -> None:
        for ref in self._lister.find(UNSETTLED_CLUSTERS, LOGICAL_CLUSTERS):
            self.controller.add(ref.key)

    async def reconcile(self, key: ObjectKey) -> float | None:
        found = await self._client.get(key.cluster, LOGICAL_CLUSTERS, "cluster")
        if found is None or meta.is_deleting(found):
            return None
        if lifecycle.phase_of(found) != lifecycle.INITIALIZING:
            return None
        if self.initializer not in lifecycle.initializers_of(found):
            return None
        return await self.initialize(found)

    async def initialize(self, cluster: Object) -> float | None:
        raise NotImplementedError

    async def _finish(self, cluster: Object) -> None:
        def remove(live: Object) -> None:
            left = [i for i in lifecycle.initializers_of(live) if i != self.initializer]
            live.setdefault("status", {})["initializers"] = left
            drop(live, INITIALIZED)

        await self._change(cluster, remove)

    async def _change(self, cluster: Object, change: Callable[[Object], None]) -> None:
        try:
            await self._client.change(
                meta.cluster(cluster), LOGICAL_CLUSTERS, "cluster", change, subresource="status"
            )
        except NotFound:
            return


class UniversalInitializer(_Initializer):
    initializer = UNIVERSAL

    def __init__(
        self, lister: Lister, client: Client, metrics: ControllerMetrics | None = None
    ) -> None:
        super().__init__("kcp-workspacetypes-bootstrap-universal", lister, client, metrics)

    async def initialize(self, cluster: Object) -> None:
        name = meta.cluster(cluster)
        for namespace in NAMESPACES_OF_UNIVERSAL:
            try:
                await self._client.create(name, NAMESPACES, universal_namespace(namespace))
            except AlreadyExists:
                continue
        await self._finish(cluster)


class BindingsInitializer(_Initializer):
    initializer = API_BINDINGS_INITIALIZER

    def __init__(
        self,
        lister: Lister,
        client: Client,
        lookup: ObjectLookup,
        provisioning: WorkspaceProvisioning,
        now: Callable[[], str],
        metrics: ControllerMetrics | None = None,
    ) -> None:
        super().__init__("kcp-apibinder-initializer", lister, client, metrics)
        self._lookup, self._provisioning, self._now = lookup, provisioning, now

    def follow(self, feed: Feed) -> None:
        super().follow(feed)
        feed.on(API_BINDINGS, self._on_binding)
        feed.on(API_EXPORTS, self._on_export)
        if self._lookup.replica is not None:
            self._lookup.replica.follow(API_EXPORTS, self._on_published_export)

    def _on_binding(self, change: Change) -> None:
        cluster = change.cluster
        found = self._lookup.logical_cluster(cluster)
        if found is not None and self.initializer in lifecycle.initializers_of(found):
            self.controller.add(ObjectKey(cluster, "", "cluster"))

    def _on_export(self, change: Change) -> None:
        """An export that a cluster waits for may be available now."""
        if change.created:
            self._on_published_export(change.cluster, change.name)

    def _on_published_export(self, _cluster: str, _name: str) -> None:
        add_indexed(self.controller, self._lister, UNSETTLED_CLUSTERS, LOGICAL_CLUSTERS, key_of)

    async def initialize(self, cluster: Object) -> float | None:
        path, kind = clusters.split(meta.annotation(cluster, lifecycle.TYPE_ANNOTATION))
        if not path:
            return None
        try:
            types = self._provisioning.types_of(path, kind)
        except workspace_types.BadType as error:
            message = f"error getting WorkspaceType {path}|{kind}: {error}"
            await self._tell(cluster, "WorkspaceTypesInvalid", message)
            return None
        missing, incomplete = await self._bind(cluster, workspace_types.default_bindings(types))
        if missing:
            why = "unable to complete initialization: unable to find at least 1 APIExport"
            await self._tell(cluster, "APIBindingErrors", f"encountered errors: {why}")
            raise Requeue(why)
        if incomplete:
            message = f"APIBinding(s) not yet fully bound: {', '.join(sorted(incomplete))}"
            await self._tell(cluster, "WaitingOnAPIBindings", message, severity=INFO)
            return None
        await self._finish(cluster)
        return None

    async def _tell(
        self, cluster: Object, reason: str, message: str, severity: str = ERROR
    ) -> None:
        now = self._now()

        def mark(live: Object) -> None:
            mark_false(live, INITIALIZED, reason, message, now, severity=severity)

        await self._change(cluster, mark)

    async def _bind(self, cluster: Object, wanted: list[ExportReference]) -> tuple[bool, list[str]]:
        """Whether an export is missing, and which bindings are not complete."""
        is_missing, incomplete = False, []
        for reference in wanted:
            export = self._lookup.find(API_EXPORTS, reference.path, reference.name)
            if export is None:
                is_missing = True
                continue
            binding = await self._ensure(meta.cluster(cluster), reference, export)
            if not is_true(binding, "InitialBindingCompleted"):
                incomplete.append(meta.name(binding))
            elif _has_accepted(binding) and not is_true(binding, "PermissionClaimsApplied"):
                incomplete.append(
                    f"{meta.name(binding)} waiting for permission claims to be applied"
                )
        return is_missing, incomplete

    async def _ensure(self, cluster: str, wanted: ExportReference, export: Object) -> Object:
        name = hashes.default_binding_name(cluster, wanted.path, wanted.name)
        found = await self._client.get(cluster, API_BINDINGS, name)
        if found is not None:
            return found
        binding = default_binding(name, wanted, export)
        try:
            return await self._client.create(cluster, API_BINDINGS, binding)
        except AlreadyExists as error:
            raise Requeue("another client created its binding") from error


def default_binding(name: str, wanted: ExportReference, export: Object) -> Object:
    """A binding that a workspace type makes: it accepts whatever its export claims."""
    spec: Object = {"reference": {"export": {"path": wanted.path, "name": wanted.name}}}
    claims = [
        {
            **{key: value for key, value in claim.items() if key != "defaultSelector"},
            "selector": claim.get("defaultSelector") or {"matchAll": True},
            "state": "Accepted",
        }
        for claim in (export.get("spec") or {}).get("permissionClaims") or ()
    ]
    if claims:
        spec["permissionClaims"] = claims
    return {
        "apiVersion": "apis.kcp.io/v1alpha2",
        "kind": "APIBinding",
        "metadata": {"name": name},
        "spec": spec,
    }


def _has_accepted(binding: Object) -> bool:
    claims = (binding.get("spec") or {}).get("permissionClaims") or ()
    return any(claim.get("state") == "Accepted" for claim in claims)
