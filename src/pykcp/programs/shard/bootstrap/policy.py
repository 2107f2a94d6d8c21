"""The bootstrap roles: in `system:admin`, and in a logical cluster that is a Kubernetes cluster.

Every step is idempotent and runs on every start: a correct object is not written again.
"""

from __future__ import annotations

import asyncio

from pykcp.auth.authz import bootstrap_policy
from pykcp.auth.authz.bootstrap_reconcile import RoleRefChanged, reconciled
from pykcp.auth.authz.rbac import RbacObjects
from pykcp.machinery.resources import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    NAMESPACES,
    ROLE_BINDINGS,
    ROLES,
    GroupVersionResource,
)
from pykcp.machinery.status import AlreadyExists
from pykcp.registry import codec
from pykcp.registry.local import LocalClient
from pykcp.types import Object

ADMIN = "system:admin"


async def bootstrap(client: LocalClient) -> None:
    """Upstream's and kcp's roles and bindings, where every logical cluster finds them."""
    await _ensure_all(client, ADMIN, bootstrap_policy.objects())


async def bootstrap_kubernetes_policy(client: LocalClient, cluster: str) -> None:
    """Upstream's roles and bindings in a logical cluster itself, where users see and change them."""
    await _ensure_all(client, cluster, bootstrap_policy.kubernetes_objects())


def _namespace(name: str) -> Object:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


async def _ensure_all(client: LocalClient, cluster: str, objects: RbacObjects) -> None:
    namespaces = ["default", *bootstrap_policy.namespaces()]
    await asyncio.gather(
        *(_ensure(client, cluster, NAMESPACES, _namespace(n)) for n in dict.fromkeys(namespaces))
    )
    by_kind = (
        (CLUSTER_ROLES, objects.cluster_roles),
        (CLUSTER_ROLE_BINDINGS, objects.cluster_role_bindings),
        (ROLES, objects.roles),
        (ROLE_BINDINGS, objects.role_bindings),
    )
    await asyncio.gather(
        *(_ensure(client, cluster, kind, obj) for kind, objs in by_kind for obj in objs)
    )


async def _ensure(
    client: LocalClient, cluster: str, kind: GroupVersionResource, obj: Object
) -> None:
    """Create the object if it is missing; what is there is only completed."""
    metadata = obj["metadata"]
    name, namespace = metadata["name"], metadata.get("namespace", "")
    existing = await client.get(cluster, kind, name, namespace)
    if existing is None:
        await _create(client, cluster, kind, obj)
    elif kind.group == CLUSTER_ROLES.group:
        await _reconcile(client, cluster, kind, existing, obj)


async def _create(
    client: LocalClient, cluster: str, kind: GroupVersionResource, obj: Object
) -> None:
    try:
        await client.create(cluster, kind, codec.copy(obj))
    except AlreadyExists:
        return  # another replica was faster


async def _reconcile(
    client: LocalClient, cluster: str, kind: GroupVersionResource, existing: Object, obj: Object
) -> None:
    metadata = obj["metadata"]
    try:
        wanted = reconciled(existing, obj)
    except RoleRefChanged:
        await client.delete(cluster, kind, metadata["name"], metadata.get("namespace", ""))
        await _create(client, cluster, kind, obj)
        return
    if wanted is not None:
        await client.update(cluster, kind, wanted)
