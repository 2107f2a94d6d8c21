"""What an API server would keep of objects besides their manifests: identity, finalizers, records.

An object whose manifest was removed stays, marked as being deleted, until its finalizers are gone.
"""

from __future__ import annotations

import copy
import hashlib
import json
import pathlib
import uuid
from collections.abc import Callable
from datetime import UTC, datetime

from pykcp.machinery.resources import GroupVersionResource
from pykcp.programs.operator.host.layout import read_json, write_json
from pykcp.programs.operator.names import KINDS
from pykcp.types import Object

_KINDS = {kind_of.resource: kind for kind, kind_of in KINDS.items()}


class HostObjects:
    """The file `objects.json`; an entry for each object, by kind and name."""

    def __init__(self, path: pathlib.Path) -> None:
        self._path = path
        self.entries: Object = read_json(path) or {}

    def complete(self, manifests: list[Object], *, saves: bool) -> list[Object]:
        """The objects with their identity, and those that are being deleted."""
        before = copy.deepcopy(self.entries)
        found = [self._known(obj) for obj in manifests]
        present = {_key(one["kind"], one["metadata"]["name"]) for one in found}
        for key in list(self.entries):
            if key in present:
                continue
            entry = self.entries[key]
            if not entry["finalizers"]:
                del self.entries[key]
                continue
            entry.setdefault("deleted", datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"))
            found.append(_with_entry(entry["object"], entry))
        if saves and self.entries != before:
            self._save()
        return found

    def _known(self, obj: Object) -> Object:
        key = _key(obj["kind"], obj["metadata"]["name"])
        digest = hashlib.sha256(json.dumps(obj["spec"], sort_keys=True).encode()).hexdigest()
        entry = self.entries.get(key)
        if entry is None:
            entry = {"uid": str(uuid.uuid4()), "generation": 0, "finalizers": [], "status": {}}
        entry.pop("deleted", None)
        if entry.get("digest") != digest:
            entry["generation"] += 1
        entry |= {"digest": digest, "object": copy.deepcopy(obj)}
        self.entries[key] = entry
        return _with_entry(obj, entry)

    async def change(
        self,
        _cluster: str,
        kind: GroupVersionResource,
        name: str,
        make: Callable[[Object], object],
        _namespace: str = "",
        _subresource: str = "",
    ) -> Object:
        """Change finalizers and what is recorded in the status, as a client of an API server does."""
        key = _key(_KINDS[kind.resource], name)
        entry = self.entries[key]
        live = _with_entry(copy.deepcopy(entry["object"]), entry)
        make(live)
        entry["finalizers"] = list(live["metadata"].get("finalizers") or ())
        entry["status"] = {
            name: value for name, value in live.get("status", {}).items() if name == "authorization"
        }
        if entry.get("deleted") and not entry["finalizers"]:
            del self.entries[key]
        self._save()
        return live

    def _save(self) -> None:
        write_json(self._path, self.entries)


def _key(kind: str, name: str) -> str:
    return f"{kind}/{name}"


def _with_entry(obj: Object, entry: Object) -> Object:
    metadata = {
        **obj["metadata"],
        "uid": entry["uid"],
        "generation": entry["generation"],
        "finalizers": list(entry["finalizers"]),
    }
    if entry.get("deleted"):
        metadata["deletionTimestamp"] = entry["deleted"]
    return {**obj, "metadata": metadata, "status": copy.deepcopy(entry["status"])}
