"""The logical cluster `system:shard`, which every shard has for itself.

It binds all exports of root, so that a shard serves kcp's kinds whatever tenants do; it holds
the identities of those exports, and the Shard object by which the others know this shard.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from pykcp.apis import kcp_exports
from pykcp.controllers.apis.binding import BoundSchema, KnownExport, bound_status, names_of
from pykcp.machinery import meta
from pykcp.machinery.kcp import clusters
from pykcp.machinery.meta import now_rfc3339
from pykcp.machinery.resources import (
    API_BINDINGS,
    API_EXPORTS,
    API_RESOURCE_SCHEMAS,
    CONFIG_MAPS,
    LOGICAL_CLUSTERS,
    NAMESPACES,
    SHARDS,
    GroupVersionResource,
)
from pykcp.programs.shard.bootstrap.root_objects import CREATE_ONLY
from pykcp.programs.shard.bootstrap.steps import change, ensure, put
from pykcp.programs.shard.options import ShardOptions
from pykcp.registry.catalog.root_identities import CONFIG_MAP, NAMESPACE
from pykcp.registry.local import LocalClient
from pykcp.types import Object

Find = Callable[[GroupVersionResource, str], Awaitable[Object | None]]
"""Reads an object of `root`, wherever that is."""


@dataclass(frozen=True, slots=True)
class ShardURLs:
    """The addresses that a shard is known by."""

    base: str
    external: str
    virtual_workspaces: str


def shard_urls(options: ShardOptions, address: str) -> ShardURLs:
    """`address`: host and port under which the server is reached."""
    base = options.shard_base_url or f"https://{address}"
    return ShardURLs(
        base,
        options.shard_external_url or base,
        options.shard_virtual_workspace_url or base,
    )


class NoIdentityYet(Exception):
    """An export of root is missing, or has no identity."""


def shard_object(name: str, urls: ShardURLs) -> Object:
    return {
        "apiVersion": "core.kcp.io/v1alpha1",
        "kind": "Shard",
        "metadata": {"name": name, "labels": {"name": name}},
        "spec": {
            "baseURL": urls.base,
            "externalURL": urls.external,
            "virtualWorkspaceURL": urls.virtual_workspaces,
        },
    }


async def bootstrap_shard(client: LocalClient, shard: Object) -> None:
    """What needs nothing of root: a shard has it before it has joined."""
    cluster = clusters.SYSTEM_SHARD
    await asyncio.gather(
        logical_cluster(client, cluster, cluster_object({})),
        ensure(client, cluster, NAMESPACES, namespace_object("default", {CREATE_ONLY: "true"})),
    )
    await put(client, cluster, SHARDS, shard)


async def bind_shard(client: LocalClient, exports: Mapping[str, KnownExport]) -> None:
    """What a shard needs of root: the identities of its exports, and bindings to them."""
    await _keep_identities(client, {name: one.identity for name, one in exports.items()})
    await asyncio.gather(
        *(binding(client, clusters.SYSTEM_SHARD, export) for export in exports.values())
    )


async def _keep_identities(client: LocalClient, identities: Mapping[str, str]) -> None:
    wanted: Object = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": CONFIG_MAP, "namespace": NAMESPACE},
        "data": dict(sorted(identities.items())),
    }
    found = await client.get(clusters.SYSTEM_SHARD, CONFIG_MAPS, CONFIG_MAP, NAMESPACE)
    if found is None:
        await client.create(clusters.SYSTEM_SHARD, CONFIG_MAPS, wanted)
    elif found.get("data") != wanted["data"]:
        await client.update(clusters.SYSTEM_SHARD, CONFIG_MAPS, {**found, "data": wanted["data"]})


async def root_exports(find: Find) -> dict[str, KnownExport]:
    """The exports of root with the schemas that are bound. Raises NoIdentityYet."""
    found = await asyncio.gather(*(_known_export(find, name) for name in kcp_exports.EXPORTS))
    return {export.name: export for export in found if export is not None}


async def _known_export(find: Find, name: str) -> KnownExport | None:
    if name in kcp_exports.ADDED_EXPORTS and await find(API_EXPORTS, name) is None:
        return None
    return await known_export(find, name)


async def known_export(find: Find, name: str) -> KnownExport:
    export = await find(API_EXPORTS, name) or {}
    identity = (export.get("status") or {}).get("identityHash")
    if not identity:
        raise NoIdentityYet(f"the APIExport {name} of root has no identity yet")
    schemas = []
    for resource in kcp_exports.EXPORTS[name]:
        found = await find(API_RESOURCE_SCHEMAS, kcp_exports.schema_name(resource))
        if found is None:
            raise NoIdentityYet(f"the APIResourceSchema of {resource} is not in root")
        schemas.append(_bound_schema(found))
    return KnownExport(clusters.ROOT, name, identity, tuple(schemas))


def _bound_schema(schema: Object) -> BoundSchema:
    spec = schema["spec"]
    return BoundSchema(
        meta.name(schema),
        meta.uid(schema),
        clusters.ROOT,
        spec["group"],
        names_of(spec["names"]),
        tuple(version["name"] for version in spec["versions"] if version["storage"]),
    )


async def binding(client: LocalClient, cluster: str, export: KnownExport) -> None:
    """A cluster's binding to one of root's exports, bound."""
    wanted = {
        "apiVersion": "apis.kcp.io/v1alpha2",
        "kind": "APIBinding",
        "metadata": {"name": export.name},
        "spec": {"reference": {"export": {"path": clusters.ROOT, "name": export.name}}},
    }
    await ensure(client, cluster, API_BINDINGS, wanted)
    status = bound_status(export, now_rfc3339(time.time()))

    def complete(live: Object) -> None:
        found = live.get("status") or {}
        if found.get("boundResources") != status["boundResources"]:
            live["status"] = {**found, **status}

    await change(client, cluster, API_BINDINGS, export.name, complete, "status")


def cluster_object(annotations: Mapping[str, str]) -> Object:
    metadata: Object = {"name": "cluster"}
    if annotations:
        metadata["annotations"] = dict(annotations)
    return {
        "apiVersion": "core.kcp.io/v1alpha1",
        "kind": "LogicalCluster",
        "metadata": metadata,
        "spec": {},
    }


async def logical_cluster(client: LocalClient, cluster: str, obj: Object) -> None:
    """There, and at least Initializing: its controller makes it ready."""
    await ensure(client, cluster, LOGICAL_CLUSTERS, obj)

    def initialize(live: Object) -> None:
        status = live.setdefault("status", {})
        if status.get("phase") in (None, "", "Scheduling"):
            status["phase"] = "Initializing"

    await change(client, cluster, LOGICAL_CLUSTERS, "cluster", initialize, "status")


def namespace_object(name: str, annotations: Mapping[str, str] | None = None) -> Object:
    metadata: Object = {"name": name}
    if annotations:
        metadata["annotations"] = dict(annotations)
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
