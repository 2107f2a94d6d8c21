"""Warnings for objects whose owner is in another namespace, where it cannot own them.

The garbage collector treats such an owner as absent and deletes the object, which surprises
its creator; the event contains the reason. Objects are not indexed by their uid, so the owner
is searched in likely namespaces: those of other objects that reference it, and those with an
object of its name. Both searches are bounded.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterable
from itertools import islice

from pykcp.aio.slices import Slices
from pykcp.caching import BoundedCache
from pykcp.clients.interface import Client
from pykcp.controllers.runtime.kinds import ServedKind, ServedKinds
from pykcp.controllers.runtime.objects import OwnerReference, metadata_of
from pykcp.machinery.resources import EVENTS, NAMESPACES
from pykcp.machinery.status import StatusError, go_quote
from pykcp.registry.clock import Timestamps
from pykcp.registry.indexes.entries import owner_entry
from pykcp.registry.keys import KeyParts, object_key, range_prefix, resource_prefix, split_key
from pykcp.storage.interface import Query, Store
from pykcp.types import Object

_log = logging.getLogger(__name__)

COMPONENT = "garbage-collector-controller"
REASON = "OwnerRefInvalidNamespace"
_LOOK = 100
"""How many places are searched for an owner, in each of the two ways."""
_TELL = 16
"""How many of an object's owners are looked for: those of thousands are no mistake to explain."""
_REMEMBER = 8192
_NAMES = uuid.UUID("6e1f1c53-2f0c-4a52-9d8c-0d1f6a1f6c11")
"""Event names are derived from their content, so that no event is created twice."""


class MisplacedOwners:
    def __init__(self, store: Store, client: Client, kinds: ServedKinds, now: Timestamps) -> None:
        self._store, self._client, self._kinds, self._now = store, client, kinds, now
        self._gone: BoundedCache[str, bool] = BoundedCache("deleted-owners", _REMEMBER)

    def forget(self, uid: str) -> None:
        """This object is deleted, so it does not have to be searched."""
        self._gone.put(uid, True)

    async def report(self, key: str, references: Iterable[OwnerReference]) -> None:
        """Record a warning for each of these owners that the object names in vain."""
        where = split_key(key)
        for reference in islice(references, _TELL):
            if await self._is_elsewhere(where, reference):
                await self._record(key, where, reference)

    async def _is_elsewhere(self, where: KeyParts, reference: OwnerReference) -> bool:
        if not reference.uid or reference.uid in self._gone:
            return False
        return await self._known_to_others(where, reference.uid) or await self._named(
            where, reference
        )

    async def _known_to_others(self, where: KeyParts, uid: str) -> bool:
        """Whether a dependent in another namespace has the owner beside it."""
        slices = Slices(where.cluster)
        for key in self._store.lookup(owner_entry(where.cluster, uid), limit=_LOOK):
            if slices.is_over():
                await slices.next()
            namespace = split_key(key).namespace
            entry = self._store.get(key) if namespace != where.namespace else None
            for other in (metadata_of(entry.value).owner_references if entry else None) or ():
                if other.uid == uid and self._lives_in(where.cluster, namespace, other):
                    return True
        return False

    async def _named(self, where: KeyParts, reference: OwnerReference) -> bool:
        """Whether another namespace has the owner under the name by which it is called."""
        prefix = range_prefix(resource_prefix("", NAMESPACES.resource), where.cluster, "")
        page = await self._store.list(Query(prefix, limit=_LOOK))
        names = (metadata_of(value).name for value in page.values)
        return any(
            self._lives_in(where.cluster, namespace, reference)
            for namespace in names
            if namespace != where.namespace
        )

    def _lives_in(self, cluster: str, namespace: str, reference: OwnerReference) -> bool:
        kind = self._kinds.by_kind(cluster, reference.api_version, reference.kind)
        if kind is None or not kind.namespaced or not namespace:
            return False
        entry = self._store.get(object_key(kind.prefix, cluster, namespace, reference.name))
        return entry is not None and metadata_of(entry.value).uid == reference.uid

    async def _record(self, key: str, where: KeyParts, reference: OwnerReference) -> None:
        entry = self._store.get(key)
        kind = self._kinds.by_prefix(where.cluster, where.resource_prefix)
        if entry is None or kind is None:
            return
        uid = metadata_of(entry.value).uid
        event = warning(kind, uid, where, reference, self._now())
        try:
            await self._client.create(where.cluster, EVENTS, event)
        except StatusError as error:  # the event exists already, or the namespace is terminating
            _log.debug("no event for %s: %s", key, error)


def warning(
    kind: ServedKind, uid: str, where: KeyParts, reference: OwnerReference, now: str
) -> Object:
    """The event for an object that names an owner of another namespace. Pure."""
    namespace = where.namespace
    owner = (
        f"[{reference.api_version}/{reference.kind}, cluster: {where.cluster}, "
        f"namespace: {namespace}, name: {reference.name}, uid: {reference.uid}]"
    )
    involved = {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "name": where.name,
        "uid": uid,
    }
    if namespace:
        involved["namespace"] = namespace
    name = str(uuid.uuid5(_NAMES, f"{uid}/{reference.uid}"))
    return {
        "metadata": {"name": name, "namespace": namespace or "default"},
        "involvedObject": involved,
        "reason": REASON,
        "message": f"ownerRef {owner} does not exist in namespace {go_quote(namespace)}",
        "type": "Warning",
        "count": 1,
        "firstTimestamp": now,
        "lastTimestamp": now,
        "source": {"component": COMPONENT},
        "reportingComponent": COMPONENT,
    }
