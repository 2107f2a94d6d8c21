"""Kubernetes' kinds for workloads: a logical cluster that has them all, and an export of them.

The logical cluster looks like a Kubernetes cluster without its controllers. It has Kubernetes'
namespaces, and every user who signs in may enter it: RBAC alone decides, as in Kubernetes.
The export is in `root`, for any workspace that describes workloads.
"""

from __future__ import annotations

import asyncio
import time

from pykcp.apis.kube.workloads import EXPORT, workload_crds, workload_export, workload_schemas
from pykcp.apis.kube.workloads.service_rules import SYSTEM_PRIORITIES
from pykcp.machinery.kcp import clusters
from pykcp.machinery.resources import (
    API_EXPORTS,
    API_RESOURCE_SCHEMAS,
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    CONFIG_MAPS,
    CUSTOM_RESOURCE_DEFINITIONS,
    NAMESPACES,
    GroupVersionResource,
)
from pykcp.machinery.schema.crd import KUBERNETES_KIND
from pykcp.programs.shard.bootstrap.api_server import OwnServer, own_objects, token_tracking
from pykcp.programs.shard.bootstrap.own_cluster import (
    cluster_object,
    logical_cluster,
    namespace_object,
)
from pykcp.programs.shard.bootstrap.policy import bootstrap_kubernetes_policy
from pykcp.programs.shard.bootstrap.root_objects import cluster_role_binding
from pykcp.programs.shard.bootstrap.steps import align, ensure, put
from pykcp.registry.local import LocalClient
from pykcp.types import Object

_NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")
_PRIORITY_CLASSES = GroupVersionResource("scheduling.k8s.io", "v1", "priorityclasses")
_SECONDS = 60.0
_PAUSE = 0.01
_ACCESS: Object = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRole",
    "metadata": {"name": "system:kcp:kubernetes-cluster:access"},
    "rules": [{"nonResourceURLs": ["/"], "verbs": ["access"]}],
}
_GRANTED: Object = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRoleBinding",
    "metadata": {"name": "system:kcp:kubernetes-cluster:access"},
    "roleRef": {
        "apiGroup": "rbac.authorization.k8s.io",
        "kind": "ClusterRole",
        "name": "system:kcp:kubernetes-cluster:access",
    },
    "subjects": [
        {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "Group",
            "name": "system:authenticated",
        }
    ],
}
_MAY_BIND: Object = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRole",
    "metadata": {"name": "system:kcp:apiexport:kubernetes:bind"},
    "rules": [
        {
            "apiGroups": ["apis.kcp.io"],
            "resources": ["apiexports"],
            "resourceNames": [EXPORT],
            "verbs": ["bind"],
        }
    ],
}
_BIND_GRANTED = "system:kcp:authenticated:apiexport:kubernetes:bind"


def _priority_class(name: str, value: int) -> Object:
    whole = "Used for system critical pods that must not be moved from their current node."
    some = "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary."
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
        "description": whole if name == "system-node-critical" else some,
    }


async def bootstrap_kubernetes(client: LocalClient, cluster: str, server: OwnServer) -> None:
    """Create what is missing, and return when all kinds are served. Needs the controllers."""
    await logical_cluster(client, cluster, cluster_object({}))
    definitions = [_labelled(one) for one in workload_crds()]
    await asyncio.gather(
        *(ensure(client, cluster, NAMESPACES, namespace_object(name)) for name in _NAMESPACES),
    )
    await asyncio.gather(
        bootstrap_kubernetes_policy(client, cluster),
        ensure(client, cluster, CLUSTER_ROLES, _ACCESS),
        ensure(client, cluster, CLUSTER_ROLE_BINDINGS, _GRANTED),
        *(_define(client, cluster, one) for one in definitions),
    )
    deadline = time.monotonic() + _SECONDS
    for one in definitions:
        while not await _is_served(client, cluster, one["metadata"]["name"]):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{one['metadata']['name']} was not served in {_SECONDS} s")
            await asyncio.sleep(_PAUSE)
    for kind, obj in own_objects(server):
        await align(client, cluster, kind, obj)
    await ensure(client, cluster, CONFIG_MAPS, token_tracking(time.time()))
    for name, value in SYSTEM_PRIORITIES.items():
        await ensure(client, cluster, _PRIORITY_CLASSES, _priority_class(name, value))


def _labelled(definition: Object) -> Object:
    """With the label by which the server leaves it out of what users see."""
    metadata = definition["metadata"]
    labels = {**(metadata.get("labels") or {}), KUBERNETES_KIND: "true"}
    return {**definition, "metadata": {**metadata, "labels": labels}}


async def _define(client: LocalClient, cluster: str, definition: Object) -> None:
    """Create it; older versions created it without the label."""
    await ensure(client, cluster, CUSTOM_RESOURCE_DEFINITIONS, definition)
    name = definition["metadata"]["name"]
    found = await client.get(cluster, CUSTOM_RESOURCE_DEFINITIONS, name)
    if found is not None and KUBERNETES_KIND not in (found["metadata"].get("labels") or {}):
        await client.update(cluster, CUSTOM_RESOURCE_DEFINITIONS, _labelled(found))


async def bootstrap_export(client: LocalClient) -> None:
    """The export `kubernetes` with its schemas, which every user may bind."""
    import pykcp.apis.kube.workloads.rules  # noqa: F401  # not while somebody's first pod is created

    root, wanted = clusters.ROOT, workload_export()
    found = await client.get(root, API_EXPORTS, EXPORT) or {}
    if (found.get("spec") or {}).get("resources") == wanted["spec"]["resources"]:
        return
    for schema in workload_schemas():
        await ensure(client, root, API_RESOURCE_SCHEMAS, schema)
        await asyncio.sleep(0)
    await put(client, root, API_EXPORTS, wanted)
    everybody = (("Group", "system:authenticated"),)
    await put(client, root, CLUSTER_ROLES, _MAY_BIND)
    granted = cluster_role_binding(_BIND_GRANTED, _MAY_BIND["metadata"]["name"], everybody)
    await put(client, root, CLUSTER_ROLE_BINDINGS, granted)


async def _is_served(client: LocalClient, cluster: str, name: str) -> bool:
    found = await client.get(cluster, CUSTOM_RESOURCE_DEFINITIONS, name) or {}
    conditions = (found.get("status") or {}).get("conditions") or ()
    return any(c["type"] == "Established" and c["status"] == "True" for c in conditions)
