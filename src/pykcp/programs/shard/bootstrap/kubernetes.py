"""Kubernetes' kinds for workloads: a logical cluster that has them all, and an export of them.

The logical cluster looks like a Kubernetes cluster without its controllers. It has Kubernetes'
namespaces, and every user who signs in may enter it: RBAC alone decides, as in Kubernetes.
The export is in `root`, for any workspace that describes workloads.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from functools import partial

from pykcp.apis.kube.workloads import EXPORT, workload_crds, workload_export, workload_schemas
from pykcp.apis.kube.workloads.service_rules import SYSTEM_PRIORITIES
from pykcp.controllers.kube.crd_conditions import after_naming
from pykcp.machinery.kcp import clusters
from pykcp.machinery.meta import now_rfc3339
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
from pykcp.programs.shard.bootstrap.api_server import (
    SERVICE_RANGES,
    OwnServer,
    own_objects,
    range_is_ready,
    service_range,
    token_tracking,
)
from pykcp.programs.shard.bootstrap.own_cluster import (
    cluster_object,
    logical_cluster,
    namespace_object,
)
from pykcp.programs.shard.bootstrap.policy import bootstrap_kubernetes_policy
from pykcp.programs.shard.bootstrap.root_objects import cluster_role_binding
from pykcp.programs.shard.bootstrap.steps import align, change, ensure, put
from pykcp.registry import codec
from pykcp.registry.local import LocalClient
from pykcp.types import Object

_NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")
_PRIORITY_CLASSES = GroupVersionResource("scheduling.k8s.io", "v1", "priorityclasses")
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
    """Create what is missing, and return when all kinds are served."""
    await logical_cluster(client, cluster, cluster_object({}))
    await asyncio.gather(
        *(ensure(client, cluster, NAMESPACES, namespace_object(name)) for name in _NAMESPACES),
    )
    await define(client, cluster, [stored_definition(one) for one in workload_crds()])
    await asyncio.gather(
        bootstrap_kubernetes_policy(client, cluster),
        ensure(client, cluster, CLUSTER_ROLES, _ACCESS),
        ensure(client, cluster, CLUSTER_ROLE_BINDINGS, _GRANTED),
    )
    for kind, obj in own_objects(server):
        await align(client, cluster, kind, obj)
    await _publish_range(client, cluster, server)
    await ensure(client, cluster, CONFIG_MAPS, token_tracking(time.time()))
    for name, value in SYSTEM_PRIORITIES.items():
        await ensure(client, cluster, _PRIORITY_CLASSES, _priority_class(name, value))


async def _publish_range(client: LocalClient, cluster: str, server: OwnServer) -> None:
    """A range that is there stays: services have its addresses."""
    wanted = service_range(server.ranges)
    ready = range_is_ready(now_rfc3339(time.time()))

    def mark(live: Object) -> None:
        conditions = live.setdefault("status", {}).setdefault("conditions", [])
        if not any(one["type"] == ready["type"] for one in conditions):
            conditions.append(ready)

    await ensure(client, cluster, SERVICE_RANGES, wanted)
    name = wanted["metadata"]["name"]
    await change(client, cluster, SERVICE_RANGES, name, mark, subresource="status")


def stored_definition(definition: Object) -> Object:
    """A definition as the server stores it when its names are accepted.

    The label is the one by which the server leaves it out of what users see.
    """
    metadata, spec = definition["metadata"], definition["spec"]
    (stored,) = (version["name"] for version in spec["versions"] if version["storage"])
    made: Object = {
        "metadata": {**metadata, "labels": {KUBERNETES_KIND: "true"}},
        "spec": {**spec, "conversion": {"strategy": "None"}},
        "status": {"storedVersions": [stored]},
    }
    made["status"] = after_naming(made, (), now_rfc3339(time.time()))
    return made


async def define(client: LocalClient, cluster: str, definitions: Sequence[Object]) -> None:
    """Create the definitions that are missing in one write; older versions stored others."""
    missing = []
    for one in definitions:
        found = await client.get(cluster, CUSTOM_RESOURCE_DEFINITIONS, one["metadata"]["name"])
        if found is None:
            missing.append(one)
        elif not _is_same(found, one):
            await _redefine(client, cluster, one)
    create = partial(client.to_create_unchecked, cluster, CUSTOM_RESOURCE_DEFINITIONS)
    await client.transaction([create(one) for one in missing])


def _is_same(found: Object, wanted: Object) -> bool:
    labels = found["metadata"].get("labels") or {}
    return KUBERNETES_KIND in labels and found["spec"] == wanted["spec"]


async def _redefine(client: LocalClient, cluster: str, wanted: Object) -> None:
    def overwrite(live: Object) -> None:
        live["metadata"]["labels"] = {KUBERNETES_KIND: "true"}
        live["spec"] = codec.copy(wanted["spec"])

    await client.change(cluster, CUSTOM_RESOURCE_DEFINITIONS, wanted["metadata"]["name"], overwrite)


async def bootstrap_export(client: LocalClient) -> None:
    """The export `kubernetes` with its schemas, which every user may bind."""
    import pykcp.apis.kube.workloads.rules  # noqa: F401  # not while somebody's first pod is created

    root, wanted = clusters.ROOT, workload_export()
    found = await client.get(root, API_EXPORTS, EXPORT) or {}
    if (found.get("spec") or {}).get("resources") == wanted["spec"]["resources"]:
        return
    create = partial(client.to_create_unchecked, root, API_RESOURCE_SCHEMAS)
    missing = [
        create(schema)
        for schema in workload_schemas()
        if await client.get(root, API_RESOURCE_SCHEMAS, schema["metadata"]["name"]) is None
    ]
    await client.transaction(missing)
    await put(client, root, API_EXPORTS, wanted)
    everybody = (("Group", "system:authenticated"),)
    await put(client, root, CLUSTER_ROLES, _MAY_BIND)
    granted = cluster_role_binding(_BIND_GRANTED, _MAY_BIND["metadata"]["name"], everybody)
    await put(client, root, CLUSTER_ROLE_BINDINGS, granted)
