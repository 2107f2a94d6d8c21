"""Ownership of a resource in a logical cluster: one APIBinding, or a CRD of the cluster.

It is stored in an annotation of the LogicalCluster, a map from `<resource>.<group>` to its owner.
The first owner keeps the resource until it is deleted. The lock of a CRD that is about to be
created expires, in case the create fails.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

import orjson

ANNOTATION = "internal.apis.kcp.io/resource-bindings"


class ResourceLock(NamedTuple):
    """A binding's by its name, or a CRD's; `expiry` is a timestamp, or "" for none."""

    binding: str = ""
    is_crd: bool = False
    expiry: str = ""

    @property
    def owner(self) -> tuple[str, bool]:
        return self.binding, self.is_crd

    def __str__(self) -> str:
        """As it stands in messages."""
        return f"{{{self.binding} {str(self.is_crd).lower()}}}"


Locks = dict[str, ResourceLock]


class MalformedLocks(ValueError):
    """The annotation is not what it should be."""


def lock_name(group: str, resource: str) -> str:
    return f"{resource}.{group}" if group else resource


def bindings_in(locks: Mapping[str, ResourceLock], groups: Collection[str]) -> set[str]:
    """The bindings that have something of some groups."""
    return {
        lock.binding
        for name, lock in locks.items()
        if lock.binding and name.partition(".")[2] in groups
    }


def parse(annotation: str) -> Locks:
    """The locks that an annotation says; none if it is empty."""
    if not annotation:
        return {}
    try:
        found = orjson.loads(annotation)
        return {
            name: ResourceLock(lock.get("n") or "", bool(lock.get("c")), lock.get("e") or "")
            for name, lock in (found or {}).items()
        }
    except (ValueError, AttributeError) as error:
        raise MalformedLocks(f"failed to unmarshal ResourceBindings annotation: {error}") from error


def text(locks: Mapping[str, ResourceLock]) -> str:
    """The annotation for these locks, as kcp writes it."""
    shown = {name: _fields(locks[name]) for name in sorted(locks)}
    return json.dumps(shown, separators=(",", ":"), ensure_ascii=False)


def _fields(lock: ResourceLock) -> dict[str, str | bool]:
    fields: dict[str, str | bool] = {}
    if lock.binding:
        fields["n"] = lock.binding
    if lock.is_crd:
        fields["c"] = True
    if lock.expiry:
        fields["e"] = lock.expiry
    return fields


def acquire(
    locks: Mapping[str, ResourceLock],
    wanted: Iterable[str],
    lock: ResourceLock,
    *,
    crds: Collection[str] = (),
    now: str,
) -> tuple[Locks, Locks]:
    """The locks after acquiring the free ones, and the locks held by others.

    `crds`: the existing CRDs. An expired lock of a CRD is free if the CRD was never created.
    """
    after, held = dict(locks), {}
    for name in wanted:
        found = locks.get(name)
        if found is None or found.owner == lock.owner or _is_over(name, found, crds, now):
            after[name] = lock
        else:
            held[name] = found
    return after, held


def _is_over(name: str, lock: ResourceLock, crds: Collection[str], now: str) -> bool:
    return lock.is_crd and name not in crds and lock.expiry != "" and now > lock.expiry


def pruned(
    locks: Mapping[str, ResourceLock],
    *,
    bindings: Collection[str],
    crds: Collection[str],
    established: Collection[str],
    now: str,
) -> Locks:
    """The locks without those of bindings and CRDs that are gone, with those of all CRDs.

    `crds` and those of them that are `established` go by the names of their locks.
    """
    kept = {}
    for name, lock in locks.items():
        if not lock.is_crd:
            if lock.binding in bindings:
                kept[name] = lock
        elif name in crds:
            kept[name] = ResourceLock(is_crd=True)
        elif lock.expiry and now <= lock.expiry:
            kept[name] = lock  # its CRD may still be on the way
    for name in established:
        kept.setdefault(name, ResourceLock(is_crd=True))
    return kept


def next_expiry(locks: Mapping[str, ResourceLock]) -> str:
    """When the first of them expires; "" if none does."""
    return min((lock.expiry for lock in locks.values() if lock.expiry), default="")
