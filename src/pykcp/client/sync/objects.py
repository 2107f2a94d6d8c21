"""The verbs of the API, without `await`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from pykcp.client.kinds import KindInfo
from pykcp.client.objects import ObjectEvent, Objects
from pykcp.client.portal import Portal
from pykcp.clients.interface import PAGE, ObjectPage
from pykcp.types import Object


class SyncObjects:
    """The objects of one kind in a workspace; see `pykcp.client.Objects`."""

    def __init__(self, portal: Portal, objects: Objects) -> None:
        self._portal, self._objects = portal, objects

    def __repr__(self) -> str:
        return repr(self._objects)

    def kind(self) -> KindInfo:
        return self._portal.run(self._objects.kind())

    def get(self, name: str, namespace: str = "") -> Object:
        return self._portal.run(self._objects.get(name, namespace))

    def find(self, name: str, namespace: str = "") -> Object | None:
        return self._portal.run(self._objects.find(name, namespace))

    def list(self, namespace: str = "", *, labels: str = "", fields: str = "") -> list[Object]:
        return self._portal.run(self._objects.list(namespace, labels=labels, fields=fields))

    def list_with_version(
        self, namespace: str = "", *, labels: str = "", fields: str = ""
    ) -> tuple[ObjectPage, str]:
        return self._portal.run(
            self._objects.list_with_version(namespace, labels=labels, fields=fields)
        )

    def pages(
        self, namespace: str = "", *, labels: str = "", fields: str = "", size: int = PAGE
    ) -> Iterator[ObjectPage]:
        return self._portal.iterate(
            self._objects.pages(namespace, labels=labels, fields=fields, size=size)
        )

    def __iter__(self) -> Iterator[Object]:
        return self._portal.iterate(aiter(self._objects))

    def watch(
        self, namespace: str = "", *, labels: str = "", fields: str = "", since: str = ""
    ) -> Iterator[ObjectEvent]:
        return self._portal.iterate(
            self._objects.watch(namespace, labels=labels, fields=fields, since=since)
        )

    def wait(
        self,
        name: str,
        condition: Callable[[Object], bool],
        namespace: str = "",
        *,
        timeout: float = 60.0,
    ) -> Object:
        return self._portal.run(self._objects.wait(name, condition, namespace, timeout=timeout))

    def create(self, obj: Object) -> Object:
        return self._portal.run(self._objects.create(obj))

    def update(self, obj: Object, subresource: str = "") -> Object:
        return self._portal.run(self._objects.update(obj, subresource))

    def change(
        self, name: str, make: Callable[[Object], Any], namespace: str = "", subresource: str = ""
    ) -> Object:
        return self._portal.run(self._objects.change(name, make, namespace, subresource))

    def patch(self, name: str, patch: Any, namespace: str = "", subresource: str = "") -> Object:
        return self._portal.run(self._objects.patch(name, patch, namespace, subresource))

    def apply(self, obj: Object, subresource: str = "", *, force: bool = False) -> Object:
        return self._portal.run(self._objects.apply(obj, subresource, force=force))

    def delete(
        self, name: str, namespace: str = "", *, uid: str = "", propagation: str = ""
    ) -> bool:
        return self._portal.run(
            self._objects.delete(name, namespace, uid=uid, propagation=propagation)
        )

    def delete_all(self, namespace: str = "", *, labels: str = "", fields: str = "") -> None:
        self._portal.run(self._objects.delete_all(namespace, labels=labels, fields=fields))
