"""The garbage collector's decision about one object, given its owners. Pure.

An object stays as long as one of its owners does. Owners that are absent, and owners that wait
for their dependents to go (foreground deletion), do not keep it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, TypeAlias

from pykcp.machinery.metadata import Metadata, OwnerReference
from pykcp.registry.verbs.deletion import FOREGROUND, ORPHAN


class OwnerState(Enum):
    SOLID = "solid"
    """It exists and does not wait for its dependents."""
    ABSENT = "absent"
    """There is none of that name, or it is another one (by uid)."""
    WAITING = "waiting"
    """It is being deleted and waits for its dependents to go first."""
    UNKNOWN = "unknown"
    """Unknown, because its kind is not served in this cluster."""
    IMPOSSIBLE = "impossible"
    """A cluster-scoped object cannot have a namespaced owner; nothing is decided by it."""


NOT_HERE = frozenset((OwnerState.ABSENT, OwnerState.IMPOSSIBLE))
"""The owner does not exist at the referenced location; it may exist in another namespace."""


class Owner(NamedTuple):
    reference: OwnerReference
    state: OwnerState


@dataclass(frozen=True, slots=True)
class Keep:
    """Nothing to do."""


@dataclass(frozen=True, slots=True)
class WaitForKind:
    """An owner's kind is not known (yet)."""


@dataclass(frozen=True, slots=True)
class Unreference:
    """The object stays; these of its owners no longer count."""

    uids: frozenset[str]


@dataclass(frozen=True, slots=True)
class Remove:
    propagation: str
    unblocks_owners: bool = False
    """First stop blocking the owners: the object and its own dependents may form a circle."""


Step: TypeAlias = Keep | WaitForKind | Unreference | Remove


class Dependents(Enum):
    """What is known of an object's own dependents."""

    NONE = 0
    SOME = 1
    SOME_WAITING = 2
    """One of them waits for dependents itself."""


def plan(item: Metadata, owners: Sequence[Owner], dependents: Dependents) -> Step:
    """What to do with an object that is not being deleted."""
    states = {owner.state for owner in owners}
    if not owners or OwnerState.IMPOSSIBLE in states:
        return Keep()
    if OwnerState.UNKNOWN in states:
        return WaitForKind()
    if OwnerState.SOLID in states:
        gone = frozenset(o.reference.uid for o in owners if o.state is not OwnerState.SOLID)
        return Unreference(gone) if gone else Keep()
    if OwnerState.WAITING in states and dependents is not Dependents.NONE:
        return Remove("Foreground", unblocks_owners=dependents is Dependents.SOME_WAITING)
    if item.has_finalizer(ORPHAN):
        return Remove("Orphan")
    if item.has_finalizer(FOREGROUND):
        return Remove("Foreground")
    return Remove("Background")


def state_of_owner(reference: OwnerReference, owner: Metadata | None) -> OwnerState:
    """The state of an owner that was looked for where the reference says it is."""
    if owner is None or owner.uid != reference.uid:
        return OwnerState.ABSENT
    return OwnerState.WAITING if waits_for_dependents(owner) else OwnerState.SOLID


def waits_for_dependents(item: Metadata) -> bool:
    return item.is_deleting and item.has_finalizer(FOREGROUND)


def blocks(item: Metadata, owner_uid: str) -> bool:
    """Whether an owner in foreground deletion has to wait for this dependent."""
    return any(
        reference.uid == owner_uid and reference.block_owner_deletion
        for reference in item.owner_references or ()
    )
