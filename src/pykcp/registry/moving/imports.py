"""Objects of another control plane, written with their uids and times as if they had been here.

Validation and admission have passed them there. Nothing that exists is overwritten.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pykcp.machinery.resources import GroupVersionResource
from pykcp.machinery.terms import label_terms
from pykcp.registry import codec, trash
from pykcp.registry.catalog.directory import Directory
from pykcp.registry.errors import translate
from pykcp.registry.keys import object_key, resource_prefix
from pykcp.registry.verbs.create import new_key
from pykcp.storage.errors import StoreError
from pykcp.storage.interface import Entry, Store
from pykcp.storage.operations import PutKey
from pykcp.types import Object

_AT_ONCE = 100


class ForeignObject(NamedTuple):
    """An object of another control plane, and where it belongs here."""

    kind: GroupVersionResource
    identity: str
    """Of the export of a bound resource; "" for all others."""
    cluster: str
    namespace: str
    obj: Object


class Imports:
    def __init__(self, store: Store, directory: Directory) -> None:
        self._store, self._directory = store, directory

    def exists(self, found: ForeignObject) -> bool:
        return self._store.get(self._put(found).key) is not None

    async def write(self, objects: Sequence[ForeignObject]) -> int:
        """Write those that do not exist yet; how many that were."""
        made = [self._put(found) for found in objects]
        made = [put for put in made if self._store.get(put.key) is None]
        for start in range(0, len(made), _AT_ONCE):
            try:
                await self._store.write(made[start : start + _AT_ONCE])
            except StoreError as error:
                raise translate(error) from error
        return len(made)

    def _put(self, found: ForeignObject) -> PutKey:
        obj = codec.copy(found.obj)
        obj["metadata"].pop("resourceVersion", None)
        resource = self._directory.find_system(*found.kind)
        if resource is not None:
            obj.pop("kind", None)
            obj.pop("apiVersion", None)
            return new_key(resource, found.cluster, found.namespace, obj)
        return _custom(found, obj)


def _custom(found: ForeignObject, obj: Object) -> PutKey:
    """An object of a CRD or of a bound schema; it says which version it is stored in."""
    metadata = obj["metadata"]
    prefix = resource_prefix(found.kind.group, found.kind.resource, found.identity)
    key = object_key(prefix, found.cluster, found.namespace, metadata["name"])
    fields = {"metadata.name": metadata["name"]}
    if found.namespace:
        fields["metadata.namespace"] = found.namespace
    version = codec.version_suffix(str(obj.get("apiVersion") or ""))
    value = codec.encode(obj, found.cluster, version)
    terms = label_terms(metadata.get("labels"), fields)
    made = trash.indexed(key, Entry(key, 0, codec.fill(value, 0), terms))
    return made._replace(value=value, expect=0)
