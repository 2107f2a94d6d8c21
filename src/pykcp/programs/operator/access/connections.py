"""Clients of an installation, with the certificate of the operator."""

from __future__ import annotations

from pykcp.clients.kubeconfig import KubeconfigServer
from pykcp.clients.remote.client import RemoteClient
from pykcp.clients.remote.connect import client_of
from pykcp.programs.operator import compiled
from pykcp.programs.operator.configuration import trust
from pykcp.programs.operator.configuration.kubeconfigs import KubeconfigTarget
from pykcp.programs.operator.configuration.proxies import (
    proxy_address,
    proxy_place,
    root_proxy_place,
)
from pykcp.programs.operator.configuration.world import World, at, name_of, shard_url
from pykcp.programs.operator.names import MANAGER
from pykcp.types import Object

_SECONDS = 15.0
_ROOT = "root"


def root_client(world: World, root: Object) -> RemoteClient:
    """A client of the root shard. Raises NotConfigurable."""
    return _client(world, root, shard_url(world, root, compiled.ROOT_SHARD), "kcp-operator")


def shard_client(world: World, shard: Object, root: Object) -> RemoteClient:
    """A client of one shard, with all rights there."""
    return _client(world, root, shard_url(world, shard, compiled.SHARD), "client")


def target_client(world: World, target: KubeconfigTarget, cluster: str = "") -> RemoteClient:
    """A client of what a Kubeconfig is for; `cluster`: the workspace that is meant.

    Paths of workspaces are resolved by a proxy: the internal one, which drops no groups of the
    administrator, or the FrontProxy itself where there is none. `root` needs no proxy.
    """
    if target.is_shard:
        return _client(world, target.root, target.url, "kcp-operator")
    if world.platform.has_internal_proxy:
        return _internal_client(world, target.root)
    if cluster == _ROOT:
        return root_client(world, target.root)
    return _proxy_client(world, target.root, target.obj)


def installation_client(world: World, root: Object, cluster: str = "") -> RemoteClient:
    """A client of all workspaces of an installation, whatever a Kubeconfig was for.

    Without an internal proxy and without any FrontProxy it reaches those of the root shard.
    """
    if world.platform.has_internal_proxy:
        return _internal_client(world, root)
    for proxy in world.all("FrontProxy") if cluster != _ROOT else ():
        if proxy["spec"]["rootShard"]["ref"]["name"] == name_of(root):
            return _proxy_client(world, root, proxy)
    return root_client(world, root)


def _internal_client(world: World, root: Object) -> RemoteClient:
    url = world.platform.reached(root_proxy_place(world, root)).url
    return _client(world, root, url, "kcp-operator")


def _proxy_client(world: World, root: Object, proxy: Object) -> RemoteClient:
    """It may serve a certificate of another authority, for the name that users enter."""
    place = proxy_place(world, proxy, root)
    url, host = world.platform.reached(place).url, proxy_address(proxy, root).host
    given = at(proxy, "caBundleSecretRef.name")
    bundle = world.secret(given, "tls.crt", "caBundleSecretRef") if given else b""
    return _client(world, root, url, "kcp-operator", bundle, host)


def _client(
    world: World,
    root: Object,
    url: str,
    kind: str,
    more_authorities: bytes = b"",
    server_name: str = "",
) -> RemoteClient:
    name = f"{name_of(root)}-{kind}"
    endpoint = KubeconfigServer(
        url,
        authority=trust.server_trust(world, root) + b"\n" + more_authorities,
        server_name=server_name,
        certificate=world.secret(name, "tls.crt", "operator"),
        key=world.secret(name, "tls.key", "operator"),
    )
    return client_of(endpoint, MANAGER, timeout=_SECONDS)
