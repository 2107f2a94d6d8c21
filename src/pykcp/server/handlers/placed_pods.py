"""Pods of a workspace that run in clusters behind it: read there when they are asked for.

They are not stored. A list asks the clusters of the workspace and joins their answers with what is
stored; logs, commands and ports are carried to the cluster that runs the pod. The workspace has
authorized the request; the cluster is asked with the credentials of its registration.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Coroutine, Sequence
from dataclasses import replace
from typing import Any, Protocol

import orjson

from pykcp.aio.resting import rest
from pykcp.apis.kube.workloads.definition import STREAMED
from pykcp.auth.authn.bearer import without_token_protocol
from pykcp.clients.errors import SendFailed
from pykcp.clients.forwarder import Forwarder, Onward
from pykcp.clients.outbound import Tenant
from pykcp.machinery.status import NotFound, ServiceUnavailable, StatusError
from pykcp.registry.verbs.read import Listing, Pager
from pykcp.server.call import Call, Handler
from pykcp.server.forwarding import sent_headers, without
from pykcp.server.handlers import get, listing, placed_watch
from pykcp.server.handlers.placed_position import PodPosition
from pykcp.server.handlers.placed_watch import WatchedCluster
from pykcp.server.media.answers import send_object
from pykcp.server.media.bodies import body_of
from pykcp.types import Object
from pykcp.wire.exchange import Header, IncomingRequest

_SECRET_HEADERS = ("x-remote-", "impersonate-", "authorization", "cookie", "host")
_PROTOCOLS = "sec-websocket-protocol"
_PART = 100
"""Pods of clusters that are worked on at a time."""


class PodCluster(WatchedCluster, Protocol):
    """The same, with the verbs on single pods."""

    async def pod(self, namespace: str, name: str) -> Object | None:
        """One of them. Raises StatusError."""

    async def delete(self, namespace: str, name: str, options: bytes) -> Object:
        """Delete one of them; what the cluster answered. Raises StatusError."""

    def url(self, namespace: str, name: str, subresource: str, query: str) -> str:
        """Where the cluster answers for a subresource."""

    def headers(self) -> list[Header]:
        """The credentials for the cluster."""

    @property
    def forwarder(self) -> Forwarder: ...


class PodClusters(Protocol):
    async def reach(self, cluster: str) -> Sequence[PodCluster]:
        """Those that this server can connect to."""


class _JoinedPods:
    """Stored pods, and after them those of clusters in the order of their names."""

    def __init__(
        self,
        call: Call,
        first: Listing,
        pager: Pager,
        found: Sequence[Sequence[Object]],
        version: str,
    ) -> None:
        """`first`: the first page of the pager; `found`: what each cluster answered."""
        self._call, self._pager, self._version = call, pager, version
        self._page: Listing | None = first
        self._last = first
        self._stored: set[tuple[str, str]] = set()
        # Clusters may have tens of thousands of pods, which are not sorted in one go.
        parts = (pods[n : n + _PART] for pods in found for n in range(0, len(pods), _PART))
        self._placed = heapq.merge(*(sorted(part, key=_name_of) for part in parts), key=_name_of)
        self._next = next(self._placed, None)

    @property
    def is_done(self) -> bool:
        return self._page is None and self._pager.is_done and self._next is None

    async def next(self) -> Listing:
        await rest()
        page = self._page
        if page is None and not self._pager.is_done:
            page = await self._pager.next()
        self._page = None
        if page is None:
            return replace(self._last, values=self._placed_values(), version=self._version)
        for value in page.values:
            self._stored.add(_name_of(self._call.shown.object_of(value)))
        self._last = page
        return replace(page, version=self._version)

    def _placed_values(self) -> list[bytes]:
        values: list[bytes] = []
        while self._next is not None and len(values) < _PART:
            if _name_of(self._next) not in self._stored:
                values.append(orjson.dumps(self._next))
            self._next = next(self._placed, None)
        return values


def _name_of(pod: Object) -> tuple[str, str]:
    metadata = pod["metadata"]
    return metadata.get("namespace") or "", metadata["name"]


class PlacedPods:
    def __init__(self, clusters: PodClusters) -> None:
        self._clusters = clusters

    def find(self, call: Call) -> Handler | None:
        """The handler of a request for pods in a workspace with clusters; None if they are stored."""
        info = call.info
        if info.subresource:
            return self._stream if info.subresource in STREAMED else None
        if info.verb == "get":
            return self._get
        if info.verb == "delete":
            return self._delete
        if info.verb == "list" and not info.param("continue"):
            return self._list
        return self._watch if info.verb == "watch" else None

    # --- reading

    async def _watch(self, call: Call) -> None:
        await placed_watch.watch(call, await self._clusters.reach(call.cluster))

    async def _get(self, call: Call) -> None:
        placed_watch.take_position(call)
        if self._is_stored(call):
            await _finish(get.get(call))
            return
        _, pod = await self._found(call)
        send_object(call, get.transformed(call, pod) if call.accepted.transform else pod)

    async def _list(self, call: Call) -> None:
        placed_watch.take_position(call)
        options = listing.list_options(call)
        pager = Pager(call.resource, call.context, call.info.namespace, options)
        first = await pager.next()
        clusters = await self._clusters.reach(call.cluster)
        position = PodPosition(first.revision)
        found = await asyncio.gather(*(self._of(call, one, position) for one in clusters))
        await listing.send_list(call, _JoinedPods(call, first, pager, found, str(position)))

    async def _of(self, call: Call, cluster: PodCluster, position: PodPosition) -> list[Object]:
        """Those of one cluster; one that does not answer costs a warning, not the others."""
        info = call.info
        try:
            pods, version = await cluster.pods(
                info.namespace, info.param("labelSelector"), info.param("fieldSelector")
            )
        except StatusError as error:
            call.context.warn(f"pods in cluster {cluster.name} cannot be read: {error.message}")
            return []
        position.clusters[cluster.key] = version
        return pods

    def _is_stored(self, call: Call) -> bool:
        info = call.info
        key = call.resource.key(call.cluster, info.namespace, info.name)
        return call.resource.services.store.get(key) is not None

    async def _found(self, call: Call) -> tuple[PodCluster, Object]:
        """The pod and the cluster that runs it. Raises NotFound."""
        info = call.info
        clusters = await self._clusters.reach(call.cluster)
        answers = await asyncio.gather(
            *(one.pod(info.namespace, info.name) for one in clusters), return_exceptions=True
        )
        failure: StatusError | None = None
        for cluster, pod in zip(clusters, answers, strict=True):
            if isinstance(pod, dict):
                return cluster, pod
            if isinstance(pod, StatusError):
                failure = pod
            elif isinstance(pod, BaseException):
                raise pod
        if failure is not None:  # it may run where the question was not answered
            raise ServiceUnavailable(f"a cluster does not answer: {failure.message}")
        raise NotFound.resource("", "pods", info.name)

    # --- changing

    async def _delete(self, call: Call) -> None:
        if self._is_stored(call):
            from pykcp.server.handlers import delete

            await _finish(delete.delete(call))
            return
        cluster, _ = await self._found(call)
        info = call.info
        send_object(call, await cluster.delete(info.namespace, info.name, body_of(call)))

    # --- logs, commands, ports

    async def _stream(self, call: Call) -> None:
        cluster, _ = await self._found(call)
        info, request = call.info, call.exchange.request
        url = cluster.url(info.namespace, info.name, info.subresource, request.query)
        headers = [*_passed(request), *cluster.headers()]
        onward = Onward(url, headers, Tenant(call.cluster))
        try:
            await cluster.forwarder.forward(call.exchange, onward)
        except (SendFailed, TimeoutError) as error:
            if call.exchange.responded:
                raise
            raise ServiceUnavailable(f"cluster {cluster.name} does not answer: {error}") from error


def _passed(request: IncomingRequest) -> list[Header]:
    """What the client sent, without its credentials and identity."""
    headers = without(sent_headers(request), _PROTOCOLS, *_SECRET_HEADERS)
    offered = without_token_protocol(",".join(request.header_all(_PROTOCOLS)))
    return [*headers, (_PROTOCOLS, offered)] if offered else headers


async def _finish(pending: Coroutine[Any, Any, None] | None) -> None:
    if pending is not None:
        await pending
