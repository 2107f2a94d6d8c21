"""How a shard joins an installation of several.

A shard that is not the root shard needs two things of root: the identities of its exports, and to
be known there. Neither is needed to start: `Joining` goes on in the background until root
answers, and a shard that has joined before has all it needs in its own store.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from functools import partial

from pykcp.apis.kcp.shard_load import REGISTERED
from pykcp.clients.credential_files import CredentialError
from pykcp.clients.kubeconfig import KubeconfigServer, load_endpoint
from pykcp.clients.peers import PeerAccess, Peers
from pykcp.machinery.kcp.clusters import ROOT, SYSTEM_SHARD
from pykcp.machinery.resources import API_EXPORTS, SHARDS, GroupVersionResource
from pykcp.machinery.status import AlreadyExists, StatusError
from pykcp.programs.shard.bootstrap.own_cluster import NoIdentityYet, bind_shard, root_exports
from pykcp.programs.shard.options import ShardOptions
from pykcp.registry.local import LocalClient
from pykcp.registry.lookup import ObjectLookup
from pykcp.registry.shards import KnownShards
from pykcp.types import Object

_log = logging.getLogger(__name__)
_FIRST_PAUSE, _LAST_PAUSE = 0.1, 2.0
_IS_REGISTERED: Object = {"metadata": {"annotations": {REGISTERED: "true"}}}


def make_peers(options: ShardOptions, lookup: ObjectLookup) -> Peers:
    """The other shards; call it only if `options.has_peers`."""
    shards = KnownShards(lookup)
    name = options.shard_name
    return Peers(name, peer_access(options), shards.get, shards.all, manager=name)


def peer_access(options: ShardOptions) -> PeerAccess:
    """The kubeconfigs of the command line, with the shard's own certificate where it has one."""
    root = _root_server(options.root_shard_kubeconfig_file)
    shards = (
        _server(options.shard_kubeconfig_file)
        or _server(options.logical_cluster_admin_kubeconfig)
        or root
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
    return PeerAccess(shards, root)


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


class Joining:
    """Makes the shard one of root's; `run` it."""

    def __init__(
        self, peers: Peers, client: LocalClient, lookup: ObjectLookup, shard: Object
    ) -> None:
        """`shard`: the Shard object that root shall have."""
        self._peers, self._client, self._lookup, self._shard = peers, client, lookup, shard
        self._is_due = asyncio.Event()
        self._is_known = False
        if lookup.replica is not None:
            lookup.replica.listen(self._follow)

    def _follow(self, kind: tuple[str, str], cluster: str) -> None:
        if cluster == ROOT and kind == (API_EXPORTS.group, API_EXPORTS.resource):
            self._is_due.set()

    async def run(self) -> None:
        """Until cancelled: join, and follow root's exports whenever they change.

        The shard registers itself once: if somebody deletes its Shard object, it stays deleted.
        """
        while True:
            self._is_due.clear()
            await self._join()
            await self._is_due.wait()

    async def _join(self) -> None:
        pause = _FIRST_PAUSE
        is_bound = False
        while True:
            try:
                is_bound = is_bound or await self._bind()
                self._is_known = self._is_known or await self._register()
            except (StatusError, NoIdentityYet) as error:
                if pause == _FIRST_PAUSE:
                    _log.warning("root cannot be joined now, trying again: %s", error)
            else:
                _log.info("the shard has joined root")
                return
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LAST_PAUSE)

    async def _bind(self) -> bool:
        """Use root's exports, as root has them, or as the cache does while root is away."""
        try:
            exports = await root_exports(partial(self._peers.root().get, ROOT))
        except StatusError:
            try:
                exports = await root_exports(self._find_replicated)
            except NoIdentityYet:
                exports = {}
            if not exports:
                raise
        await bind_shard(self._client, exports)
        return True

    async def _find_replicated(self, kind: GroupVersionResource, name: str) -> Object | None:
        return self._lookup.get(kind, ROOT, name)

    async def _register(self) -> bool:
        """Create or correct the Shard object in root. Labels and annotations are root's."""
        root, name = self._peers.root(), self._shard["metadata"]["name"]
        found = await root.get(ROOT, SHARDS, name)
        if found is None:
            try:
                await root.create(ROOT, SHARDS, self._shard)
            except AlreadyExists:
                return await self._register()
        elif found.get("spec") != self._shard["spec"]:
            await root.patch(ROOT, SHARDS, name, {"spec": self._shard["spec"]})
        await self._client.patch(SYSTEM_SHARD, SHARDS, name, _IS_REGISTERED)
        return True
