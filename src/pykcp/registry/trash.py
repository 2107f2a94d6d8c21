"""Keys and records of the trash for deleted workspaces. Pure.

Every object that was in a workspace lies under its own key with a mark in front and in the
logical cluster `system:trash`, where no request lists, watches or counts it:

    core/secrets/<cluster>/<namespace>/<name>
    ~core/secrets/system:trash/<cluster>/<namespace>/<name>

A *record* holds the Workspace and the LogicalCluster themselves. Records lie in the order in
which they were made, so the first one is the next to go.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from pykcp.machinery.resources import API_BINDINGS, GroupVersionResource
from pykcp.registry import codec
from pykcp.registry.indexes.apis import bindings_to_schema
from pykcp.registry.indexes.entries import OF_KIND, KindIndex, index_entries
from pykcp.registry.keys import kind_prefix, object_key, split_key
from pykcp.storage.interface import Entry, Store, Value
from pykcp.storage.keys import TRASH as MARK
from pykcp.storage.operations import DeleteKey, PutKey
from pykcp.types import Object

CLUSTER = "system:trash"
RECORDS = f"{MARK}tenancy.pykcp.io/trash/"
UNFINISHED = "trash-unfinished"
"""Records of workspaces that are being restored."""
RESTORING, RESTORED = "restoring", "restored"
_BINDINGS = kind_prefix(API_BINDINGS)
_EVENTS = "core/events/"


def content_of(cluster: str) -> str:
    """Finds what was in a logical cluster."""
    return f"trash:{cluster}"


def record_of(cluster: str) -> str:
    """Finds the record of a logical cluster."""
    return f"trash-record:{cluster}"


def records_in(parent: str) -> str:
    """Finds the records of the workspaces that were in a logical cluster."""
    return f"trashed-in:{parent}"


def is_trash(key: str) -> bool:
    return key.startswith(MARK)


def trash_key(key: str) -> str:
    prefix, cluster, namespace, name = split_key(key)
    return f"{MARK}{prefix}{CLUSTER}/{cluster}/{namespace}/{name}"


def original_key(key: str) -> str:
    prefix, _, cluster, place = split_key(key)
    return f"{prefix[len(MARK) :]}{cluster}/{place}"


def moved_to_trash(store: Store, entry: Entry) -> tuple[DeleteKey] | tuple[DeleteKey, PutKey]:
    """What deletes an object of a workspace, as watchers see it, and keeps it in the trash.

    Events are not kept, nor is an object that took the place of one that is in the trash already:
    it was made while its workspace was being deleted.
    """
    deletion, kept = moved(entry)
    if entry.key.startswith(_EVENTS) or store.get(kept.key) is not None:
        return (deletion,)
    return deletion, kept


def moved(entry: Entry) -> tuple[DeleteKey, PutKey]:
    """The deletion of an object, and what puts it into the trash."""
    cluster = split_key(entry.key).cluster
    value = codec.reopen(entry.value)
    indexes = [content_of(cluster)]
    if entry.key.startswith(_BINDINGS):
        indexes += _schemas_of(codec.decode(entry.value))
    kept = PutKey(trash_key(entry.key), value, entry.terms, tuple(dict.fromkeys(indexes)))
    return DeleteKey(entry.key, value, entry.revision), kept


def _schemas_of(binding: Object) -> Iterable[str]:
    """Bound schemas stay for as long as a binding in the trash may be restored."""
    for bound in (binding.get("status") or {}).get("boundResources") or ():
        yield bindings_to_schema(bound["schema"]["UID"])


def restored(entry: Entry) -> PutKey:
    """What puts an object of the trash back into its workspace, unchanged."""
    return indexed(original_key(entry.key), entry)


def indexed(key: str, entry: Entry) -> PutKey:
    """What writes a stored object under a key, with the index entries of its kind."""
    parts = split_key(key)
    stored = codec.decode(entry.value)
    entries = index_entries(parts.cluster, stored)
    of_kind = _OF_KIND.get(parts.resource_prefix)
    if of_kind is not None:
        entries = (*entries, *of_kind(parts.cluster, stored))
    return PutKey(key, codec.reopen(entry.value), entry.terms, entries)


def generations(owners: Mapping[str, Collection[str]]) -> dict[str, int]:
    """How long the longest chain of owners above each is; members of a cycle come last.

    Objects may own one another in any number of ways: each is visited once.
    """
    below: dict[str, list[str]] = {}
    missing = {key: len(above) for key, above in owners.items()}
    for key, above in owners.items():
        for owner in above:
            below.setdefault(owner, []).append(key)
    found: dict[str, int] = {}
    ready = deque(key for key in {*owners, *below} if not missing.get(key))
    while ready:
        key = ready.popleft()
        generation = found.setdefault(key, 0)
        for child in below.get(key, ()):
            found[child] = max(found.get(child, 0), generation + 1)
            missing[child] -= 1
            if not missing[child]:
                ready.append(child)
    last = len(owners) + 1
    return found | {key: last for key, left in missing.items() if left}


def _by_prefix() -> dict[str, KindIndex]:
    found = {}
    for name, entries in OF_KIND.items():
        plural, _, group = name.partition(".")
        found[kind_prefix(GroupVersionResource(group, "", plural))] = entries
    return found


_OF_KIND = _by_prefix()


class Record(NamedTuple):
    """A workspace that was deleted."""

    deleted_at: str
    parent: str
    """The logical cluster that it was in."""
    path: str
    workspace: Object
    logical_cluster: Object
    """Both as they were stored at the end."""
    state: str = ""
    requested_by: Object = {}  # noqa: RUF012 — never changed
    """The user who asked to restore it, as in reviews; empty if that was not asked for."""

    @property
    def name(self) -> str:
        name: str = self.workspace["metadata"]["name"]
        return name

    @property
    def cluster(self) -> str:
        cluster: str = self.workspace["spec"]["cluster"]
        return cluster

    @property
    def key(self) -> str:
        return object_key(RECORDS, CLUSTER, self.deleted_at, self.cluster)

    @property
    def indexes(self) -> tuple[str, ...]:
        found = (record_of(self.cluster), records_in(self.parent))
        return (*found, UNFINISHED) if self.state else found

    def encoded(self) -> Value:
        obj: Object = {"metadata": {"name": self.name}, **self._asdict()}
        return codec.encode(obj, CLUSTER)


def record_from(value: bytes) -> Record:
    return record_of_json(codec.decode(value))


def record_of_json(stored: Object) -> Record:
    # Records of earlier versions lack the fields that came later.
    return Record(**{field: stored[field] for field in Record._fields if field in stored})
