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
from pykcp.clients.interface import Client, Lister
from pykcp.controllers.runtime.kinds import ServedKind, ServedKinds
from pykcp.machinery.metadata import OwnerReference, metadata_of
from pykcp.machinery.object_keys import ObjectRef
from pykcp.machinery.resources import EVENTS, NAMESPACES
from pykcp.machinery.status import StatusError, go_quote
from pykcp.registry.clock import Timestamps
from pykcp.registry.indexes.entries import owner_entry
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
    def __init__(self, lister: Lister, client: Client, kinds: ServedKinds, now: Timestamps) -> None:
        self._lister, self._client, self._kinds, self._now = lister, client, kinds, now
        self._gone: BoundedCache[str, bool] = BoundedCache("deleted-owners", _REMEMBER)

    def forget(self, uid: str) -> None:
        """This object is deleted, so it does not have to be searched."""
        self._gone.put(uid, True)

    async def report(self, where: ObjectRef, references: Iterable[OwnerReference]) -> None:
        """Record a warning for each of these owners that the object names in vain."""
        for reference in islice(references, _TELL):
            if await self._is_elsewhere(where, reference):
                await self._record(where, reference)

    async def _is_elsewhere(self, where: ObjectRef, reference: OwnerReference) -> bool:
        if not reference.uid or reference.uid in self._gone:
            return False
        return await self._known_to_others(where, reference.uid) or self._is_named(where, reference)

    async def _known_to_others(self, where: ObjectRef, uid: str) -> bool:
        """Whether a dependent in another namespace has the owner beside it."""
        slices = Slices(where.cluster)
        for ref in self._lister.find(owner_entry(where.cluster, uid), limit=_LOOK):
            if slices.is_over():
                await slices.next()
            value = self._lister.value(ref) if ref.namespace != where.namespace else None
            for other in (metadata_of(value).owner_references if value else None) or ():
                if other.uid == uid and self._lives_in(where.cluster, ref.namespace, other):
                    return True
        return False

    def _is_named(self, where: ObjectRef, reference: OwnerReference) -> bool:
        """Whether another namespace has the owner under the name by which it is called."""
        return any(
            self._lives_in(where.cluster, namespace.name, reference)
            for namespace in self._lister.keys(NAMESPACES, where.cluster, limit=_LOOK)
            if namespace.name != where.namespace
        )

    def _lives_in(self, cluster: str, namespace: str, reference: OwnerReference) -> bool:
        kind = self._kinds.by_kind(cluster, reference.api_version, reference.kind)
        if kind is None or not kind.namespaced or not namespace:
            return False
        value = self._lister.value(ObjectRef(kind.stored, cluster, namespace, reference.name))
        return value is not None and metadata_of(value).uid == reference.uid

    async def _record(self, where: ObjectRef, reference: OwnerReference) -> None:
        value = self._lister.value(where)
        kind = self._kinds.by_stored(where.cluster, where.resource)
        if value is None or kind is None:
            return
        uid = metadata_of(value).uid
        event = warning(kind, uid, where, reference, self._now())
        try:
            await self._client.create(where.cluster, EVENTS, event)
        except StatusError as error:  # the event exists already, or the namespace is terminating
            _log.debug("no event for %s: %s", where, error)


def warning(
    kind: ServedKind, uid: str, where: ObjectRef, reference: OwnerReference, now: str
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
