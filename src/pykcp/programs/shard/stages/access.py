"""The stage of access: which logical clusters there are, who sends a request, who may do what."""

from __future__ import annotations

from dataclasses import dataclass

from pykcp.auth.authn.chain import Authentication
from pykcp.auth.authn.interface import TokenAuthenticator
from pykcp.auth.authz.chain import Authorizer
from pykcp.auth.authz.rbac_chain import RbacChain
from pykcp.auth.authz.role_cache import RoleCache
from pykcp.programs.shard.access import AccessObjects
from pykcp.programs.shard.clusters import ShardClusters
from pykcp.programs.shard.permission_ceiling import PermissionCeiling
from pykcp.programs.shard.stages.catalog import CatalogStage
from pykcp.programs.shard.stages.foundation import BackgroundTask, Foundation
from pykcp.programs.shard.stages.stores import StoresStage


@dataclass(frozen=True, slots=True)
class AccessStage:
    clusters: ShardClusters
    authorizer: Authorizer
    authentication: Authentication
    tasks: tuple[BackgroundTask, ...]


def build_access(base: Foundation, stores: StoresStage, catalog: CatalogStage) -> AccessStage:
    settings, store = base.settings, stores.store
    clusters = ShardClusters(
        store,
        catalog.paths,
        stores.hub,
        settings.shard.shard_name,
        stores.moves,
    )
    external = base.credentials.external_sign_in(catalog.client)
    tokens, tasks = _workspace_tokens(base, catalog)
    objects = AccessObjects(store, stores.cache.replica)
    roles = RoleCache(objects.load)
    objects.follow(roles)
    authorizer = Authorizer(
        RbacChain(roles, PermissionCeiling(store, roles, catalog.bound, catalog.lookup)),
        order=settings.authorization.authorization_order,
        always_allow_paths=settings.authorization.authorization_always_allow_paths,
        webhook=external.authorizer,
    )
    authentication = base.credentials.authentication(
        catalog.client, external, tokens, catalog.peers
    )
    tasks.append(BackgroundTask("sign-in", external.run))
    return AccessStage(clusters, authorizer, authentication, tuple(tasks))


def _workspace_tokens(
    base: Foundation, catalog: CatalogStage
) -> tuple[list[TokenAuthenticator], list[BackgroundTask]]:
    """Issuers that workspace types bring, if that feature is on."""
    if not base.settings.features.feature_gates.get("WorkspaceAuthentication"):
        return [], []
    from pykcp.auth.authn.workspace import WorkspaceTokens
    from pykcp.programs.shard.sign_in.workspaces import StoredConfigurations

    configurations = StoredConfigurations(catalog.lookup, catalog.peers)
    tokens = WorkspaceTokens(
        configurations,
        base.credentials.audiences,
        base.egress.webhooks,
        configurations.prepare if catalog.peers is not None else None,
    )
    return [tokens], [BackgroundTask("workspace-sign-in", tokens.run)]
