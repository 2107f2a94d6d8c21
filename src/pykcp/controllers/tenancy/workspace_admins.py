"""The admin role binding of a workspace's creator; recreated when it is deleted."""

from __future__ import annotations

from pykcp.apis.kcp import logical_clusters as lifecycle
from pykcp.clients.interface import Change, Client, Feed, Lister
from pykcp.controllers.runtime.controller import Controller
from pykcp.controllers.runtime.metrics import ControllerMetrics
from pykcp.controllers.tenancy.provisioning import ADMIN_BINDING, admin_binding, is_created_ready
from pykcp.machinery import meta
from pykcp.machinery.object_keys import ObjectKey
from pykcp.machinery.resources import CLUSTER_ROLE_BINDINGS, LOGICAL_CLUSTERS
from pykcp.machinery.status import AlreadyExists
from pykcp.registry.lookup import ObjectLookup
from pykcp.types import Object

NAME = "kcp-tenancy-logicalcluster"


class WorkspaceAdmins:
    def __init__(
        self,
        lister: Lister,
        client: Client,
        lookup: ObjectLookup,
        metrics: ControllerMetrics | None = None,
    ) -> None:
        self._lister, self._client, self._lookup = lister, client, lookup
        self.controller: Controller[ObjectKey] = Controller(
            NAME, self.reconcile, workers=8, metrics=metrics
        )

    def follow(self, feed: Feed) -> None:
        feed.on(LOGICAL_CLUSTERS, self._on_cluster)
        feed.on(CLUSTER_ROLE_BINDINGS, self._on_binding)

    def _on_cluster(self, change: Change) -> None:
        if change.created and not is_created_ready(change):  # to which it belongs from the start
            self.controller.add(ObjectKey(change.cluster, "", ADMIN_BINDING))

    def _on_binding(self, change: Change) -> None:
        if change.created or change.name != ADMIN_BINDING:
            return
        cluster = change.cluster
        if change.deleted and not self._lister.has(cluster, LOGICAL_CLUSTERS, "cluster"):
            return  # it went with its cluster
        self.controller.add(ObjectKey(cluster, "", ADMIN_BINDING))

    async def reconcile(self, key: ObjectKey) -> None:
        cluster = self._lookup.logical_cluster(key.cluster)
        if cluster is None or meta.is_deleting(cluster):
            return
        creator = lifecycle.creator_of(cluster)
        if not creator:
            return
        wanted = admin_binding(creator)
        found = await self._client.get(key.cluster, CLUSTER_ROLE_BINDINGS, ADMIN_BINDING)
        if found is None:
            await self._create(key.cluster, wanted)
        elif found["roleRef"] != wanted["roleRef"]:  # which cannot be changed
            await self._client.delete(key.cluster, CLUSTER_ROLE_BINDINGS, ADMIN_BINDING)
            await self._create(key.cluster, wanted)
        elif found.get("subjects") != wanted["subjects"]:
            await self._client.change(
                key.cluster,
                CLUSTER_ROLE_BINDINGS,
                ADMIN_BINDING,
                lambda live: live.update(subjects=wanted["subjects"]),
            )

    async def _create(self, cluster: str, binding: Object) -> None:
        try:
            await self._client.create(cluster, CLUSTER_ROLE_BINDINGS, binding)
        except AlreadyExists:
            return
