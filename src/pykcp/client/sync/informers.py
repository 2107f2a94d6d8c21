"""Informers, without `await`."""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import Self

from pykcp.client.informers import EventHandler, ObjectInformer
from pykcp.client.objects import ObjectEvent
from pykcp.client.portal import Portal
from pykcp.types import Object


class SyncInformer:
    """A copy of all objects of a kind; see `pykcp.client.ObjectInformer`.

    It is kept by the client's thread, which is asked for what is held: a copy that another thread
    changes meanwhile could not be read.
    """

    def __init__(self, portal: Portal, informer: ObjectInformer) -> None:
        self._portal, self._informer = portal, informer

    def __len__(self) -> int:
        return len(self._informer)

    def get(self, name: str, namespace: str = "", cluster: str = "") -> Object | None:
        return self._portal.call(lambda: self._informer.get(name, namespace, cluster))

    def list(self, namespace: str = "", cluster: str = "") -> list[Object]:
        return self._portal.call(lambda: self._informer.list(namespace, cluster))

    def on(self, handler: EventHandler) -> None:
        """The handler is called by the client's thread: it must not use the client."""
        self._portal.call(lambda: self._informer.on(handler))

    def events(self) -> Iterator[ObjectEvent]:
        return self._portal.iterate(self._informer.events())

    def synced(self) -> None:
        self._portal.run(self._informer.synced())

    def ended(self) -> None:
        self._portal.run(self._informer.ended())

    def start(self, *, fails_first: bool = False) -> None:
        self._portal.call(lambda: self._informer.start(fails_first=fails_first))

    def stop(self) -> None:
        self._portal.run(self._informer.stop())

    def __enter__(self) -> Self:
        self._portal.run(self._informer.__aenter__())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()
