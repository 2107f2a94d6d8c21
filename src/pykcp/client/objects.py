"""The objects of one kind in one workspace: the verbs of the API."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

import orjson

from pykcp.client.kinds import KindInfo
from pykcp.client.outages import Outage
from pykcp.client.transport import Query
from pykcp.clients.interface import JSON_PATCH, MERGE_PATCH, PAGE, ObjectPage
from pykcp.clients.remote.client import APPLY_PATCH
from pykcp.clients.remote.errors import error_of_status
from pykcp.machinery.status import (
    OPTIMISTIC_LOCK,
    Conflict,
    Expired,
    Gone,
    NotFound,
    ServiceUnavailable,
    StatusError,
    TooManyRequests,
)
from pykcp.types import Object

if TYPE_CHECKING:
    from pykcp.client.workspaces import Workspace

_CONFLICTS = 10
"""Attempts of a change before its conflict is raised."""
_FIRST_PAUSE, _LAST_PAUSE = 0.1, 10.0


class ObjectEvent(NamedTuple):
    """What happened to an object."""

    type: str
    """ADDED, MODIFIED, DELETED or BOOKMARK."""
    object: Object
    """Of a deleted one, its last state."""


class Objects:
    """The objects of one kind in a workspace; methods take a namespace where the kind has them."""

    def __init__(self, workspace: Workspace, kind: str | KindInfo, namespace: str = "") -> None:
        """`namespace`: the one that is meant where none is given."""
        self.workspace, self.namespace = workspace, namespace
        self._kind = kind

    def __repr__(self) -> str:
        name = self._kind if isinstance(self._kind, str) else str(self._kind.resource)
        return f"<Objects {name} in {self.workspace.path or '/'}>"

    async def kind(self) -> KindInfo:
        """The kind as the workspace serves it. Raises NotFound."""
        if isinstance(self._kind, str):
            self._kind = await self.workspace.kinds.find(self._kind)
        return self._kind

    # --- reading

    async def get(self, name: str, namespace: str = "") -> Object:
        """The object. Raises NotFound."""
        return await self._ask("GET", await self._path(name, namespace))

    async def find(self, name: str, namespace: str = "") -> Object | None:
        """The object, or None if there is none."""
        try:
            return await self.get(name, namespace)
        except NotFound as error:
            if error.name:
                return None
            raise  # the kind is not served, or the workspace does not exist

    async def list(
        self, namespace: str = "", *, labels: str = "", fields: str = ""
    ) -> list[Object]:
        """All objects at once; in every namespace if none is given and the workspace has none."""
        found, _ = await self.list_with_version(namespace, labels=labels, fields=fields)
        return found

    async def list_with_version(
        self, namespace: str = "", *, labels: str = "", fields: str = ""
    ) -> tuple[ObjectPage, str]:
        """All objects as they were at one moment, and that moment's resource version."""
        path = await self._path("", namespace)
        query: Query = {"labelSelector": labels, "fieldSelector": fields}
        found: ObjectPage = []
        token = ""
        while True:
            try:
                page = await self._ask(
                    "GET", path, query={**query, "limit": PAGE, "continue": token}
                )
            except (Expired, Gone):
                if not token:
                    raise
                page = await self._ask("GET", path, query=query)  # the first pages are too old
                found = []
            found += _typed(page)
            token = page["metadata"].get("continue") or ""
            if not token:
                return found, page["metadata"].get("resourceVersion") or ""

    async def pages(
        self, namespace: str = "", *, labels: str = "", fields: str = "", size: int = PAGE
    ) -> AsyncIterator[ObjectPage]:
        """All objects, a page at a time, for kinds with many of them."""
        path = await self._path("", namespace)
        query: Query = {"labelSelector": labels, "fieldSelector": fields, "limit": size}
        token = ""
        while True:
            try:
                page = await self._ask("GET", path, query={**query, "continue": token})
            except (Expired, Gone) as error:
                if not error.continue_token:
                    raise
                token = error.continue_token  # the rest, as it is now
                continue
            yield _typed(page)
            token = page["metadata"].get("continue") or ""
            if not token:
                return

    async def __aiter__(self) -> AsyncIterator[Object]:
        async for page in self.pages():
            for obj in page:
                yield obj

    async def watch(
        self, namespace: str = "", *, labels: str = "", fields: str = "", since: str = ""
    ) -> AsyncIterator[ObjectEvent]:
        """Changes as they happen, until the caller stops reading.

        Without `since`, a resource version, it begins with an ADDED event for every object that
        exists. A lost connection is opened again where it broke; the log says when it was lost and
        when it is back. Raises Expired if the server no longer knows that place: then read
        everything anew, or use an informer, which does so.
        """
        version = since
        if not version:
            found, version = await self.list_with_version(namespace, labels=labels, fields=fields)
            for obj in found:
                yield ObjectEvent("ADDED", obj)
        query: Query = {"labelSelector": labels, "fieldSelector": fields}
        outage = Outage(self, _FIRST_PAUSE, _LAST_PAUSE)
        while True:
            try:
                async for event in self._watch_once(
                    namespace, {**query, "resourceVersion": version}, outage
                ):
                    outage.over()
                    version = event.object["metadata"]["resourceVersion"]
                    if event.type != "BOOKMARK":
                        yield event
            except (ServiceUnavailable, TooManyRequests) as error:
                await outage.wait(error)

    async def _watch_once(
        self, namespace: str, query: Query, outage: Outage
    ) -> AsyncIterator[ObjectEvent]:
        path = await self._path("", namespace)
        asked = {"watch": "1", "allowWatchBookmarks": "true", **query}
        async for line in self.workspace.transport.lines(path, asked, outage.answered):
            event = orjson.loads(line)
            if event["type"] == "ERROR":
                raise error_of_status(event["object"])
            yield ObjectEvent(event["type"], event["object"])

    async def wait(
        self,
        name: str,
        condition: Callable[[Object], bool],
        namespace: str = "",
        *,
        timeout: float = 60.0,
    ) -> Object:
        """The object as soon as the condition holds for it. Raises TimeoutError, which says how
        the object was last seen.
        """
        last: Object | None = None
        try:
            async with asyncio.timeout(timeout):
                async for event in self.watch(namespace, fields=f"metadata.name={name}"):
                    last = event.object
                    if event.type != "DELETED" and condition(last):
                        return last
        except TimeoutError:
            state = "it was never seen" if last is None else f"it was last seen as {_summary(last)}"
            what = (await self.kind()).plural
            raise TimeoutError(f'{what} "{name}" did not meet the condition: {state}') from None
        raise AssertionError

    # --- writing

    async def create(self, obj: Object) -> Object:
        """Create; AlreadyExists if there is one of that name."""
        namespace = _metadata(obj).get("namespace", "")
        return await self._write("POST", await self._path("", namespace, for_one=True), obj)

    async def update(self, obj: Object, subresource: str = "") -> Object:
        """Write an object back; Conflict if it changed since it was read."""
        path = await self._object_path(obj, subresource)
        return await self._write("PUT", path, obj)

    async def change(
        self, name: str, make: Callable[[Object], Any], namespace: str = "", subresource: str = ""
    ) -> Object:
        """Read, change and write; again after a conflict.

        `make` changes the object in place; what it returns is not used.
        """
        for _ in range(_CONFLICTS):
            obj = await self.get(name, namespace)
            make(obj)
            try:
                return await self.update(obj, subresource)
            except Conflict as error:
                if OPTIMISTIC_LOCK not in error.message:
                    raise
        kind = await self.kind()
        raise Conflict.resource(kind.group, kind.plural, name, OPTIMISTIC_LOCK)

    async def patch(
        self, name: str, patch: Any, namespace: str = "", subresource: str = ""
    ) -> Object:
        """A merge patch (a dict) or a JSON patch (a list of operations)."""
        form = JSON_PATCH if isinstance(patch, list) else MERGE_PATCH
        return await self._write(
            "PATCH", await self._path(name, namespace, subresource), patch, form
        )

    async def apply(self, obj: Object, subresource: str = "", *, force: bool = False) -> Object:
        """Server-side apply under this client's field manager; Conflict unless `force`."""
        path = await self._object_path(obj, subresource)
        kind = await self.kind()
        typed = {"apiVersion": kind.api_version, "kind": kind.kind, **obj}
        return await self._write("PATCH", path, typed, APPLY_PATCH, "true" if force else None)

    async def delete(
        self, name: str, namespace: str = "", *, uid: str = "", propagation: str = ""
    ) -> bool:
        """Delete; False if there is none. `propagation`: Background, Foreground or Orphan."""
        options: Object = {"apiVersion": "v1", "kind": "DeleteOptions"}
        if uid:
            options["preconditions"] = {"uid": uid}
        if propagation:
            options["propagationPolicy"] = propagation
        try:
            await self._ask("DELETE", await self._path(name, namespace), options)
        except NotFound as error:
            if error.name:
                return False
            raise
        return True

    async def delete_all(self, namespace: str = "", *, labels: str = "", fields: str = "") -> None:
        """Delete every object of a selection."""
        query: Query = {"labelSelector": labels, "fieldSelector": fields}
        await self._ask("DELETE", await self._path("", namespace), query=query)

    # --- requests

    async def _object_path(self, obj: Object, subresource: str) -> str:
        metadata = _metadata(obj)
        name = metadata.get("name")
        if not name:
            raise ValueError("the object has no metadata.name")
        return await self._path(name, metadata.get("namespace", ""), subresource)

    async def _path(
        self, name: str, namespace: str = "", subresource: str = "", *, for_one: bool = False
    ) -> str:
        """The path of an object, or of the collection if `name` is empty.

        A single object of a namespaced kind is in "default" unless a namespace is given.
        """
        kind = await self.kind()
        api = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
        inside = namespace or self.namespace
        if not inside and (name or for_one):
            inside = "default"
        if kind.is_namespaced and inside:
            api += f"/namespaces/{quote(inside, safe='')}"
        path = f"{self.workspace.base}{api}/{quote(kind.plural, safe=':')}"
        if name:
            path += f"/{quote(name, safe=':')}"
        return f"{path}/{subresource}" if subresource else path

    async def _write(
        self,
        method: str,
        path: str,
        body: Any,
        form: str = "application/json",
        force: str | None = None,
    ) -> Object:
        query: Query = {"fieldManager": self.workspace.transport.manager, "force": force}
        return await self._ask(method, path, body, form=form, query=query)

    async def _ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        form: str = "application/json",
        query: Query | None = None,
    ) -> Object:
        try:
            return await self.workspace.transport.ask(method, path, body, form=form, query=query)
        except StatusError as error:
            error.add_note(f"in workspace {self.workspace.path or '/'}")
            raise


def _metadata(obj: Object) -> Object:
    return obj.get("metadata") or {}


def _summary(obj: Object) -> str:
    status = obj.get("status")
    return orjson.dumps(status if status is not None else obj).decode()[:500]


def _typed(page: Object) -> list[Object]:
    """The objects of a list, each with its type: built-in kinds leave it out."""
    kind, version = page["kind"].removesuffix("List"), page["apiVersion"]
    return [{"apiVersion": version, "kind": kind, **obj} for obj in page["items"] or ()]
