"""A copy of all objects of a kind that follows their changes: in a workspace, or in all consumers
of an APIExport."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable
from functools import partial
from types import TracebackType
from typing import NamedTuple, Self
from urllib.parse import urlsplit

from pykcp.aio.owner import spawn
from pykcp.client.kinds import ENDPOINT_SLICE_KIND
from pykcp.client.objects import ObjectEvent, Objects
from pykcp.client.outages import Outage
from pykcp.client.workspaces import Workspace, endpoint_urls
from pykcp.machinery.status import Expired, Gone, StatusError
from pykcp.types import Object

_log = logging.getLogger(__name__)
_CLUSTER = "kcp.io/cluster"
_FIRST_PAUSE, _LAST_PAUSE = 0.2, 30.0

EventHandler = Callable[[ObjectEvent], None]


class Place(NamedTuple):
    """Where an object is: its logical cluster, namespace and name."""

    cluster: str
    namespace: str
    name: str


def place_of(obj: Object) -> Place:
    metadata = obj["metadata"]
    cluster = (metadata.get("annotations") or {}).get(_CLUSTER, "")
    return Place(cluster, metadata.get("namespace", ""), metadata["name"])


class ObjectInformer:
    """Use it with `async with`: then it holds everything that existed when it was entered.

    After a lost connection it reads again what it missed; objects that are gone by then are
    reported as deleted. Objects that it returns are shared: do not change them.
    """

    def __init__(self, objects: Objects, *, labels: str = "") -> None:
        self._objects, self._labels = objects, labels
        self._held: dict[Place, Object] = {}
        self._clusters: set[str] = set()
        """Every logical cluster that an object was seen in."""
        self._handlers: list[EventHandler] = []
        self._is_synced = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._held)

    def get(self, name: str, namespace: str = "", cluster: str = "") -> Object | None:
        """The object, or None. `cluster` may be left out where there is one workspace only."""
        for each in (cluster,) if cluster else self._clusters:
            found = self._held.get(Place(each, namespace, name))
            if found is not None:
                return found
        return None

    def list(self, namespace: str = "", cluster: str = "") -> list[Object]:
        return [
            obj
            for place, obj in self._held.items()
            if (not namespace or place.namespace == namespace)
            and (not cluster or place.cluster == cluster)
        ]

    def on(self, handler: EventHandler) -> None:
        """Call a handler for every change, at once for what is known. It must not wait."""
        for obj in list(self._held.values()):
            handler(ObjectEvent("ADDED", obj))
        self._handlers.append(handler)

    async def events(self) -> AsyncIterator[ObjectEvent]:
        """The changes in order, beginning with what is known."""
        queue: asyncio.Queue[ObjectEvent] = asyncio.Queue()
        self.on(queue.put_nowait)
        try:
            while True:
                yield await queue.get()
        finally:
            self._handlers.remove(queue.put_nowait)

    async def synced(self) -> None:
        """Return when everything that existed is held."""
        await self._is_synced.wait()

    async def __aenter__(self) -> Self:
        self.start(fails_first=True)
        try:
            await self._synced_or_failed()
        except BaseException:
            await self.stop()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.stop()

    def start(self, *, fails_first: bool = False) -> None:
        """Follow the objects in a task; `fails_first`: it ends if the first reading is rejected."""
        self._task = spawn(self._run(fails_first), name="informer")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def ended(self) -> None:
        """Return when it was stopped. Raises what ended it."""
        if self._task is not None:
            await self._task

    async def _synced_or_failed(self) -> None:
        """The first read tells of a mistake: a kind that is not served, a missing permission."""
        assert self._task is not None
        waiting = spawn(self._is_synced.wait(), name="informer is synced")
        try:
            await asyncio.wait((waiting, self._task), return_when=asyncio.FIRST_COMPLETED)
            if self._task.done():
                self._task.result()
        finally:
            waiting.cancel()

    async def _run(self, fails_first: bool) -> None:
        outage = Outage(self._objects, _FIRST_PAUSE, _LAST_PAUSE)
        while True:
            try:
                await self._follow(outage)
            except (Expired, Gone):
                continue  # the server no longer knows where we were: everything anew
            except StatusError as error:
                if fails_first and not self._is_synced.is_set() and error.code < 500:
                    raise
                await outage.wait(error)

    async def _follow(self, outage: Outage) -> None:
        found, version = await self._objects.list_with_version(labels=self._labels)
        outage.answered()
        self._replace(found)
        self._is_synced.set()
        async for event in self._objects.watch(labels=self._labels, since=version):
            outage.over()
            self._take(event)

    def _replace(self, found: Iterable[Object]) -> None:
        present = {place_of(obj): obj for obj in found}
        for place in [place for place in self._held if place not in present]:
            self._tell(ObjectEvent("DELETED", self._held.pop(place)))
        for obj in present.values():
            self._take(ObjectEvent("ADDED", obj))

    def _take(self, event: ObjectEvent) -> None:
        place, obj = place_of(event.object), event.object
        before = self._held.get(place)
        if event.type == "DELETED":
            self._held.pop(place, None)
            self._tell(event)
        elif before is None:
            self._clusters.add(place.cluster)
            self._held[place] = obj
            self._tell(ObjectEvent("ADDED", obj))
        elif before["metadata"]["resourceVersion"] != obj["metadata"]["resourceVersion"]:
            self._held[place] = obj
            self._tell(ObjectEvent("MODIFIED", obj))

    def _tell(self, event: ObjectEvent) -> None:
        for handler in self._handlers:
            try:
                handler(event)
            except Exception:  # one handler's mistake must not stop the others
                _log.exception("a handler of %s failed", place_of(event.object))


class ExportInformers:
    """One informer for each endpoint of an export: every shard with consumers has one.

    Endpoints come and go with the endpoint slice; what was behind one that goes is reported as
    deleted.
    """

    def __init__(self, workspace: Workspace, export: str, kind: str, *, labels: str = "") -> None:
        self._workspace, self._export = workspace, export
        self._kind, self._labels = kind, labels
        self._informers: dict[str, ObjectInformer] = {}
        self._urls: dict[str, str] = {}
        """The endpoint at which a logical cluster was last seen."""
        self._handlers: list[EventHandler] = []

    def on(self, handler: EventHandler) -> None:
        """Call a handler for every change. Register it before `run`."""
        self._handlers.append(handler)

    def list(self) -> list[Object]:
        return [obj for informer in self._informers.values() for obj in informer.list()]

    def get(self, place: Place) -> Object | None:
        informer = self._informers.get(self._urls.get(place.cluster, ""))
        if informer is None:
            return None
        return informer.get(place.name, place.namespace, place.cluster)

    def consumer(self, cluster: str) -> Workspace | None:
        """The consumer's workspace as the export's owner sees it: the exported and claimed kinds."""
        url = self._urls.get(cluster)
        return endpoint_workspace(self._workspace, url, cluster) if url else None

    async def run(self) -> None:
        """Until cancelled. Raises what the first reading of the endpoint slice raises."""
        slices = Objects(self._workspace, ENDPOINT_SLICE_KIND)
        outage = Outage(slices, _FIRST_PAUSE, _LAST_PAUSE)
        try:
            version = await self._read(slices)
            while True:
                try:
                    if not version:
                        version = await self._read(slices)
                        outage.answered()
                    await self._follow(slices, version)
                except (Expired, Gone):
                    version = ""  # the server no longer knows where we were: everything anew
                except StatusError as error:
                    version = ""
                    await outage.wait(error)
        finally:
            await self._use([])

    async def _read(self, slices: Objects) -> str:
        """Use the endpoints that there are now; the resource version of that moment."""
        found, version = await slices.list_with_version(fields=f"metadata.name={self._export}")
        await self._use(url for each in found for url in endpoint_urls(each))
        return version

    async def _follow(self, slices: Objects, version: str) -> None:
        name = f"metadata.name={self._export}"
        async for event in slices.watch(fields=name, since=version):
            is_gone = event.type == "DELETED"
            await self._use([] if is_gone else endpoint_urls(event.object))

    async def _use(self, urls: Iterable[str]) -> None:
        wanted = set(urls)
        for url in self._informers.keys() - wanted:
            informer = self._informers.pop(url)
            await informer.stop()
            for obj in informer.list():
                self._heard(url, ObjectEvent("DELETED", obj))
        for url in wanted - self._informers.keys():
            objects = endpoint_workspace(self._workspace, url, "*").objects(self._kind)
            informer = self._informers[url] = ObjectInformer(objects, labels=self._labels)
            informer.on(partial(self._heard, url))
            informer.start()

    def _heard(self, url: str, event: ObjectEvent) -> None:
        if event.type != "DELETED":
            self._urls[place_of(event.object).cluster] = url
        for handler in self._handlers:
            handler(event)


def endpoint_workspace(owner: Workspace, url: str, cluster: str) -> Workspace:
    """A workspace behind an endpoint of an export; `*` for all of them."""
    prefix = urlsplit(url).path.rstrip("/")
    return Workspace(owner.reach(url), cluster, prefix=prefix, reach=owner.reach)
