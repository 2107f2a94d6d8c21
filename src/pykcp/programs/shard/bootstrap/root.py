"""The logical cluster `root`, on the root shard: kcp's own APIs and who may use them.

`root` exports kcp's kinds and holds the standard workspace types. Everything is the same on every
start: schemas are immutable; exports, types and roles are restored to their desired state,
unless the object has the annotation `bootstrap.kcp.io/create-only`.
"""

from __future__ import annotations

import asyncio
import pathlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from pykcp.apis import kcp_exports
from pykcp.apis.kcp.logical_clusters import OWNER_ANNOTATION, TYPE_ANNOTATION
from pykcp.controllers.apis import identity_secrets
from pykcp.machinery.kcp import clusters
from pykcp.machinery.resources import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    NAMESPACES,
    SECRETS,
    SERVICE_ACCOUNTS,
    SHARDS,
    WORKSPACE_TYPES,
)
from pykcp.machinery.status import BadRequest
from pykcp.programs.kit.errors import SettingsError
from pykcp.programs.shard.bootstrap import exports as export_steps
from pykcp.programs.shard.bootstrap import root_objects
from pykcp.programs.shard.bootstrap.own_cluster import (
    ShardURLs,
    bind_shard,
    binding,
    bootstrap_shard,
    cluster_object,
    logical_cluster,
    namespace_object,
    root_exports,
    shard_object,
    shard_urls,
)
from pykcp.programs.shard.bootstrap.root_objects import BOOTSTRAPPER, CREATE_ONLY
from pykcp.programs.shard.bootstrap.steps import ensure, put
from pykcp.programs.shard.settings import ShardSettings
from pykcp.registry.local import LocalClient
from pykcp.types import Object

_ROOT_BINDINGS = ("shards.core.kcp.io", "tenancy.kcp.io", "topology.kcp.io")


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
    gates = frozenset(name for name, is_on in settings.features.feature_gates.items() if is_on)
    given = settings.shard.root_identities_file
    return RootOptions(
        settings.shard.shard_name,
        shard_urls(settings.shard, address),
        settings.generic.batteries,
        settings.tenancy.home_creator_groups,
        gates,
        read_identities(given) if given else None,
    )


async def bootstrap_root(client: LocalClient, options: RootOptions) -> None:
    root = clusters.ROOT
    shard = shard_object(options.shard_name, options.urls)
    await asyncio.gather(
        logical_cluster(client, root, _root_cluster()),
        bootstrap_shard(client, shard),
        ensure(client, root, NAMESPACES, namespace_object("default", {CREATE_ONLY: "true"})),
        ensure(client, root, NAMESPACES, namespace_object(identity_secrets.NAMESPACE)),
        *(export_steps.schema(client, name) for name in kcp_exports.resource_names()),
    )
    await export_steps.exports(client, options.identities or {})
    exports = await root_exports(partial(client.get, root))
    in_root = list(_ROOT_BINDINGS)
    if "CacheAPIs" in options.feature_gates:
        in_root.append("cache.kcp.io")
    await asyncio.gather(
        *(binding(client, root, exports[name]) for name in in_root),
        bind_shard(client, exports),
        *(put(client, root, CLUSTER_ROLES, role) for role in root_objects.cluster_roles()),
        *(
            put(client, root, CLUSTER_ROLE_BINDINGS, granted)
            for granted in root_objects.cluster_role_bindings(options.home_creators)
        ),
    )
    if "metrics-viewer" in options.batteries:
        await _metrics_viewer(client)
    await asyncio.gather(
        put(client, root, SHARDS, shard),
        *(
            put(client, root, WORKSPACE_TYPES, kind)
            for kind in root_objects.workspace_types(options.batteries)
        ),
    )


async def _metrics_viewer(client: LocalClient) -> None:
    """An account that may read the metrics of the shard, with a token that does not end."""
    root = clusters.ROOT
    for obj in root_objects.metrics_viewer_access():
        kind = CLUSTER_ROLES if obj["kind"] == "ClusterRole" else CLUSTER_ROLE_BINDINGS
        await put(client, root, kind, obj)
    await ensure(client, root, SERVICE_ACCOUNTS, root_objects.metrics_viewer_account())
    await ensure(client, root, SECRETS, root_objects.metrics_viewer_secret())


def _root_cluster() -> Object:
    return cluster_object(
        {
            TYPE_ANNOTATION: "root:root",
            OWNER_ANNOTATION: f'{{"username":"{BOOTSTRAPPER}"}}',
        }
    )


def read_identities(path: str) -> dict[str, str]:
    """The file of `--root-identities-file`: which key each export of root is to have."""
    from pykcp.server.media.yaml_text import parse

    try:
        content = parse(pathlib.Path(path).read_bytes())
        return {entry["export"]: entry["identity"] for entry in content["identities"]}
    except (KeyError, TypeError, ValueError, BadRequest) as error:
        raise SettingsError(
            f"--root-identities-file: {path} must have identities, a list of export and identity"
        ) from error
