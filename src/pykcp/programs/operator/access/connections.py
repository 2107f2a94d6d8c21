"""Clients of an installation, with the certificate of the operator."""

from __future__ import annotations

from pykcp.clients.kubeconfig import KubeconfigServer
from pykcp.clients.remote.client import RemoteClient
from pykcp.clients.remote.connect import client_of
from pykcp.programs.operator import compiled
from pykcp.programs.operator.configuration import trust
from pykcp.programs.operator.configuration.kubeconfigs import KubeconfigTarget
from pykcp.programs.operator.configuration.proxies import (
    proxy_place,
    root_proxy_place,
)
from pykcp.programs.operator.configuration.world import World, name_of, shard_url
from pykcp.programs.operator.names import MANAGER
from pykcp.types import Object

_SECONDS = 15.0


def root_client(world: World, root: Object) -> RemoteClient:
    """A client of the root shard. Raises NotConfigurable."""
    return _client(world, root, shard_url(world, root, compiled.ROOT_SHARD), "kcp-operator")


def shard_client(world: World, shard: Object, root: Object) -> RemoteClient:
    """A client of one shard, with all rights there."""
    return _client(world, root, shard_url(world, shard, compiled.SHARD), "client")


def target_client(world: World, target: KubeconfigTarget) -> RemoteClient:
    """A client of what a Kubeconfig is for.

    Paths of workspaces are resolved by a proxy: the internal one, which drops no groups of the
    administrator, or the FrontProxy itself where there is none.
    """
    url = target.url
    if not target.is_shard:
        platform = world.platform
        if platform.has_internal_proxy:
            url = platform.reached(root_proxy_place(world, target.root)).url
        else:
            url = platform.reached(proxy_place(world, target.obj, target.root)).url
    return _client(world, target.root, url, "kcp-operator")


def installation_client(world: World, root: Object) -> RemoteClient:
    """A client of all workspaces of an installation, whatever a Kubeconfig was for.

    Without an internal proxy and without any FrontProxy it reaches those of the root shard.
    """
    platform = world.platform
    if platform.has_internal_proxy:
        url = platform.reached(root_proxy_place(world, root)).url
        return _client(world, root, url, "kcp-operator")
    for proxy in world.all("FrontProxy"):
        if proxy["spec"]["rootShard"]["ref"]["name"] == name_of(root):
            url = platform.reached(proxy_place(world, proxy, root)).url
            return _client(world, root, url, "kcp-operator")
    return root_client(world, root)


def _client(world: World, root: Object, url: str, kind: str) -> RemoteClient:
    name = f"{name_of(root)}-{kind}"
    endpoint = KubeconfigServer(
        url,
        authority=trust.server_trust(world, root),
        certificate=world.secret(name, "tls.crt", "operator"),
        key=world.secret(name, "tls.key", "operator"),
    )
    return client_of(endpoint, MANAGER, timeout=_SECONDS)
