"""Watches of the pods of one cluster: in one namespace, or in all that stand for a workspace.

Each namespace is watched by itself: the cluster has pods of others, too. The version that is told
is one from which nothing is missed; with several namespaces some events may be told again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import msgspec
import orjson

from pykcp.aio.owner import spawn
from pykcp.clients.errors import SendFailed
from pykcp.clients.remote.errors import error_of, error_of_status
from pykcp.clients.remote.informer import lines
from pykcp.clients.remote.paths import with_query
from pykcp.machinery.resources import NAMESPACES, GroupVersionResource
from pykcp.machinery.status import ServiceUnavailable, StatusError
from pykcp.multicluster.clusters.connection import ClusterClient
from pykcp.types import Object

PODS = GroupVersionResource("", "v1", "pods")
BOOKMARK = "BOOKMARK"
_WATCH_SECONDS = 600
_MOST_ERROR = 1 << 20
_MALFORMED = (SendFailed, msgspec.MsgspecError, KeyError, TypeError, ValueError)
"""What a cluster that answers nonsense causes: it is asked again later."""

Tell = Callable[[str, Object | None, str], None]
"""Type of an event, the pod (None for a bookmark), the version that it leads to."""
Heard = Callable[[str, Object], None]
Places = Callable[[Object], str | None]
"""The namespace of the workspace that one of the cluster stands for; None if it is of others."""


class _Event(msgspec.Struct):
    type: str
    object: msgspec.Raw


_decode = msgspec.json.Decoder(_Event).decode


async def watch_once(
    client: ClusterClient,
    kind: GroupVersionResource,
    namespace: str,
    query: dict[str, str | int | None],
    heard: Heard,
) -> None:
    """One watch request, to its end. Raises StatusError."""
    asked = {
        "watch": "1",
        "allowWatchBookmarks": "true",
        "timeoutSeconds": _WATCH_SECONDS,
        **query,
    }
    target = with_query(client.collection("", kind, namespace), asked)
    try:
        response = await client.http.request("GET", target, client.headers())
        try:
            if response.status >= 400:
                raise error_of(response.status, await response.read(_MOST_ERROR))
            async for line in lines(response.chunks(), client.limits.line):
                event = _decode(line)
                obj: Object = orjson.loads(bytes(event.object))
                if event.type == "ERROR":
                    raise error_of_status(obj)
                heard(event.type, obj)
        finally:
            response.close()
    except StatusError:
        raise
    except _MALFORMED as error:
        raise ServiceUnavailable(f"the watch broke off: {error}") from error


class PodFollower:
    """`run` it until it is cancelled, or fails."""

    def __init__(
        self,
        client: ClusterClient,
        labels: str,
        fields: str,
        shown: Callable[[Object, str], Object],
        tell: Tell,
    ) -> None:
        """`shown`: a pod of the cluster as a namespace of the workspace shows it."""
        self._client, self._shown, self._tell = client, shown, tell
        self._query: dict[str, str | int | None] = {
            "labelSelector": labels,
            "fieldSelector": fields,
        }
        self._versions: dict[str, str] = {}
        """By namespaces of the cluster."""

    async def run_in(self, place: str, namespace: str, version: str) -> None:
        """One namespace. Raises StatusError."""
        self._versions[place] = version
        while True:
            await self._watch(place, namespace)

    async def _watch(self, place: str, namespace: str) -> None:
        def heard(kind: str, obj: Object) -> None:
            self._versions[place] = str(int(obj["metadata"]["resourceVersion"]))
            pod = None if kind == BOOKMARK else self._shown(obj, namespace)
            self._tell(kind, pod, self._safe_version())

        query = {**self._query, "resourceVersion": self._versions[place]}
        await watch_once(self._client, PODS, place, query, heard)

    def _safe_version(self) -> str:
        return min(self._versions.values(), key=int)

    async def run_everywhere(self, selector: str, places: Places, version: str) -> None:
        """All namespaces that `places` names, also those that are made later. Raises StatusError."""
        found, listed_at = await self._client.list_with_version("", NAMESPACES, labels=selector)
        failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        tasks: dict[str, asyncio.Task[None]] = {}

        def end(task: asyncio.Task[None]) -> None:
            error = None if task.cancelled() else task.exception()
            if error is not None and not failed.done():
                failed.set_exception(error)

        def start(namespace: Object, since: str) -> None:
            place, origin = namespace["metadata"]["name"], places(namespace)
            if origin is None or place in tasks:
                return
            tasks[place] = spawn(self._enter(place, origin, since), "placed-pods")
            tasks[place].add_done_callback(end)

        def heard(kind: str, obj: Object) -> None:
            if kind in ("ADDED", "MODIFIED"):
                start(obj, "")

        async def watch_namespaces() -> None:
            while True:
                query: dict[str, str | int | None] = {"labelSelector": selector}
                query["resourceVersion"] = listed_at
                await watch_once(self._client, NAMESPACES, "", query, heard)

        tasks[""] = spawn(watch_namespaces(), "placed-namespaces")
        tasks[""].add_done_callback(end)
        for one in found:
            start(one, version)
        try:
            await failed
        finally:
            for task in tasks.values():
                task.cancel()
            await asyncio.gather(*tasks.values(), return_exceptions=True)

    async def _enter(self, place: str, namespace: str, version: str) -> None:
        """Begin with what is in a namespace that was made meanwhile."""
        if not version:
            found, version = await self._client.list_with_version(
                "",
                PODS,
                place,
                labels=str(self._query["labelSelector"]),
                fields=str(self._query["fieldSelector"]),
            )
            self._versions[place] = version
            for pod in found:
                self._tell("ADDED", self._shown(pod, namespace), self._safe_version())
        await self.run_in(place, namespace, version)
