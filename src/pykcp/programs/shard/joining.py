"""How a shard belongs to an installation of several: which it trusts, and whom it asks."""

from __future__ import annotations

from dataclasses import replace

from pykcp.clients.credential_files import CredentialError
from pykcp.clients.kubeconfig import KubeconfigServer, load_endpoint
from pykcp.clients.peers import PeerAccess, Peers
from pykcp.programs.shard.options import ShardOptions
from pykcp.registry.lookup import ObjectLookup
from pykcp.registry.shards import KnownShards


def make_peers(options: ShardOptions, lookup: ObjectLookup) -> Peers:
    """The other shards; call it only if `options.has_peers`."""
    shards = KnownShards(lookup)
    return Peers(options.shard_name, peer_access(options), shards.get, shards.all)


def peer_access(options: ShardOptions) -> PeerAccess:
    """The kubeconfigs of the command line, with the shard's own certificate where it has one."""
    root = _root_server(options.root_shard_kubeconfig_file)
    proxy = _server(options.external_logical_cluster_admin_kubeconfig)
    shards = (
        _server(options.shard_kubeconfig_file)
        or _server(options.logical_cluster_admin_kubeconfig)
        or root
        or proxy
    )
    assert shards is not None
    if options.shard_client_cert_file:
        shards = replace(
            shards,
            certificate=b"",
            certificate_file=options.shard_client_cert_file,
            key=b"",
            key_file=options.shard_client_key_file,
            token="",
            token_file="",
        )
    return PeerAccess(shards, root, proxy)


def _root_server(kubeconfig: str) -> KubeconfigServer | None:
    """As in kcp, the context of the shard's administrator, which admin kubeconfigs have."""
    if not kubeconfig:
        return None
    try:
        return load_endpoint(kubeconfig, "shard-base")
    except CredentialError:
        return load_endpoint(kubeconfig)


def _server(kubeconfig: str) -> KubeconfigServer | None:
    return load_endpoint(kubeconfig) if kubeconfig else None
