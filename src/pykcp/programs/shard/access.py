"""The data that authorization needs of a logical cluster, read from the store and kept current."""

from __future__ import annotations

from collections.abc import Sequence

from pykcp.aio.slices import in_slices
from pykcp.auth.authz.rbac import RbacObjects
from pykcp.auth.authz.role_cache import WATCHED, ClusterRules, RoleCache
from pykcp.cache.replica import CacheReplica
from pykcp.machinery.resources import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    LOGICAL_CLUSTERS,
    ROLE_BINDINGS,
    ROLES,
    GroupVersionResource,
)
from pykcp.registry.codec import decode, decode_in_steps
from pykcp.registry.keys import object_key, resource_prefix, split_key
from pykcp.steps import Steps
from pykcp.storage.interface import Event, Query, Store
from pykcp.types import Object

_LOGICAL_CLUSTERS = resource_prefix(LOGICAL_CLUSTERS.group, LOGICAL_CLUSTERS.resource)
_GROUPS = frozenset(("rbac.authorization.k8s.io", "core.kcp.io"))


class AccessObjects:
    def __init__(self, store: Store, replica: CacheReplica) -> None:
        self._store = store
        self._replica = replica

    async def load(self, cluster: str) -> ClusterRules:
        """The RBAC objects of a cluster and its LogicalCluster."""
        objects = RbacObjects(
            cluster_roles=await self._all(cluster, CLUSTER_ROLES),
            cluster_role_bindings=await self._all(cluster, CLUSTER_ROLE_BINDINGS),
            roles=await self._all(cluster, ROLES),
            role_bindings=await self._all(cluster, ROLE_BINDINGS),
        )
        entry = self._store.get(object_key(_LOGICAL_CLUSTERS, cluster, "", "cluster"))
        if entry is not None:
            return ClusterRules(objects, logical_cluster=decode(entry.value))
        on_other_shard = self._replica.get(LOGICAL_CLUSTERS, cluster, "cluster")
        replicated = self._replicated(cluster) if on_other_shard is not None else None
        return ClusterRules(objects, replicated, on_other_shard)

    def _replicated(self, cluster: str) -> RbacObjects:
        """What a cluster on another shard has published of its roles."""
        return RbacObjects(
            cluster_roles=list(self._replica.all(CLUSTER_ROLES, cluster)),
            cluster_role_bindings=list(self._replica.all(CLUSTER_ROLE_BINDINGS, cluster)),
        )

    async def _all(self, cluster: str, kind: GroupVersionResource) -> list[Object]:
        prefix = f"{resource_prefix(kind.group, kind.resource)}{cluster}/"
        page = await self._store.list(Query(prefix))
        return await in_slices(_decoded(page.values), cluster)

    def follow(self, roles: RoleCache) -> None:
        """Notify the cache of committed changes."""

        def changed_on_other_shard(kind: tuple[str, str], cluster: str) -> None:
            if kind[0] in _GROUPS and kind[1] in WATCHED:
                roles.invalidate(cluster, kind[1])

        def changed(events: Sequence[Event]) -> None:
            for event in events:
                group, _, rest = event.key.partition("/")
                if group in _GROUPS:
                    resource = rest.partition("/")[0]
                    if resource in WATCHED:
                        roles.invalidate(split_key(event.key).cluster, resource)

        self._store.listen(changed, [f"{group}/" for group in _GROUPS])
        self._replica.listen(changed_on_other_shard)


def _decoded(values: Sequence[bytes]) -> Steps[list[Object]]:
    found: list[Object] = []
    for value in values:
        found.append((yield from decode_in_steps(value)))
        yield
    return found
