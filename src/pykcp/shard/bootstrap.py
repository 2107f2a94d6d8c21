"""What a shard holds before anybody asks: the root cluster and the bootstrap roles.

Every step is idempotent and the same on every start: an object that is there
and right is left alone.
"""

from __future__ import annotations

import asyncio

from pykcp.auth.authz.bootstrap_policy import bootstrap_objects
from pykcp.machinery.resources import (
    LOGICAL_CLUSTERS,
    NAMESPACES,
    GroupVersionResource,
)
from pykcp.machinery.status import AlreadyExists
from pykcp.registry.local import LocalClient
from pykcp.types import Object

ROOT = "root"
ADMIN = "system:admin"
_RBAC = "rbac.authorization.k8s.io"
_PLURALS = {
    "ClusterRole": "clusterroles",
    "ClusterRoleBinding": "clusterrolebindings",
    "Role": "roles",
    "RoleBinding": "rolebindings",
}


async def bootstrap(client: LocalClient) -> None:
    await asyncio.gather(_root_cluster(client), _admin_policy(client))


async def _root_cluster(client: LocalClient) -> None:
    if client.get(ROOT, LOGICAL_CLUSTERS, "cluster") is None:
        await _ensure(client, ROOT, LOGICAL_CLUSTERS, _root_logical_cluster())
        await client.change(ROOT, LOGICAL_CLUSTERS, "cluster", _make_ready, subresource="status")
    await _ensure(client, ROOT, NAMESPACES, _namespace("default"))


def _make_ready(obj: Object) -> None:
    obj["status"] = {**(obj.get("status") or {}), "phase": "Ready"}


def _root_logical_cluster() -> Object:
    return {
        "apiVersion": "core.kcp.io/v1alpha1",
        "kind": "LogicalCluster",
        "metadata": {
            "name": "cluster",
            "annotations": {
                "kcp.io/path": ROOT,
                "internal.tenancy.kcp.io/type": "root:root",
                "experimental.tenancy.kcp.io/owner": '{"username":"system:kcp-bootstrapper"}',
            },
        },
        "spec": {},
    }


def _namespace(name: str) -> Object:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


async def _admin_policy(client: LocalClient) -> None:
    """Upstream's and kcp's roles and bindings, where every cluster finds them."""
    objects = bootstrap_objects()
    namespaces = {o["metadata"]["namespace"] for o in objects if o["metadata"].get("namespace")}
    await asyncio.gather(
        *(_ensure(client, ADMIN, NAMESPACES, _namespace(n)) for n in sorted(namespaces | {"default"}))
    )
    await asyncio.gather(
        *(
            _ensure(client, ADMIN, GroupVersionResource(_RBAC, "v1", _PLURALS[o["kind"]]), o)
            for o in objects
        )
    )


async def _ensure(
    client: LocalClient, cluster: str, kind: GroupVersionResource, obj: Object
) -> None:
    """Create the object if it is missing; what is there stays as its owner left it."""
    metadata = obj["metadata"]
    if client.get(cluster, kind, metadata["name"], metadata.get("namespace", "")) is not None:
        return
    try:
        await client.create(cluster, kind, obj)
    except AlreadyExists:
        return  # another replica was faster
