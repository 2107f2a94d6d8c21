"""The local copy of one kind in a remote feed: objects as JSON, with an index.

Pure: it takes the server's events and returns the resulting changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import orjson

from pykcp.clients.interface import Change
from pykcp.machinery.object_keys import ObjectKey, ObjectRef
from pykcp.machinery.terms import label_terms
from pykcp.types import Object

CLUSTER_ANNOTATION = "kcp.io/cluster"

IndexEntries = Callable[[str, Object], Iterable[str]]
"""The index entries of an object in a logical cluster."""


def _no_entries(_cluster: str, _obj: Object) -> Iterable[str]:
    return ()


class HeldObjects:
    def __init__(
        self, resource: str, cluster: str = "", entries: IndexEntries = _no_entries
    ) -> None:
        """`resource`: its `resource_id`; `cluster`: of objects that do not say theirs."""
        self.resource = resource
        self._cluster, self._entries_of = cluster, entries
        self._values: dict[ObjectKey, tuple[int, bytes]] = {}
        self._entries: dict[ObjectKey, tuple[str, ...]] = {}
        self._by_entry: dict[str, set[ObjectKey]] = {}
        self._unseen: set[ObjectKey] | None = None
        """While all objects are listed again: those that have not been listed yet."""

    def __len__(self) -> int:
        return len(self._values)

    def __iter__(self) -> Iterator[ObjectKey]:
        return iter(self._values)

    def value(self, key: ObjectKey) -> bytes | None:
        found = self._values.get(key)
        return None if found is None else found[1]

    def version(self, key: ObjectKey) -> int | None:
        found = self._values.get(key)
        return None if found is None else found[0]

    def found_by(self, entry: str) -> Iterable[ObjectKey]:
        return self._by_entry.get(entry, ())

    # --- what the server says

    def put(self, value: bytes) -> Change | None:
        """An object as it is now; None if that was known."""
        obj: Object = orjson.loads(value)
        key, revision = self._key(obj), _revision(obj)
        if self._unseen is not None:
            self._unseen.discard(key)
        before = self._values.get(key)
        if before is not None and before[0] == revision and revision:
            return None
        self._values[key] = (revision, value)
        self._index(key, tuple(self._entries_of(key.cluster, obj)))
        return self._change(key, obj, value, before, is_deleted=False)

    def remove(self, value: bytes) -> Change | None:
        """An object that is gone, in its last state; None if it was not known."""
        obj: Object = orjson.loads(value)
        key = self._key(obj)
        before = self._values.pop(key, None)
        if before is None:
            return None
        self._index(key, ())
        return self._change(key, obj, value, before, is_deleted=True)

    def begin_replacing(self) -> None:
        """Start a full replacement; objects that are not listed until its end have been deleted."""
        self._unseen = set(self._values)

    def end_replacing(self) -> Iterator[Change]:
        """All have been told: the deletions that were missed."""
        for key in sorted(self._unseen or ()):
            change = self.remove(self._values[key][1])
            if change is not None:
                yield change
        self._unseen = None

    def contents(self) -> Iterator[Change]:
        """Everything as if it had just been created, for a handler that comes late."""
        for key, (_, value) in list(self._values.items()):
            yield self._change(key, orjson.loads(value), value, None, is_deleted=False)

    async def settle(self) -> None:
        """Nothing to wait for: objects are in memory."""

    def _key(self, obj: Object) -> ObjectKey:
        metadata = obj["metadata"]
        cluster = (metadata.get("annotations") or {}).get(CLUSTER_ANNOTATION) or self._cluster
        return ObjectKey(cluster, metadata.get("namespace") or "", metadata["name"])

    def _change(
        self,
        key: ObjectKey,
        obj: Object,
        value: bytes,
        before: tuple[int, bytes] | None,
        *,
        is_deleted: bool,
    ) -> Change:
        previous = None if before is None else before[1]
        return Change(
            ObjectRef(self.resource, *key),
            _revision(obj),
            value,
            terms_of(obj),
            before is None,
            is_deleted,
            lambda _ref, _revision: previous,
        )

    def _index(self, key: ObjectKey, entries: tuple[str, ...]) -> None:
        for entry in self._entries.pop(key, ()):
            found = self._by_entry[entry]
            found.discard(key)
            if not found:
                del self._by_entry[entry]
        if entries:
            self._entries[key] = entries
            for entry in entries:
                self._by_entry.setdefault(entry, set()).add(key)


def terms_of(obj: Object) -> str:
    """Labels and the fields that a field selector may name: none of them lies deeper than two."""
    fields: dict[str, str] = {}
    for name, value in obj.items():
        if isinstance(value, str):
            fields[name] = value
        elif isinstance(value, dict) and name != "metadata":
            fields |= {f"{name}.{k}": v for k, v in value.items() if isinstance(v, str)}
    metadata = obj["metadata"]
    fields["metadata.name"] = metadata["name"]
    fields["metadata.namespace"] = metadata.get("namespace") or ""
    return label_terms(metadata.get("labels"), fields)


def _revision(obj: Object) -> int:
    """The resource version as a number; 0 if the server's are none."""
    version = obj["metadata"].get("resourceVersion") or ""
    return int(version) if version.isdecimal() else 0
