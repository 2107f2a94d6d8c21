"""Issuers that workspace types bring, fetched from the shards that have the types.

They are kept for some seconds, and for as long as the shard does not answer.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from pykcp.caching import BoundedCache
from pykcp.clients.interface import Reader
from pykcp.clients.peers import Peers
from pykcp.machinery.kcp import clusters
from pykcp.machinery.resources import WORKSPACE_AUTHENTICATION_CONFIGURATIONS, WORKSPACE_TYPES
from pykcp.machinery.status import StatusError
from pykcp.proxy.lookup import RouteLookup, UnknownCluster
from pykcp.proxy.routes import ClusterRoute, RouteTable
from pykcp.types import Object

_log = logging.getLogger(__name__)
_FRESH_SECONDS = 10.0
_TYPES = 1024


class _Fetched(NamedTuple):
    at: float
    configurations: Sequence[Object]


class TypeIssuerConfigurations:
    """What `auth.authn.workspace.WorkspaceTokens` reads."""

    def __init__(
        self,
        table: RouteTable,
        lookup: RouteLookup,
        peers: Peers,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._table, self._lookup, self._peers, self._clock = table, lookup, peers, clock
        self._fetched: BoundedCache[str, _Fetched] = BoundedCache("workspace-type-issuers", _TYPES)

    def type_of(self, cluster: str) -> str:
        """The type of a logical cluster to which a route was found just now."""
        route = self._table.find(cluster)
        return route.type if isinstance(route, ClusterRoute) else ""

    def configurations(self, type_name: str) -> Sequence[Object]:
        fetched = self._fetched.get(type_name)
        return fetched.configurations if fetched is not None else ()

    async def prepare(self, type_name: str) -> None:
        """Fetch the configurations of a type, unless they are fresh."""
        fetched = self._fetched.get(type_name)
        if fetched is not None and self._clock() - fetched.at <= _FRESH_SECONDS:
            return
        try:
            configurations = await self._fetch(type_name)
        except StatusError as error:
            _log.warning("issuers of workspace type %s cannot be read: %s", type_name, error)
            configurations = self.configurations(type_name)
        self._fetched.put(type_name, _Fetched(self._clock(), configurations))

    async def _fetch(self, type_name: str) -> Sequence[Object]:
        """In the order in which the type names them; none if one of them is missing."""
        path, name = clusters.split(type_name)
        if not path:
            return ()
        try:
            route = await self._lookup.find(path)
        except UnknownCluster:
            return ()
        if not route.shard:
            return ()
        client: Reader = self._peers.client(route.shard)
        found = await client.get(route.cluster, WORKSPACE_TYPES, name)
        named = ((found or {}).get("spec") or {}).get("authenticationConfigurations") or ()
        configurations: list[Object] = []
        for each in named:
            kind = WORKSPACE_AUTHENTICATION_CONFIGURATIONS
            configuration = await client.get(route.cluster, kind, each.get("name") or "")
            if configuration is None:
                return ()
            configurations.append(configuration)
        return configurations
