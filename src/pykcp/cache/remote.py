"""A client of a cache server: the verbs of a remote client, with shards in its paths."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, TypeVar

from pykcp.cache.scopes import SERVICE, join, split
from pykcp.clients.credential_files import CredentialError
from pykcp.clients.errors import SendFailed
from pykcp.clients.kubeconfig import load_endpoint
from pykcp.clients.remote.client import RemoteClient
from pykcp.clients.remote.connect import http_of, token_of
from pykcp.clients.remote.informer import Informer, ObjectHolder
from pykcp.clients.remote.paths import collection_path, object_path
from pykcp.machinery.kcp.clusters import WILDCARD
from pykcp.machinery.resources import GroupVersionResource
from pykcp.machinery.status import NotFound
from pykcp.wire.settings import WITHIN_INSTALLATION

_log = logging.getLogger(__name__)
EVERYTHING = join(WILDCARD, WILDCARD)
"""All logical clusters of all shards."""
_CORE = "core"
_FIRST_PAUSE, _LAST_PAUSE = 0.1, 2.0


class CacheServerClient(RemoteClient):
    """Clusters are joined names of shard and cluster (`scopes.join`)."""

    def collection(self, cluster: str, kind: GroupVersionResource, namespace: str = "") -> str:
        shard, inner = _places(cluster)
        return f"{SERVICE}/shards/{shard}{collection_path(inner, _named(kind), namespace)}"

    def object(
        self,
        cluster: str,
        kind: GroupVersionResource,
        name: str,
        namespace: str = "",
        subresource: str = "",
    ) -> str:
        shard, inner = _places(cluster)
        path = object_path(inner, _named(kind), name, namespace, subresource)
        return f"{SERVICE}/shards/{shard}{path}"

    async def get_text(self, cluster: str, kind: GroupVersionResource, name: str) -> bytes | None:
        """An object as the server sends it; None if there is none."""
        try:
            return await self.document(self.object(cluster, kind, name))
        except NotFound as error:
            if error.name:
                return None
            raise  # the kind is not served

    async def write_text(
        self, cluster: str, kind: GroupVersionResource, name: str, text: bytes
    ) -> None:
        """Update the object of this name, or create one if it is empty; the answer is not decoded."""
        if name:
            await self._write_text("PUT", self.object(cluster, kind, name), text)
        else:
            await self._write_text("POST", self.collection(cluster, kind), text)


def _places(joined: str) -> tuple[str, str]:
    return (WILDCARD, WILDCARD) if joined == EVERYTHING else split(joined)


def _named(kind: GroupVersionResource) -> GroupVersionResource:
    """The group without a name is called `core` in a cache server."""
    return kind if kind.group else kind._replace(group=_CORE)


def connect_cache(kubeconfig: str, manager: str) -> CacheServerClient:
    """A client with the address and credentials of a kubeconfig. Raises CredentialError."""
    endpoint = load_endpoint(kubeconfig)
    try:
        http = http_of(endpoint, settings=WITHIN_INSTALLATION)
        return CacheServerClient(http, manager, token=token_of(endpoint))
    except CredentialError as error:
        raise CredentialError(f"{kubeconfig}: {error}") from None


Holder = TypeVar("Holder", bound=ObjectHolder)


class Reconnection:
    """How the followers of an unreachable cache server wait: one of them asks whether it is back."""

    def __init__(
        self, client: CacheServerClient, sleep: Callable[[float], Any] = asyncio.sleep
    ) -> None:
        self._client, self._sleep = client, sleep
        self._back: asyncio.Future[None] | None = None

    @property
    def is_waiting(self) -> bool:
        """Whether the server is known to be away."""
        return self._back is not None

    async def wait(self, failure: SendFailed) -> None:
        """Return when the server is ready."""
        if self._back is not None:
            await asyncio.shield(self._back)
            return
        self._back = asyncio.get_running_loop().create_future()
        _log.warning("the cache server cannot be reached: %s", failure)
        try:
            await self._probe()
            _log.info("the cache server can be reached again")
        finally:
            self._back.set_result(None)
            self._back = None

    async def _probe(self) -> None:
        pause = _FIRST_PAUSE
        while True:
            await self._sleep(pause)
            pause = min(2 * pause, _LAST_PAUSE)
            try:
                response = await self._client.http.request("GET", "/readyz", self._client.headers())
                await response.read(1 << 16)
            except SendFailed:
                continue
            if response.status < 500:
                return


class CacheFollower(Informer[Holder]):
    """An informer for one resource of all shards; it shares the wait for the server with others."""

    is_history_kept = False

    def __init__(
        self,
        client: CacheServerClient,
        kind: GroupVersionResource,
        held: Holder,
        reconnection: Reconnection,
        on_return: Callable[[], None] | None = None,
    ) -> None:
        """`on_return`: called when the server can be reached, at first and after it was away."""
        super().__init__(client, kind, held, EVERYTHING)
        self._reconnection, self._on_return = reconnection, on_return
        self._was_away = True

    def report(self, error: Exception) -> None:
        if not isinstance(error, SendFailed):  # those are logged once, not for every resource
            super().report(error)

    async def rest(self, seconds: float, failure: Exception | None) -> None:
        if isinstance(failure, SendFailed):
            self._was_away = True
            await self._reconnection.wait(failure)
            self.begin_anew()
        else:
            await super().rest(seconds, failure)

    def connected(self) -> None:
        if self._was_away and self._on_return is not None:
            self._on_return()
        self._was_away = False
