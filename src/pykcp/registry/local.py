"""The registry as a client: how controllers and bootstrapping in this process read and write.

They pass the same admission, validation and field management as HTTP requests.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import orjson

from pykcp.aio.slices import Slices
from pykcp.aio.turns import heavy_turn
from pykcp.auth.user import MASTERS, User
from pykcp.machinery.resources import NAMESPACES, GroupVersionResource
from pykcp.machinery.status import NotFound
from pykcp.registry import codec
from pykcp.registry.catalog.directory import Directory
from pykcp.registry.context import RequestContext
from pykcp.registry.resource import LARGE, Resource
from pykcp.registry.verbs.changes import ObjectChange, WriteTarget
from pykcp.registry.verbs.create import create
from pykcp.registry.verbs.delete import delete
from pykcp.registry.verbs.deletion import DeleteOptions
from pykcp.registry.verbs.large import Edited, create_large
from pykcp.registry.verbs.read import ListOptions, list_objects
from pykcp.registry.verbs.templates import TemplateCopy
from pykcp.registry.verbs.transaction import (
    Create,
    FromTemplate,
    Update,
    Write,
    transaction,
)
from pykcp.registry.verbs.update import update
from pykcp.storage.interface import Store
from pykcp.types import Object


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
        directory = self._directory
        found = directory.find_system(*kind) or directory.find(cluster, *kind)
        if found is None:
            raise NotFound(f"{kind} is not served in logical cluster {cluster}")
        return found

    @property
    def _store(self) -> Store:
        return self.resource("", NAMESPACES).services.store

    def to_create(self, cluster: str, kind: GroupVersionResource, obj: Object) -> Create:
        return Create(self.resource(cluster, kind), cluster, obj)

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

    def get(
        self, cluster: str, kind: GroupVersionResource, name: str, namespace: str = ""
    ) -> Object | None:
        """The object, or None if there is none."""
        resource = self.resource(cluster, kind)
        entry = resource.services.store.get(resource.key(cluster, namespace, name))
        return None if entry is None else resource.object_of(entry.value)

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
        found: list[Object] = []
        slices = Slices(cluster)
        for value in listing.values:
            found.append(resource.object_of(value))
            if slices.is_over():
                await slices.next()
        return found

    async def create(self, cluster: str, kind: GroupVersionResource, obj: Object) -> Object:
        resource = self.resource(cluster, kind)
        namespace = (obj.get("metadata") or {}).get("namespace", "")
        if (
            resource.large_above < LARGE and not self._writes_own
        ):  # only such objects of controllers can be large
            text = orjson.dumps(obj)
            if resource.is_large(len(text)):
                made = Edited(text)
                return await self._object(
                    resource, await create_large(resource, self._context(cluster), namespace, made)
                )
        decoded = resource.rules.decode(obj, [])
        value = await create(resource, self._context(cluster), namespace, decoded)
        return resource.object_of(value)

    async def _object(self, resource: Resource, value: bytes) -> Object:
        """A written object; a large one is decoded when it is its turn."""
        if not resource.is_large(len(value)):
            return resource.object_of(value)
        async with heavy_turn():
            return resource.object_of(value)

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

    async def transaction(self, writes: Sequence[Write]) -> None:
        """Creates, updates of spec and status alike, deletions: all of them or none."""
        await transaction(self._store, self._context, writes)

    async def apply(
        self, cluster: str, kind: GroupVersionResource, obj: Object, *, force: bool = False
    ) -> Object:
        """Server-side apply; creates what is missing unless a uid is given."""
        resource = self.resource(cluster, kind)
        metadata = obj["metadata"]
        now = resource.services.sources.now()

        def applied(live: Object | None) -> Object:
            merged = resource.rules.manage_apply(
                live, codec.copy(obj), self._manager, "", now, force=force
            )
            return resource.rules.decode_applied(merged)

        namespace, name = metadata.get("namespace", ""), metadata["name"]
        written = await update(
            WriteTarget(resource, self._context(cluster), namespace, name),
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
