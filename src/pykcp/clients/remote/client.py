"""The verbs of the API over HTTP, as `Reader` and `Writer`.

An answer 429 or 503 that says when to come back is waited for and the request sent again: the
server has not acted on it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

import msgspec
import orjson

from pykcp.clients.errors import SendFailed
from pykcp.clients.http.client import HttpClient
from pykcp.clients.http.response import HttpResponse
from pykcp.clients.interface import JSON_PATCH, MERGE_PATCH, PAGE, MetadataPage, ObjectPage, Reader
from pykcp.clients.remote.errors import error_of
from pykcp.clients.remote.paths import collection_path, object_path, with_query
from pykcp.machinery.kcp.clusters import ROOT
from pykcp.machinery.metadata import Metadata
from pykcp.machinery.resources import API_EXPORTS, GroupVersionResource
from pykcp.machinery.status import (
    OPTIMISTIC_LOCK,
    Conflict,
    Expired,
    Gone,
    NotFound,
    ServiceUnavailable,
)
from pykcp.types import Object

APPLY_PATCH = "application/apply-patch+yaml"
Headers: TypeAlias = list[tuple[str, str]]
RawPage: TypeAlias = list[bytes]
_METADATA = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
_REPEATED = (429, 503)
_REPEATS = 10
_LONGEST_PAUSE = 30.0
_CONFLICTS = 10
"""Attempts of an update before its conflict is raised."""


@dataclass(frozen=True, slots=True)
class AnswerLimits:
    """What a server may answer; by default nearly anything."""

    answer: int = 1 << 30
    """Bytes of one answer."""
    listing: int = 1 << 40
    """Bytes of all pages of a list together."""
    line: int = 1 << 30
    """Bytes of one event of a watch."""
    page: int = PAGE
    """Objects to ask for at a time."""


class VersionedPage(NamedTuple):
    objects: ObjectPage
    version: str
    """Resource version of the whole list."""


class _Item(msgspec.Struct):
    metadata: Metadata


class _ListMetadata(msgspec.Struct, rename={"next": "continue"}):
    next: str = ""


class _MetadataList(msgspec.Struct):
    items: list[_Item]
    metadata: _ListMetadata = msgspec.field(default_factory=_ListMetadata)


class _RawList(msgspec.Struct):
    items: list[msgspec.Raw] = []


_decode_metadata = msgspec.json.Decoder(_MetadataList).decode
_decode_raw = msgspec.json.Decoder(_RawList).decode


class RemoteClient:
    """Verbs on objects of any logical cluster of another server.

    With the cluster "" they are those of the server itself, which need not know kcp.
    """

    def __init__(
        self,
        http: HttpClient,
        manager: str,
        *,
        token: Callable[[], str] = str,
        identities: Mapping[tuple[str, str], str] = MappingProxyType({}),
        sleep: Callable[[float], Any] = asyncio.sleep,
        timeout: float | None = None,
        on_outcome: Callable[[bool], None] | None = None,
        root: str = "",
        limits: AnswerLimits | None = None,
    ) -> None:
        """`manager`: the name by which the server knows who writes which field; `identities`:
        by group and resource, those of the exports whose resources are read in all logical
        clusters (`identities_of_root`); `timeout`: seconds that one request may take;
        `on_outcome`: called after each with whether it was answered; `root`: path of a virtual
        workspace, below which the logical clusters are.
        """
        self.http, self._manager, self._identities = http, manager, identities
        self.limits = limits or AnswerLimits()
        self._token, self._sleep = token, sleep
        self._timeout, self._on_outcome = timeout, on_outcome
        self._root = root

    def collection(self, cluster: str, kind: GroupVersionResource, namespace: str = "") -> str:
        """The path of a collection. What exports bring is named with its identity in requests to
        all logical clusters, since several exports may bring a resource of the same name.
        """
        identity = self._identities.get((kind.group, kind.resource)) if cluster == "*" else None
        if identity:
            kind = kind._replace(resource=f"{kind.resource}:{identity}")
        return f"{self._root}{collection_path(cluster, kind, namespace)}"

    def object(
        self,
        cluster: str,
        kind: GroupVersionResource,
        name: str,
        namespace: str = "",
        subresource: str = "",
    ) -> str:
        """The path of an object."""
        return f"{self._root}{object_path(cluster, kind, name, namespace, subresource)}"

    # --- reading

    async def get(
        self, cluster: str, kind: GroupVersionResource, name: str, namespace: str = ""
    ) -> Object | None:
        try:
            return await self._ask("GET", self.object(cluster, kind, name, namespace))
        except NotFound as error:
            if error.name:
                return None
            raise  # the kind is not served, or the cluster does not exist

    async def list(
        self,
        cluster: str,
        kind: GroupVersionResource,
        namespace: str = "",
        *,
        labels: str = "",
        fields: str = "",
    ) -> list[Object]:
        found, _ = await self.list_with_version(
            cluster, kind, namespace, labels=labels, fields=fields
        )
        return found

    async def list_with_version(
        self,
        cluster: str,
        kind: GroupVersionResource,
        namespace: str = "",
        *,
        labels: str = "",
        fields: str = "",
        is_paged: bool = True,
    ) -> tuple[ObjectPage, str]:
        """All objects as they were at one moment, and that moment's resource version.

        `is_paged`: whether to ask for pages first.
        """
        found: ObjectPage = []
        version = ""
        if is_paged:
            try:
                async for page in self.versioned_pages(
                    cluster, kind, namespace, labels=labels, fields=fields
                ):
                    found += page.objects
                    version = page.version
            except (Expired, Gone):
                pass  # the moment of the first page is forgotten by now
            else:
                return found, version
        query = {"labelSelector": labels, "fieldSelector": fields}
        whole = await self._ask("GET", with_query(self.collection(cluster, kind, namespace), query))
        return _typed(whole), whole["metadata"].get("resourceVersion") or ""

    async def versioned_pages(
        self,
        cluster: str,
        kind: GroupVersionResource,
        namespace: str = "",
        *,
        labels: str = "",
        fields: str = "",
    ) -> AsyncIterator[VersionedPage]:
        """The same page by page. Raises Expired or Gone if that moment is forgotten before the end."""
        path = self.collection(cluster, kind, namespace)
        query: dict[str, str | int | None] = {"labelSelector": labels, "fieldSelector": fields}
        token, size = "", 0
        while True:
            asked = {**query, "limit": self.limits.page, "continue": token}
            body = await self._body("GET", with_query(path, asked))
            size = self._counted(size, body)
            page = await self.decode(body)
            yield VersionedPage(_typed(page), page["metadata"].get("resourceVersion") or "")
            token = page["metadata"].get("continue") or ""
            if not token:
                return

    async def pages(
        self,
        cluster: str,
        kind: GroupVersionResource,
        namespace: str = "",
        *,
        labels: str = "",
        fields: str = "",
        size: int = PAGE,
    ) -> AsyncIterator[ObjectPage]:
        query: dict[str, str | int | None] = {"labelSelector": labels, "fieldSelector": fields}
        path = self.collection(cluster, kind, namespace)
        size = min(size, self.limits.page)
        async for body in self._pages(path, {**query, "limit": size}, "application/json"):
            yield _typed(await self.decode(body))

    async def raw_pages(
        self, cluster: str, kind: GroupVersionResource, namespace: str = "", *, size: int = 10
    ) -> AsyncIterator[RawPage]:
        """The objects of pages as they came: for large ones, of which a part is needed."""
        path = self.collection(cluster, kind, namespace)
        async for body in self._pages(path, {"limit": size}, "application/json"):
            yield [bytes(item) for item in _decode_raw(body).items]

    async def document(self, target: str) -> bytes:
        """The answer at a path that is no resource, as it came. Raises StatusError."""
        return await self._body("GET", target)

    async def metadata(
        self, cluster: str, kind: GroupVersionResource, namespace: str = "", *, size: int = PAGE
    ) -> AsyncIterator[MetadataPage]:
        path = self.collection(cluster, kind, namespace)
        async for body in self._pages(path, {"limit": size}, _METADATA):
            yield [item.metadata for item in _decode_metadata(body).items]

    async def _pages(
        self, path: str, query: Mapping[str, str | int | None], accept: str
    ) -> AsyncIterator[bytes]:
        """The bodies of pages that are not empty."""
        token, size = "", 0
        while True:
            target = with_query(path, {**query, "continue": token})
            try:
                body = await self._body("GET", target, accept=accept)
            except (Expired, Gone) as error:
                if not error.continue_token:
                    raise
                token = error.continue_token  # the rest, as it is now
                continue
            size = self._counted(size, body)
            page = _decode_metadata(body)
            if page.items:
                yield body
            token = page.metadata.next
            if not token:
                return

    def _counted(self, size: int, body: bytes) -> int:
        size += len(body)
        if size > self.limits.listing:
            raise ServiceUnavailable(f"the list is longer than {self.limits.listing} bytes")
        return size

    # --- writing

    async def create(self, cluster: str, kind: GroupVersionResource, obj: Object) -> Object:
        namespace = (obj.get("metadata") or {}).get("namespace", "")
        return await self._write("POST", self.collection(cluster, kind, namespace), obj)

    async def update(
        self, cluster: str, kind: GroupVersionResource, obj: Object, subresource: str = ""
    ) -> Object:
        metadata = obj["metadata"]
        namespace = metadata.get("namespace", "")
        path = self.object(cluster, kind, metadata["name"], namespace, subresource)
        return await self._write("PUT", path, obj)

    async def change(
        self,
        cluster: str,
        kind: GroupVersionResource,
        name: str,
        make: Callable[[Object], Any],
        namespace: str = "",
        subresource: str = "",
    ) -> Object:
        for _ in range(_CONFLICTS):
            live = await self.get(cluster, kind, name, namespace)
            if live is None:
                raise NotFound.resource(kind.group, kind.resource, name)
            version = live["metadata"]["resourceVersion"]
            made = make(live)
            new = live if made is None else made
            new["metadata"]["resourceVersion"] = version
            try:
                return await self.update(cluster, kind, new, subresource)
            except Conflict as error:
                if OPTIMISTIC_LOCK not in error.message:
                    raise
        raise Conflict.resource(kind.group, kind.resource, name, OPTIMISTIC_LOCK)

    async def patch(
        self,
        cluster: str,
        kind: GroupVersionResource,
        name: str,
        patch: Any,
        namespace: str = "",
        subresource: str = "",
        *,
        form: str = MERGE_PATCH,
    ) -> Object:
        if form not in (MERGE_PATCH, JSON_PATCH):
            raise ValueError(f"not a form of patches: {form}")
        path = self.object(cluster, kind, name, namespace, subresource)
        return await self._write("PATCH", path, patch, form)

    async def apply(
        self,
        cluster: str,
        kind: GroupVersionResource,
        obj: Object,
        subresource: str = "",
        *,
        force: bool = False,
    ) -> Object:
        metadata = obj["metadata"]
        namespace = metadata.get("namespace", "")
        path = self.object(cluster, kind, metadata["name"], namespace, subresource)
        return await self._write("PATCH", path, obj, APPLY_PATCH, force="true" if force else None)

    async def delete(
        self,
        cluster: str,
        kind: GroupVersionResource,
        name: str,
        namespace: str = "",
        uid: str | None = None,
        propagation: str | None = None,
        resource_version: str | None = None,
    ) -> bool:
        conditions = {"uid": uid, "resourceVersion": resource_version}
        given = {field: value for field, value in conditions.items() if value is not None}
        options = _delete_options(propagation, given)
        path = self.object(cluster, kind, name, namespace)
        try:
            await self._body("DELETE", path, orjson.dumps(options))
        except NotFound as error:
            if error.name:
                return False
            raise
        return True

    async def delete_collection(
        self,
        cluster: str,
        kind: GroupVersionResource,
        namespace: str = "",
        *,
        labels: str = "",
        fields: str = "",
        propagation: str | None = None,
    ) -> None:
        path = self.collection(cluster, kind, namespace)
        target = with_query(path, {"labelSelector": labels, "fieldSelector": fields})
        await self._body("DELETE", target, orjson.dumps(_delete_options(propagation, {})))

    async def _write(
        self,
        method: str,
        path: str,
        body: Any,
        form: str = "application/json",
        force: str | None = None,
    ) -> Object:
        return await self.decode(
            await self._write_text(method, path, orjson.dumps(body), form, force)
        )

    async def _write_text(
        self,
        method: str,
        path: str,
        body: bytes,
        form: str = "application/json",
        force: str | None = None,
    ) -> bytes:
        target = with_query(path, {"fieldManager": self._manager, "force": force})
        return await self._body(method, target, body, form)

    # --- requests

    async def _ask(
        self, method: str, target: str, body: bytes = b"", form: str = "application/json"
    ) -> Object:
        return await self.decode(await self._body(method, target, body, form))

    async def decode(self, body: bytes) -> Object:
        """The JSON object of an answer."""
        answer: Object = orjson.loads(body)
        return answer

    async def _body(
        self,
        method: str,
        target: str,
        body: bytes = b"",
        form: str = "application/json",
        accept: str = "application/json",
    ) -> bytes:
        """The body of a successful answer; StatusError otherwise."""
        for attempt in range(_REPEATS + 1):
            headers = self.headers(accept, form if body else "")
            response, answer = await self._exchange(method, target, headers, body)
            if response.status < 400:
                return answer
            pause = pause_before_repeat(response)
            if pause is None or attempt == _REPEATS:
                raise error_of(response.status, answer)
            await self._sleep(pause)
        raise AssertionError

    async def _exchange(
        self, method: str, target: str, headers: Headers, body: bytes
    ) -> tuple[HttpResponse, bytes]:
        """One request and its whole answer."""
        response = None
        try:
            async with asyncio.timeout(self._timeout):
                response = await self.http.request(method, target, headers, body)
                answer = await response.read(self.limits.answer)
        except TimeoutError:
            if response is not None:
                response.close()
            self._note(False)
            raise ServiceUnavailable(
                "the server cannot be reached: context deadline exceeded"
            ) from None
        except SendFailed as error:
            self._note(False)
            raise ServiceUnavailable(f"the server cannot be reached: {error}") from error
        self._note(True)
        return response, answer

    def _note(self, is_answered: bool) -> None:
        if self._on_outcome is not None:
            self._on_outcome(is_answered)

    async def send(self, method: str, target: str, body: Object | None = None) -> Object:
        """A request to a path that is no resource; its JSON answer. Raises StatusError."""
        return await self._ask(method, target, b"" if body is None else orjson.dumps(body))

    async def get_with(self, target: str, headers: Headers) -> Object:
        """The JSON answer at a path that is no resource, asked with further headers.

        Raises StatusError.
        """
        sent = [*self.headers(), *headers]
        response, answer = await self._exchange("GET", target, sent, b"")
        if response.status >= 400:
            raise error_of(response.status, answer)
        return await self.decode(answer)

    def headers(self, accept: str = "application/json", content_type: str = "") -> Headers:
        headers = [("accept", accept), ("user-agent", f"pykcp/{self._manager}")]
        if content_type:
            headers.append(("content-type", content_type))
        token = self._token()
        if token:
            headers.append(("authorization", f"Bearer {token}"))
        return headers


async def identities_of_root(client: Reader) -> dict[tuple[str, str], str]:
    """The identities of what root exports, kcp's own kinds among it, by group and resource."""
    found: dict[tuple[str, str], str] = {}
    for export in await client.list(ROOT, API_EXPORTS):
        identity = (export.get("status") or {}).get("identityHash")
        for resource in (export.get("spec") or {}).get("resources") or ():
            if identity:
                found[resource.get("group") or "", resource["name"]] = identity
    return found


def pause_before_repeat(response: HttpResponse) -> float | None:
    """Seconds after which a refused request is sent again; None if it is not."""
    if response.status not in _REPEATED:
        return None
    try:
        asked = float(response.header("retry-after") or "")
    except ValueError:
        return None
    return min(max(asked, 0.0), _LONGEST_PAUSE)


def _delete_options(propagation: str | None, preconditions: Object) -> Object:
    options: Object = {"kind": "DeleteOptions", "apiVersion": "v1"}
    if propagation is not None:
        options["propagationPolicy"] = propagation
    if preconditions:
        options["preconditions"] = preconditions
    return options


def _typed(page: Object) -> list[Object]:
    """The objects of a list, each with its type: built-in kinds leave it out."""
    kind, version = page["kind"].removesuffix("List"), page["apiVersion"]
    return [{"kind": kind, "apiVersion": version, **item} for item in page.get("items") or ()]
