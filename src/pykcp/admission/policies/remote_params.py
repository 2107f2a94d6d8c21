"""Parameters of policies of an API provider on another shard.

Policies themselves are published, their parameters can be of any kind: they are read from the
shard of the provider. They are kept for some seconds, and for as long as that shard does not
answer.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from pykcp.admission.policies.policy import ParamKind
from pykcp.aio.slices import in_slices
from pykcp.caching import BoundedCache
from pykcp.machinery import meta
from pykcp.machinery.labels import from_label_selector_in_steps
from pykcp.machinery.resources import API_EXPORTS, LOGICAL_CLUSTERS, GroupVersionResource
from pykcp.machinery.status import NotFound, ServiceUnavailable
from pykcp.registry import codec
from pykcp.registry.keys import kind_prefix, object_key
from pykcp.registry.lookup import Replica
from pykcp.registry.stored import StoreReader
from pykcp.types import Object

if TYPE_CHECKING:
    from pykcp.clients.peers import Peers
    from pykcp.clients.remote.client import RemoteClient

FRESH_SECONDS = 5.0
_SHARD_ANNOTATION = "kcp.io/shard"
_KEEP = 1024
_LOGICAL_CLUSTERS = kind_prefix(LOGICAL_CLUSTERS)


class _Fetched(NamedTuple):
    at: float
    value: Any


class RemoteParams:
    def __init__(
        self,
        store: StoreReader,
        replica: Replica | None,
        peers: Peers,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`replica`: what other shards publish."""
        self._store, self._replica, self._peers, self._clock = store, replica, peers, clock
        self._fetched: BoundedCache[tuple[str, ...], _Fetched] = BoundedCache(
            "remote-parameters", _KEEP
        )

    def shard_of(self, cluster: str) -> str:
        """The shard of a provider; "" if it is this one."""
        is_here = self._store.get(object_key(_LOGICAL_CLUSTERS, cluster, "", "cluster")) is not None
        if is_here or self._replica is None:
            return ""
        published = next(iter(self._replica.all(API_EXPORTS, cluster)), None)
        return meta.annotation(published, _SHARD_ANNOTATION) if published is not None else ""

    async def source(self, shard: str, cluster: str, wanted: ParamKind) -> RemoteSource | None:
        """None if the logical cluster does not serve the kind. Raises ServiceUnavailable."""
        group, _, version = wanted.api_version.rpartition("/")
        place = f"apis/{group}/{version}" if group else f"api/{version}"
        target = f"/clusters/{cluster}/{place}"

        async def ask() -> Object:
            try:
                return await self._peers.client(shard).send("GET", target)
            except NotFound:
                return {}

        found = await self.kept((cluster, target), ask)
        for one in found.get("resources") or ():
            if one.get("kind") == wanted.kind and "/" not in one["name"]:
                kind = GroupVersionResource(group, version, one["name"])
                return RemoteSource(self, shard, cluster, kind, bool(one.get("namespaced")))
        return None

    def client(self, shard: str) -> RemoteClient:
        return self._peers.client(shard)

    async def kept(self, key: tuple[str, ...], ask: Callable[[], Awaitable[Any]]) -> Any:
        """What `ask` returns, or returned some seconds ago."""
        known = self._fetched.get(key)
        if known is not None and self._clock() - known.at < FRESH_SECONDS:
            return known.value
        try:
            value = await ask()
        except ServiceUnavailable:
            if known is None:
                raise
            return known.value  # better what was there before than no decision
        self._fetched.put(key, _Fetched(self._clock(), value))
        return value


@dataclass(frozen=True, slots=True)
class RemoteSource:
    """Parameters of one kind in a logical cluster of another shard."""

    params: RemoteParams
    shard: str
    cluster: str
    kind: GroupVersionResource
    namespaced: bool

    async def get(self, namespace: str, name: str) -> list[Object]:
        async def ask() -> list[Object]:
            client = self.params.client(self.shard)
            found = await client.get(self.cluster, self.kind, name, namespace)
            return [] if found is None else [_shown(found)]

        return await self._kept(namespace, f"name={name}", ask)

    async def select(self, namespace: str, selector: Object) -> list[Object]:
        """Raises SelectorError."""
        parsed = await in_slices(from_label_selector_in_steps(selector), self.cluster)
        labels = str(parsed)

        async def ask() -> list[Object]:
            client = self.params.client(self.shard)
            found = await client.list(self.cluster, self.kind, namespace, labels=labels)
            return [_shown(one) for one in found]

        return await self._kept(namespace, f"labels={labels}", ask)

    async def _kept(
        self, namespace: str, which: str, ask: Callable[[], Awaitable[list[Object]]]
    ) -> list[Object]:
        found = await self.params.kept((self.cluster, *self.kind, namespace, which), ask)
        return [codec.copy(one) for one in found]


def _shown(obj: Object) -> Object:
    codec.strip_cluster(obj)
    return obj
