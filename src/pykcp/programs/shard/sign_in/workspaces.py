"""Authentication configurations of workspace types, read from the objects of the shard.

The configurations of a type on another shard are fetched from there. They are kept for a minute,
and for as long as that shard does not answer.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from pykcp.apis.kcp.logical_clusters import TYPE_ANNOTATION
from pykcp.apis.kcp.workspace_types import cluster_of
from pykcp.caching import BoundedCache
from pykcp.machinery import meta
from pykcp.machinery.kcp import clusters
from pykcp.machinery.resources import WORKSPACE_AUTHENTICATION_CONFIGURATIONS, WORKSPACE_TYPES
from pykcp.machinery.status import StatusError
from pykcp.registry.lookup import ObjectLookup
from pykcp.types import Object

if TYPE_CHECKING:
    from pykcp.clients.peers import Peers

_log = logging.getLogger(__name__)
_SHARD_ANNOTATION = "kcp.io/shard"
_FRESH_SECONDS = 60.0
_KEEP = 1024


class _Fetched(NamedTuple):
    at: float
    configuration: Object | None


class StoredConfigurations:
    """Reads them each time: what is looked up is in memory if it was looked up before."""

    def __init__(
        self,
        lookup: ObjectLookup,
        peers: Peers | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._lookup, self._peers, self._clock = lookup, peers, clock
        self._fetched: BoundedCache[tuple[str, str], _Fetched] = BoundedCache(
            "remote-authentication", _KEEP
        )
        """Of types on other shards, by logical cluster and name."""

    def type_of(self, cluster: str) -> str:
        """The qualified name of a workspace's type; "" if it has none."""
        found = self._lookup.logical_cluster(cluster)
        annotations = (found["metadata"].get("annotations") or {}) if found else {}
        name: str = annotations.get(TYPE_ANNOTATION, "")
        return name

    def configurations(self, type_name: str) -> Sequence[Object]:
        """The configurations that a type references, in order; none if one of them is missing."""
        found = self._type(type_name)
        if found is None:
            return ()
        configurations: list[Object] = []
        for name in _names(found):
            configuration = self._configuration(cluster_of(found), name)
            if configuration is None:
                return ()
            configurations.append(configuration)
        return configurations

    def _type(self, type_name: str) -> Object | None:
        path, name = clusters.split(type_name)
        return self._lookup.find(WORKSPACE_TYPES, path, name) if path else None

    def _configuration(self, cluster: str, name: str) -> Object | None:
        found = self._lookup.get(WORKSPACE_AUTHENTICATION_CONFIGURATIONS, cluster, name)
        if found is None:
            fetched = self._fetched.get((cluster, name))
            found = fetched.configuration if fetched is not None else None
        return found

    async def prepare(self, type_name: str) -> None:
        """Fetch the configurations of a type on another shard, unless they are fresh."""
        found = self._type(type_name)
        shard = meta.annotation(found, _SHARD_ANNOTATION) if found is not None else ""
        if found is None or not shard:
            return
        cluster = cluster_of(found)
        for name in _names(found):
            fetched = self._fetched.get((cluster, name))
            if fetched is None or self._clock() - fetched.at > _FRESH_SECONDS:
                await self._fetch(shard, cluster, name)

    async def _fetch(self, shard: str, cluster: str, name: str) -> None:
        if self._peers is None:
            return
        try:
            configuration = await self._peers.client(shard).get(
                cluster, WORKSPACE_AUTHENTICATION_CONFIGURATIONS, name
            )
        except StatusError as error:
            _log.warning("configurations of issuers cannot be read from shard %s: %s", shard, error)
            return
        self._fetched.put((cluster, name), _Fetched(self._clock(), configuration))


def _names(workspace_type: Object) -> list[str]:
    named = (workspace_type.get("spec") or {}).get("authenticationConfigurations") or ()
    return [each.get("name") or "" for each in named]
