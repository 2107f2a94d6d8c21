"""The registry as a client: how controllers and bootstrapping in this process read and write.

They pass the same admission, validation and field management as HTTP requests.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from typing import Any

import orjson

from pykcp.aio.slices import Slices, in_slices
from pykcp.auth.user import MASTERS, User
from pykcp.clients.interface import JSON_PATCH, MERGE_PATCH, PAGE, MetadataPage, ObjectPage
from pykcp.machinery.patch import jsonpatch, mergepatch
from pykcp.machinery.resources import NAMESPACES, GroupVersionResource
from pykcp.machinery.status import NotFound
from pykcp.registry import codec
from pykcp.registry.catalog.directory import Directory
from pykcp.registry.context import RequestContext
from pykcp.registry.errors import translate
from pykcp.registry.keys import range_prefix
from pykcp.registry.local_lister import find_resource, metadata_pages, value_pages
from pykcp.registry.resource import LARGE, Resource
from pykcp.registry.verbs.changes import ObjectChange, WriteTarget
from pykcp.registry.verbs.create import create
from pykcp.registry.verbs.delete import delete, delete_collection
from pykcp.registry.verbs.deletion import DeleteOptions
from pykcp.registry.verbs.large import Edited, create_large
from pykcp.registry.verbs.read import ListOptions, list_objects
from pykcp.registry.verbs.templates import TemplateCopy
from pykcp.registry.verbs.transaction import (
    Create,
    CreateUnchecked,
    FromTemplate,
    Update,
    Write,
    transaction,
)
from pykcp.registry.verbs.update import update
from pykcp.storage.errors import StoreError
from pykcp.storage.interface import Query, Store
from pykcp.types import Object

_LONG = 64
"""Items of a list in the spec of an object that may be large."""
_LARGE_READ = 256 * 1024
"""Octets of an object that takes some milliseconds to decode."""


class LocalClient:
    """Verbs on objects of this process' store, in any logical cluster."""

    def __init__(
        self, directory: Directory, name: str, *groups: str, writes_own: bool = False
    ) -> None:
        """`writes_own`: objects of the program itself, whose size is known; no worker is asked."""
        self._directory = directory
        self._writes_own = writes_own
        self._user = User(name, groups=groups or (MASTERS,))
        self._manager = name.rpartition(":")[2]

    def resource(self, cluster: str, kind: GroupVersionResource) -> Resource:
        return find_resource(self._directory, cluster, kind)

    @property
    def _store(self) -> Store:
        return self.resource("", NAMESPACES).services.store

    def to_create(self, cluster: str, kind: GroupVersionResource, obj: Object) -> Create:
        return Create(self.resource(cluster, kind), cluster, obj)

    def to_create_unchecked(
        self, cluster: str, kind: GroupVersionResource, obj: Object
    ) -> CreateUnchecked:
        return CreateUnchecked(self.resource(cluster, kind), cluster, obj)

    def from_template(
        self, cluster: str, kind: GroupVersionResource, copy: TemplateCopy
    ) -> FromTemplate:
        return FromTemplate(self.resource(cluster, kind), cluster, copy)

    def to_update(
        self,
        cluster: str,
        kind: GroupVersionResource,
        name: str,
        make: Callable[[Object], Any],
    ) -> Update:
        return Update(self.resource(cluster, kind), cluster, name, make)

    def _context(self, cluster: str) -> RequestContext:
        return RequestContext(cluster, self._user, self._manager, field_validation="Ignore")

    # --- reading

    async def get(
        self, cluster: str, kind: GroupVersionResource, name: str, namespace: str = ""
    ) -> Object | None:
        """The object, or None if there is none. Suspends for a conversion webhook, and if the object
        is large: a controller that reads several of them lets others in between.
        """
        resource = self.resource(cluster, kind)
        try:
            entry = resource.services.store.get(resource.key(cluster, namespace, name))
        except StoreError as error:
            raise translate(error) from error
        if entry is None:
            return None
        value = await resource.own_form(entry.value)
        if len(value) < _LARGE_READ:
            return resource.object_of(value)
        return await in_slices(resource.object_in_steps(value), cluster)

    async def list(
        self,
        cluster: str,
        kind: GroupVersionResource,
        namespace: str = "",
        *,
        labels: str = "",
        fields: str = "",
    ) -> list[Object]:
        """All objects of a cluster (or of all, `*`), of a namespace, of a selection."""
        resource = self.resource(cluster, kind)
        options = ListOptions(resource.select(labels, fields))
        listing = await list_objects(resource, self._context(cluster), namespace, options)
        return await _objects(resource, listing.values, cluster)

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
        """The same, a page at a time; each page as it is when its turn comes."""
        resource = self.resource(cluster, kind)
        selection = resource.select(labels, fields)
        prefix = range_prefix(resource.prefix, cluster, namespace)
        query = Query(prefix, where=selection.conditions, residual=selection.residual)
        async for values in value_pages(resource.services.store, query, size):
            if resource.webhook is not None:
                values = await resource.webhook.from_storage(values)
            yield await _objects(resource, values, cluster)

    def metadata(
        self, cluster: str, kind: GroupVersionResource, namespace: str = "", *, size: int = PAGE
    ) -> AsyncIterator[MetadataPage]:
        """The metadata of all objects, a page at a time."""
        resource = self.resource(cluster, kind)
        prefix = range_prefix(resource.prefix, cluster, namespace)
        return metadata_pages(resource.services.store, prefix, size)

    # --- writing

    async def create(self, cluster: str, kind: GroupVersionResource, obj: Object) -> Object:
        resource = self.resource(cluster, kind)
        namespace = (obj.get("metadata") or {}).get("namespace", "")
        may_be_large = resource.large_above < LARGE or _has_long_list(obj)
        if may_be_large and not self._writes_own:
            text = orjson.dumps(obj)
            if resource.is_large(len(text), text):
                made = Edited(text)
                return await self._object(
                    resource, await create_large(resource, self._context(cluster), namespace, made)
                )
        decoded = resource.rules.decode(obj, [])
        value = await create(resource, self._context(cluster), namespace, decoded)
        return resource.object_of(value)

    async def _object(self, resource: Resource, value: bytes) -> Object:
        """A written object; a large one is decoded when it is its turn."""
        if not resource.is_large(len(value), value):
            return resource.object_of(value)
        return await in_slices(resource.object_in_steps(value))

    async def update(
        self, cluster: str, kind: GroupVersionResource, obj: Object, subresource: str = ""
    ) -> Object:
        """Write an object back; Conflict if it changed since it was read."""
        metadata = obj["metadata"]
        return await self.change(
            cluster,
            kind,
            metadata["name"],
            lambda _: obj,
            metadata.get("namespace", ""),
            subresource,
        )

    async def change(
        self,
        cluster: str,
        kind: GroupVersionResource,
        name: str,
        make: Callable[[Object], Any],
        namespace: str = "",
        subresource: str = "",
    ) -> Object:
        """Read, change and write; retried after a conflict.

        `make` changes the object in place, or returns another one. NotFound if there is none.
        """
        resource = self.resource(cluster, kind)

        def changed(live: Object | None) -> Object:
            assert live is not None  # this client's updates never create
            copy = codec.copy(live)
            made = make(copy)
            new = resource.rules.decode(copy if made is None else made, [])
            codec.strip_cluster(new)
            return new

        written = await update(
            WriteTarget(resource, self._context(cluster), namespace, name, subresource),
            ObjectChange(changed, is_patch=True, edit=None if self._writes_own else make),
        )
        return await self._object(resource, written.value)

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
        """Apply a merge patch, or a JSON patch."""
        if form == MERGE_PATCH:
            make = partial(_merged, patch)
        elif form == JSON_PATCH:
            make = partial(_patched, jsonpatch.decode(orjson.dumps(patch), strict=True)[0], cluster)
        else:
            raise ValueError(f"not a form of patches: {form}")
        return await self.change(cluster, kind, name, make, namespace, subresource)

    async def transaction(self, writes: Sequence[Write]) -> None:
        """Creates, updates of spec and status alike, deletions: all of them or none."""
        await transaction(self._store, self._context, writes)

    async def apply(
        self,
        cluster: str,
        kind: GroupVersionResource,
        obj: Object,
        subresource: str = "",
        *,
        force: bool = False,
    ) -> Object:
        """Server-side apply; creates what is missing unless a uid is given."""
        resource = self.resource(cluster, kind)
        metadata = obj["metadata"]
        now = resource.services.sources.now()

        def applied(live: Object | None) -> Object:
            merged = resource.rules.manage_apply(
                live, codec.copy(obj), self._manager, subresource, now, force=force
            )
            return resource.rules.decode_applied(merged)

        namespace, name = metadata.get("namespace", ""), metadata["name"]
        written = await update(
            WriteTarget(resource, self._context(cluster), namespace, name, subresource),
            ObjectChange(applied, is_apply=True),
        )
        return resource.object_of(written.value)

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
        """Delete; False if it was gone already."""
        resource = self.resource(cluster, kind)
        options = DeleteOptions(uid=uid, propagation=propagation, resource_version=resource_version)
        try:
            await delete(resource, self._context(cluster), namespace, name, options)
        except NotFound:
            return False
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
        """Delete all objects of a cluster, of a namespace, of a selection."""
        resource = self.resource(cluster, kind)
        selected = ListOptions(resource.select(labels, fields))
        options = DeleteOptions(propagation=propagation)
        await delete_collection(resource, self._context(cluster), namespace, options, selected)


def _has_long_list(obj: Object) -> bool:
    """Whether what a controller creates may be large: a binding, with the claims of its export."""
    spec = obj.get("spec")
    return isinstance(spec, dict) and any(
        isinstance(part, list) and len(part) > _LONG for part in spec.values()
    )


async def _objects(resource: Resource, values: Sequence[bytes], cluster: str) -> list[Object]:
    """Decoded in slices: there may be many, and large ones."""
    found: list[Object] = []
    slices = Slices(cluster)
    for value in values:
        found.append(resource.object_of(value))
        if slices.is_over():
            await slices.next()
    return found


def _merged(patch: Object, live: Object) -> Any:
    return mergepatch.apply(live, patch)


def _patched(operations: list[Any], cluster: str, live: Object) -> Any:
    return jsonpatch.apply(codec.with_cluster(live, cluster), operations)
