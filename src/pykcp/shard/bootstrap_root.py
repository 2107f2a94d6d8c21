"""The logical clusters `root` and `system:shard`: kcp's own APIs and who may use them.

`root` exports kcp's kinds and holds the standard workspace types; `system:shard` binds all
exports, so that a shard serves them whatever tenants do. Everything is the same on every
start: schemas are fixed, exports, types and roles are put back as they are meant to be,
unless somebody marked them as theirs.
"""

from __future__ import annotations

import asyncio
import base64
import pathlib
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pykcp.apis import kcp_exports
from pykcp.machinery import clusters, hashes
from pykcp.machinery.kcp_conditions import with_true
from pykcp.machinery.meta import now_rfc3339
from pykcp.machinery.resources import (
    API_BINDINGS,
    API_EXPORTS,
    API_RESOURCE_SCHEMAS,
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    LOGICAL_CLUSTERS,
    NAMESPACES,
    SECRETS,
    SERVICE_ACCOUNTS,
    SHARDS,
    WORKSPACE_TYPES,
    GroupVersionResource,
)
from pykcp.machinery.status import AlreadyExists
from pykcp.registry import codec
from pykcp.registry.local import LocalClient
from pykcp.shard import root_objects
from pykcp.shard.root_objects import BOOTSTRAPPER, CREATE_ONLY
from pykcp.shard.settings import ShardSettings
from pykcp.types import Object

IDENTITY_NAMESPACE = "kcp-system"
_BOUND_CONDITIONS = (
    "Ready",
    "APIExportValid",
    "BindingUpToDate",
    "InitialBindingCompleted",
    "PermissionClaimsApplied",
    "PermissionClaimsValid",
)
_ROOT_BINDINGS = ("shards.core.kcp.io", "tenancy.kcp.io", "topology.kcp.io")


@dataclass(frozen=True, slots=True)
class ShardURLs:
    """The addresses that a shard is known by."""

    base: str
    external: str
    virtual_workspaces: str


@dataclass(frozen=True, slots=True)
class RootOptions:
    shard_name: str
    urls: ShardURLs
    batteries: frozenset[str]
    home_creators: tuple[str, ...] = ("system:authenticated",)
    feature_gates: frozenset[str] = frozenset()
    identities: Mapping[str, str] | None = None
    """Keys of exports that are given rather than made, from `--root-identities-file`."""


def root_options(settings: ShardSettings, address: str) -> RootOptions:
    """`address`: host and port under which the server is reached."""
    own = f"https://{address}"
    base = settings.shard_base_url or own
    urls = ShardURLs(
        base,
        settings.shard_external_url or base,
        settings.shard_virtual_workspace_url or base,
    )
    gates = frozenset(name for name, is_on in settings.feature_gates.items() if is_on)
    given = settings.root_identities_file
    return RootOptions(
        settings.shard_name,
        urls,
        settings.batteries,
        settings.home_creator_groups,
        gates,
        read_identities(given) if given else None,
    )


async def bootstrap_root(client: LocalClient, options: RootOptions) -> None:
    root = clusters.ROOT
    await asyncio.gather(
        _logical_cluster(client, root, _root_cluster()),
        _logical_cluster(client, clusters.SYSTEM_SHARD, _cluster({})),
        _ensure(client, root, NAMESPACES, _namespace("default", {CREATE_ONLY: "true"})),
        _ensure(client, root, NAMESPACES, _namespace(IDENTITY_NAMESPACE)),
        _ensure(
            client,
            clusters.SYSTEM_SHARD,
            NAMESPACES,
            _namespace("default", {CREATE_ONLY: "true"}),
        ),
        *(_schema(client, resource) for resource in kcp_exports.resource_names()),
    )
    given = options.identities or {}
    await asyncio.gather(
        *(_identity(client, name, given.get(name)) for name in kcp_exports.EXPORTS)
    )
    await asyncio.gather(*(_export(client, name) for name in kcp_exports.EXPORTS))
    in_root = list(_ROOT_BINDINGS)
    if "CacheAPIs" in options.feature_gates:
        in_root.append("cache.kcp.io")
    await asyncio.gather(
        *(_binding(client, root, name) for name in in_root),
        *(_binding(client, clusters.SYSTEM_SHARD, name) for name in kcp_exports.EXPORTS),
        *(_put(client, root, CLUSTER_ROLES, role) for role in root_objects.cluster_roles()),
        *(
            _put(client, root, CLUSTER_ROLE_BINDINGS, binding)
            for binding in root_objects.cluster_role_bindings(options.home_creators)
        ),
    )
    if "metrics-viewer" in options.batteries:
        await _metrics_viewer(client)
    await asyncio.gather(
        _shard(client, options),
        *(
            _put(client, root, WORKSPACE_TYPES, kind)
            for kind in root_objects.workspace_types(options.batteries)
        ),
    )


async def _metrics_viewer(client: LocalClient) -> None:
    """An account that may read the metrics of the shard, with a token that does not end."""
    root = clusters.ROOT
    for obj in root_objects.metrics_viewer_access():
        kind = CLUSTER_ROLES if obj["kind"] == "ClusterRole" else CLUSTER_ROLE_BINDINGS
        await _put(client, root, kind, obj)
    await _ensure(client, root, SERVICE_ACCOUNTS, root_objects.metrics_viewer_account())
    await _ensure(client, root, SECRETS, root_objects.metrics_viewer_secret())


def _cluster(annotations: Mapping[str, str]) -> Object:
    metadata: Object = {"name": "cluster"}
    if annotations:
        metadata["annotations"] = dict(annotations)
    return {
        "apiVersion": "core.kcp.io/v1alpha1",
        "kind": "LogicalCluster",
        "metadata": metadata,
        "spec": {},
    }


def _root_cluster() -> Object:
    return _cluster(
        {
            "internal.tenancy.kcp.io/type": "root:root",
            "experimental.tenancy.kcp.io/owner": f'{{"username":"{BOOTSTRAPPER}"}}',
        }
    )


async def _logical_cluster(client: LocalClient, cluster: str, obj: Object) -> None:
    """There, and at least Initializing: its controller makes it ready."""
    await _ensure(client, cluster, LOGICAL_CLUSTERS, obj)

    def initialize(live: Object) -> None:
        status = live.setdefault("status", {})
        if status.get("phase") in (None, "", "Scheduling"):
            status["phase"] = "Initializing"

    await _change(client, cluster, LOGICAL_CLUSTERS, "cluster", initialize, "status")


def _namespace(name: str, annotations: Mapping[str, str] | None = None) -> Object:
    metadata: Object = {"name": name}
    if annotations:
        metadata["annotations"] = dict(annotations)
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}


async def _schema(client: LocalClient, resource: str) -> None:
    """Schemas are immutable: one that is there need not even be written out."""
    name = kcp_exports.schema_name(resource)
    if client.get(clusters.ROOT, API_RESOURCE_SCHEMAS, name) is None:
        schema = kcp_exports.resource_schema(resource)
        await _ensure(client, clusters.ROOT, API_RESOURCE_SCHEMAS, schema)


def _identity_hash(client: LocalClient, export: str) -> str:
    """What an export of root is known by; "" before it has an identity."""
    found = client.get(clusters.ROOT, API_EXPORTS, export) or {}
    identity: str = (found.get("status") or {}).get("identityHash") or ""
    return identity


async def _identity(client: LocalClient, export: str, given: str | None) -> None:
    """A secret once; later starts need not open it, and so do not fail if they cannot."""
    if _identity_hash(client, export):
        return
    key = given or hashes.identity_key(secrets.token_bytes(32))
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": export, "namespace": IDENTITY_NAMESPACE},
        "data": {"key": base64.b64encode(key.encode()).decode()},
    }
    await _ensure(client, clusters.ROOT, SECRETS, secret)


async def _export(client: LocalClient, name: str) -> None:
    """The export, with the identity that its secret has: others are bound to it at once."""
    wanted = kcp_exports.export(name)
    wanted["spec"]["identity"] = {"secretRef": {"namespace": IDENTITY_NAMESPACE, "name": name}}
    await _put(client, clusters.ROOT, API_EXPORTS, wanted)
    if _identity_hash(client, name):
        return
    secret = client.get(clusters.ROOT, SECRETS, name, IDENTITY_NAMESPACE)
    assert secret is not None  # it was made before
    identity = hashes.identity_hash(base64.b64decode(secret["data"]["key"]).decode())
    now = now_rfc3339(time.time())

    def identify(live: Object) -> None:
        status = live.setdefault("status", {})
        status["identityHash"] = identity
        status["conditions"] = with_true(status.get("conditions") or (), "IdentityValid", now)

    await _change(client, clusters.ROOT, API_EXPORTS, name, identify, "status")


async def _binding(client: LocalClient, cluster: str, export: str) -> None:
    binding = {
        "apiVersion": "apis.kcp.io/v1alpha2",
        "kind": "APIBinding",
        "metadata": {"name": export},
        "spec": {"reference": {"export": {"path": clusters.ROOT, "name": export}}},
    }
    await _ensure(client, cluster, API_BINDINGS, binding)
    await _change(client, cluster, API_BINDINGS, export, _bound_to(client, export), "status")


def _bound_to(client: LocalClient, name: str) -> Callable[[Object], None]:
    """A shard serves its own APIs before any controller runs, so their bindings are bound here."""
    export = client.get(clusters.ROOT, API_EXPORTS, name)
    assert export is not None
    bound = []
    for resource in export["spec"]["resources"]:
        schema = client.get(clusters.ROOT, API_RESOURCE_SCHEMAS, resource["schema"])
        assert schema is not None
        bound.append(
            {
                "group": resource["group"],
                "resource": resource["name"],
                "schema": {
                    "name": resource["schema"],
                    "UID": schema["metadata"]["uid"],
                    "identityHash": export["status"]["identityHash"],
                },
                "storageVersions": ["v1alpha1"],
            }
        )
    now = now_rfc3339(time.time())

    def complete(live: Object) -> None:
        status = live.setdefault("status", {})
        status |= {"apiExportClusterName": clusters.ROOT, "boundResources": bound, "phase": "Bound"}
        conditions = status.get("conditions") or []
        for kind in _BOUND_CONDITIONS:
            conditions = with_true(conditions, kind, now)
        status["conditions"] = conditions

    return complete


async def _shard(client: LocalClient, options: RootOptions) -> None:
    urls = options.urls
    shard = {
        "apiVersion": "core.kcp.io/v1alpha1",
        "kind": "Shard",
        "metadata": {"name": options.shard_name, "labels": {"name": options.shard_name}},
        "spec": {
            "baseURL": urls.base,
            "externalURL": urls.external,
            "virtualWorkspaceURL": urls.virtual_workspaces,
        },
    }
    await _put(client, clusters.ROOT, SHARDS, shard)


async def _ensure(
    client: LocalClient, cluster: str, kind: GroupVersionResource, obj: Object
) -> None:
    """Create what is missing; leave what is there."""
    metadata = obj["metadata"]
    if client.get(cluster, kind, metadata["name"], metadata.get("namespace", "")) is not None:
        return
    try:
        await client.create(cluster, kind, codec.copy(obj))
    except AlreadyExists:
        return  # another replica was faster


async def _put(client: LocalClient, cluster: str, kind: GroupVersionResource, obj: Object) -> None:
    """Create it, or make it as it is meant to be; metadata of others and status stay."""
    await _ensure(client, cluster, kind, obj)
    annotations = obj["metadata"].get("annotations") or {}

    def overwrite(live: Object) -> None:
        kept = live["metadata"].get("annotations") or {}
        if CREATE_ONLY in kept:
            return
        if annotations:
            live["metadata"]["annotations"] = {**kept, **annotations}
        for part in ("spec", "rules", "roleRef", "subjects"):
            if part in obj:
                live[part] = codec.copy(obj[part])

    await _change(client, cluster, kind, obj["metadata"]["name"], overwrite)


async def _change(
    client: LocalClient,
    cluster: str,
    kind: GroupVersionResource,
    name: str,
    change: Callable[[Object], None],
    subresource: str = "",
) -> None:
    """Change what is not yet as it should be: most starts find everything in place."""
    live = client.get(cluster, kind, name)
    if live is not None:
        wanted = codec.copy(live)
        change(wanted)
        if wanted == live:
            return
    await client.change(cluster, kind, name, change, subresource=subresource)


def read_identities(path: str) -> dict[str, str]:
    """The file of `--root-identities-file`: which key each export of root is to have."""
    from pykcp.server.yaml_text import parse

    content = parse(pathlib.Path(path).read_bytes())
    return {entry["export"]: entry["identity"] for entry in content.get("identities") or ()}
