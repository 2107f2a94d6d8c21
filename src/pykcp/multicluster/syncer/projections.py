"""What a syncer keeps of the objects on both sides: what its decisions need, not whole objects.

`LeafStore` and `CopyStore` take the events of informers. They are told the same state several
times, from a watch and from the answers to writes, and keep the newest.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import orjson

from pykcp.clients.interface import Change
from pykcp.machinery.meta import CLUSTER_ANNOTATION, is_deleting, labels
from pykcp.machinery.meta import annotations as annotations_of
from pykcp.machinery.object_keys import ObjectKey
from pykcp.multicluster.names import (
    APPLIED_HASH,
    CONFLICT_RESOLUTION,
    NAMESPACE_LOCATOR,
    ORIGIN_GENERATION,
    ORIGIN_NAME,
    ORIGIN_UID,
    ROOT_UID,
    SYNC_STATE,
    UNSCHEDULABLE,
    Locator,
)
from pykcp.multicluster.syncer.drift import covers, without_volatile
from pykcp.multicluster.syncer.render import CopyName, TypeName, content_hash, render
from pykcp.multicluster.syncer.settings import Registration
from pykcp.types import Object

_OVERWRITE = "Overwrite"


@dataclass(slots=True)
class Leaf:
    """An object of a workspace that is assigned to the cluster."""

    key: ObjectKey
    uid: str
    version: str
    generation: int
    finalizers: tuple[str, ...]
    is_terminating: bool
    takes_over: bool
    """Overwrites an object of the cluster that is in the way."""
    locator: Locator
    target: CopyName
    body: bytes
    """What is applied, as JSON."""
    hash: str
    status: str
    """Hash of the status."""
    state: str
    """What the syncer has noted about it, see `SYNC_STATE`."""
    changed_at: float
    """When this generation was first seen."""
    observed: int = 0
    """The generation that its status says was observed."""
    root: str = ""
    """UID of the object that it is a part of."""
    unschedulable: str = ""
    """What was noted about replicas that no node takes."""
    reported: tuple[str, str] = ("", "")
    """Hashes of the copy's status that was written last, and of what it became here."""
    reported_at: float = 0.0


@dataclass(slots=True)
class SyncedCopy:
    """An object of the cluster that carries the label of this registration."""

    uid: str
    version: str
    origin_uid: str
    origin_name: str
    hash: str
    is_terminating: bool
    is_intact: bool
    """It has all fields that were applied."""
    status: bytes | None
    """As it is reported, JSON; None if it has none."""
    status_hash: str = ""
    locator: str = ""
    """Of a copy without a namespace."""
    changed_at: float = 0.0
    """When this status was first seen."""


def reported_status(live: Object) -> Any:
    """The status of a copy in terms of its origin: generations are counted there."""
    status = live.get("status")
    if not isinstance(status, dict) or not status:
        return None
    observed = status.get("observedGeneration")
    applied = annotations_of(live).get(ORIGIN_GENERATION, "")
    if not isinstance(observed, int) or not applied.isdecimal():
        return status
    is_current = observed >= (live["metadata"].get("generation") or 0)
    return {**status, "observedGeneration": int(applied) - (0 if is_current else 1)}


def is_newer(version: str, than: str) -> bool:
    """Whether one version of an object follows another one, or is it."""
    if version.isdecimal() and than.isdecimal():
        return int(version) >= int(than)
    return True


class LeafStore:
    """The assigned objects of one type; an `ObjectHolder` of its informer."""

    def __init__(
        self, kind: TypeName, registration: Registration, changed: Callable[[ObjectKey], None]
    ) -> None:
        """`changed`: called with each object that changed or went."""
        self._kind, self._registration, self._changed = kind, registration, changed
        self._leaves: dict[ObjectKey, Leaf] = {}
        self._targets: dict[CopyName, ObjectKey] = {}
        self._rivals: dict[CopyName, list[ObjectKey]] = {}
        """Other objects whose copies would have the same name."""
        self._unseen: set[ObjectKey] | None = None
        self.released: dict[ObjectKey, Leaf] = {}
        """Objects that went, until the syncer has looked at their copies."""

    def __len__(self) -> int:
        return len(self._leaves)

    def __iter__(self) -> Iterator[Leaf]:
        return iter(list(self._leaves.values()))

    def get(self, key: ObjectKey) -> Leaf | None:
        return self._leaves.get(key)

    def owner(self, target: CopyName) -> Leaf | None:
        """The object whose copy has this name: the first one, if several want it."""
        key = self._targets.get(target)
        return self._leaves.get(key) if key is not None else None

    # --- told by the informer

    def put(self, value: bytes) -> Change | None:
        self.note(orjson.loads(value))
        return None

    def note(self, obj: Object) -> Leaf:
        """The state of an object, from an event or an answer."""
        key = self._key(obj)
        if self._unseen is not None:
            self._unseen.discard(key)
        before = self._leaves.get(key)
        if before is not None and not is_newer(obj["metadata"]["resourceVersion"], before.version):
            return before
        leaf = self._project(key, obj, before)
        if before is not None and before.target != leaf.target:
            self._free(before)
        if before is not None and before.uid != leaf.uid:
            self.released[key] = before
        self._leaves[key] = leaf
        if self._targets.setdefault(leaf.target, key) != key:
            rivals = self._rivals.setdefault(leaf.target, [])
            if key not in rivals:
                rivals.append(key)
        self._changed(key)
        return leaf

    def remove(self, value: bytes) -> Change | None:
        self._drop(self._key(orjson.loads(value)))
        return None

    def _drop(self, key: ObjectKey) -> None:
        leaf = self._leaves.pop(key, None)
        if leaf is not None:
            self._free(leaf)
            self.released[key] = leaf
            self._changed(key)

    def _free(self, leaf: Leaf) -> None:
        """Its name may be used by another object that wanted it, too."""
        rivals = self._rivals.get(leaf.target, [])
        if leaf.key in rivals:
            rivals.remove(leaf.key)
        elif self._targets.get(leaf.target) == leaf.key:
            del self._targets[leaf.target]
            if rivals:
                key = self._targets[leaf.target] = rivals.pop(0)
                self._changed(key)
        if not rivals:
            self._rivals.pop(leaf.target, None)

    def begin_replacing(self) -> None:
        """All objects of the Cluster's own workspace follow."""
        own = self._registration.workspace
        self._unseen = {key for key in self._leaves if key.cluster == own}

    def end_replacing(self) -> Iterable[Change]:
        for key in self._unseen or ():
            self._drop(key)
        self._unseen = None
        return ()

    def contents(self) -> Iterable[Change]:
        return ()

    async def settle(self) -> None:
        """Nothing to wait for."""

    def _key(self, obj: Object) -> ObjectKey:
        metadata = obj["metadata"]
        cluster = annotations_of(obj).get(CLUSTER_ANNOTATION) or self._registration.workspace
        return ObjectKey(cluster, metadata.get("namespace") or "", metadata["name"])

    def _project(self, key: ObjectKey, obj: Object, before: Leaf | None) -> Leaf:
        registration, metadata, notes = self._registration, obj["metadata"], annotations_of(obj)
        locator = Locator(registration.installation, registration.uid, key.cluster, key.namespace)
        made = render(self._kind, obj, locator, registration.downstream_label)
        status = obj.get("status")
        is_same = before is not None and before.uid == metadata["uid"]
        leaf = Leaf(
            key,
            metadata["uid"],
            metadata["resourceVersion"],
            metadata.get("generation") or 0,
            tuple(metadata.get("finalizers") or ()),
            is_deleting(obj),
            notes.get(CONFLICT_RESOLUTION) == _OVERWRITE,
            locator,
            made.target,
            made.body,
            made.hash,
            content_hash(status) if status else "",
            notes.get(SYNC_STATE, ""),
            time.monotonic(),
            _observed(status),
            notes.get(ROOT_UID, ""),
            notes.get(UNSCHEDULABLE, ""),
        )
        if is_same and before is not None:
            leaf.reported, leaf.reported_at = before.reported, before.reported_at
            if before.hash == leaf.hash:
                leaf.changed_at = before.changed_at
        return leaf


def _observed(status: Any) -> int:
    found = status.get("observedGeneration") if isinstance(status, dict) else None
    return found if isinstance(found, int) else 0


class CopyStore:
    """The copies of one type in the cluster; an `ObjectHolder` of its informer."""

    def __init__(self, leaves: LeafStore, changed: Callable[[CopyName], None]) -> None:
        self._leaves, self._changed = leaves, changed
        self._copies: dict[CopyName, SyncedCopy] = {}
        self._accepted: dict[CopyName, str] = {}
        """Content that the server makes of what is applied, where it is written differently."""
        self._unseen: set[CopyName] | None = None

    def __len__(self) -> int:
        return len(self._copies)

    def items(self) -> list[tuple[CopyName, SyncedCopy]]:
        return list(self._copies.items())

    def get(self, target: CopyName) -> SyncedCopy | None:
        return self._copies.get(target)

    def put(self, value: bytes) -> Change | None:
        self.note(orjson.loads(value))
        return None

    def note(self, live: Object, *, is_applied: bool = False) -> SyncedCopy:
        """The state of a copy; `is_applied`: it is the answer to an apply."""
        target = target_of(live)
        if self._unseen is not None:
            self._unseen.discard(target)
        before = self._copies.get(target)
        version = live["metadata"]["resourceVersion"]
        if before is not None and before.uid == live["metadata"]["uid"]:
            if not is_newer(version, before.version):
                return before
            if before.version == version and not is_applied:
                return before
        copy = self._project(target, live, is_applied=is_applied)
        is_same = before is not None and before.status_hash == copy.status_hash
        copy.changed_at = before.changed_at if before and is_same else time.monotonic()
        self._copies[target] = copy
        self._changed(target)
        return copy

    def remove(self, value: bytes) -> Change | None:
        self.drop(target_of(orjson.loads(value)))
        return None

    def drop(self, target: CopyName) -> None:
        """It is gone, or no longer carries the label."""
        if self._copies.pop(target, None) is not None:
            self._accepted.pop(target, None)
            self._changed(target)

    def begin_replacing(self) -> None:
        self._unseen = set(self._copies)

    def end_replacing(self) -> Iterable[Change]:
        for target in self._unseen or ():
            self.drop(target)
        self._unseen = None
        return ()

    def contents(self) -> Iterable[Change]:
        return ()

    async def settle(self) -> None:
        """Nothing to wait for."""

    def _project(self, target: CopyName, live: Object, *, is_applied: bool) -> SyncedCopy:
        metadata, notes = live["metadata"], annotations_of(live)
        status = reported_status(live)
        return SyncedCopy(
            metadata["uid"],
            metadata["resourceVersion"],
            notes.get(ORIGIN_UID, ""),
            notes.get(ORIGIN_NAME, ""),
            notes.get(APPLIED_HASH, ""),
            is_deleting(live),
            self._is_intact(target, live, is_applied=is_applied),
            orjson.dumps(status) if status is not None else None,
            content_hash(status) if status is not None else "",
            "" if target.namespace else notes.get(NAMESPACE_LOCATOR, ""),
        )

    def _is_intact(self, target: CopyName, live: Object, *, is_applied: bool) -> bool:
        leaf = self._leaves.owner(target)
        if leaf is None or annotations_of(live).get(APPLIED_HASH) != leaf.hash:
            return False  # it is applied anyway
        if covers(live, orjson.loads(leaf.body)):
            return True
        found = content_hash(without_volatile(live))
        if is_applied:
            self._accepted[target] = found
        return self._accepted.get(target) == found


def target_of(live: Object) -> CopyName:
    metadata = live["metadata"]
    return CopyName(metadata.get("namespace") or "", metadata["name"])


def is_labelled(live: Object, key: str, value: str) -> bool:
    return labels(live).get(key) == value
