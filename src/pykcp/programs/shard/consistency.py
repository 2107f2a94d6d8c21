"""Consistency check of a shard's store: `kcp admin fsck`.

Reads every object once and reports orphaned, missing and contradictory ones. It changes
nothing. On a running server objects may change during the check, so findings are checked again
a little later and reported only if they persist.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import msgspec

from pykcp.apis.kcp.logical_clusters import SHARD_ANNOTATION
from pykcp.apis.kcp_catalog import BOUND_CRDS, is_exported
from pykcp.machinery import meta
from pykcp.machinery.kcp import clusters
from pykcp.machinery.kcp.resource_locks import ANNOTATION as LOCKS
from pykcp.machinery.kcp.resource_locks import parse as parse_locks
from pykcp.machinery.resources import (
    API_BINDINGS,
    CUSTOM_RESOURCE_DEFINITIONS,
    LOGICAL_CLUSTERS,
    SHARDS,
    WORKSPACES,
)
from pykcp.registry import trash
from pykcp.registry.codec import decode
from pykcp.registry.keys import kind_prefix, split_key
from pykcp.storage.interface import Store
from pykcp.storage.keys import MARKS
from pykcp.types import Object

_CLUSTERS = kind_prefix(LOGICAL_CLUSTERS)
_WORKSPACES = kind_prefix(WORKSPACES)
_SHARDS = kind_prefix(SHARDS)
_BINDINGS = kind_prefix(API_BINDINGS)
_CRDS = kind_prefix(CUSTOM_RESOURCE_DEFINITIONS)
_AT_A_TIME = 500
_LOOK_AGAIN = 2.0


class Problem(NamedTuple):
    kind: str
    """One word that programs can act on."""
    where: str
    """The key, or the logical cluster."""
    text: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.where}: {self.text}"


@dataclass(slots=True)
class Report:
    objects: int = 0
    logical_clusters: int = 0
    workspaces: int = 0
    unfinished: int = 0
    """Workspaces that are not ready or being deleted: controllers are at work on them."""
    deleted: int = 0
    """Workspaces in the trash."""
    problems: list[Problem] = field(default_factory=list)

    def __str__(self) -> str:
        counted = (
            f"{self.objects} objects, {self.logical_clusters} logical clusters, "
            f"{self.workspaces} workspaces ({self.unfinished} unfinished)"
        )
        if self.deleted:
            counted += f", {self.deleted} in the trash"
        lines = [counted, *map(str, self.problems)]
        lines.append(f"{len(self.problems)} problems" if self.problems else "consistent")
        return "\n".join(lines) + "\n"


async def check(store: Store, *, is_running: bool = False) -> Report:
    """All problems of a store. `is_running`: others write to it meanwhile."""
    report = await _Check(store).run()
    if is_running and report.problems:
        await asyncio.sleep(_LOOK_AGAIN)
        again = await _Check(store).run()
        before = set(report.problems)
        again.problems = [problem for problem in again.problems if problem in before]
        return again
    return report


class _Metadata(msgspec.Struct):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    annotations: dict[str, str] | None = None


class _Stored(msgspec.Struct):
    metadata: _Metadata


_decode = msgspec.json.Decoder(_Stored).decode


class _Check:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._report = Report()
        self._clusters: dict[str, Object] = {}
        self._workspaces: dict[tuple[str, str], Object] = {}
        self._inhabited: dict[str, str] = {}
        """Logical clusters with objects, and one of their keys as an example."""
        self._bindings: dict[str, dict[str, Object]] = {}
        self._shards = 0
        """Shards in root."""
        self._schemas: set[str] = set()
        self._trashed: dict[str, str] = {}
        """Logical clusters with objects in the trash, and one of their keys as an example."""
        self._records: set[str] = set()
        """Logical clusters with a trash record."""

    async def run(self) -> Report:
        keys = self._store.keys("")
        for number, key in enumerate(keys):
            if number % _AT_A_TIME == 0:
                await asyncio.sleep(0)
            entry = self._store.get(key)
            if entry is not None:
                self._look_at(key, entry.value)
        self._report.logical_clusters = len(self._clusters)
        self._report.workspaces = len(self._workspaces)
        self._report.deleted = len(self._records)
        for problem in self._contradictions():
            self._report.problems.append(problem)
        return self._report

    def _look_at(self, key: str, value: bytes) -> None:
        if key.startswith(MARKS):
            return
        self._report.objects += 1
        try:
            metadata = _decode(value).metadata
            parts = split_key(key)
        except (msgspec.DecodeError, ValueError) as error:
            self._tell("unreadable", key, str(error))
            return
        if trash.is_trash(key):
            self._look_at_trash(key)
            return
        cluster = (metadata.annotations or {}).get("kcp.io/cluster", "")
        found = (cluster, metadata.namespace, metadata.name)
        if found != parts[1:]:
            self._tell("misplaced", key, f"its metadata is that of {'/'.join(found)}")
        self._inhabited.setdefault(parts.cluster, key)
        if key.startswith(_CLUSTERS):
            self._clusters[parts.cluster] = decode(value)
        elif key.startswith(_WORKSPACES):
            self._workspaces[parts.cluster, parts.name] = decode(value)
        elif key.startswith(_SHARDS) and parts.cluster == clusters.ROOT:
            self._shards += 1
        elif key.startswith(_BINDINGS):
            self._bindings.setdefault(parts.cluster, {})[parts.name] = decode(value)
        elif key.startswith(_CRDS) and parts.cluster == BOUND_CRDS:
            self._schemas.add(parts.name)

    def _look_at_trash(self, key: str) -> None:
        parts = split_key(key)
        if key.startswith(trash.RECORDS):
            self._records.add(parts.name)
        elif parts.cluster == trash.CLUSTER:  # others are records of moves and copies
            self._trashed.setdefault(parts.namespace, key)

    def _tell(self, kind: str, where: str, text: str) -> None:
        self._report.problems.append(Problem(kind, where, text))

    def _contradictions(self) -> Iterator[Problem]:
        yield from self._orphans()
        for (cluster, name), workspace in self._workspaces.items():
            yield from self._workspace_problems(f"{cluster}:{name}", workspace)
        for cluster, obj in self._clusters.items():
            yield from self._owner_problems(cluster, obj)
            yield from self._lock_problems(cluster, obj)
        for cluster, bindings in self._bindings.items():
            for name, binding in bindings.items():
                yield from self._binding_problems(f"{cluster}:{name}", binding)

    def _orphans(self) -> Iterator[Problem]:
        for cluster, example in self._trashed.items():
            # A cluster that is being moved to the trash has no record yet.
            if cluster not in self._records and cluster not in self._clusters:
                yield Problem("litter", cluster, f"it has no trash record, for example {example}")
        for cluster, example in self._inhabited.items():
            if cluster in self._records:
                continue  # being restored
            if cluster not in self._clusters and not clusters.is_system(cluster):
                yield Problem(
                    "orphaned",
                    cluster,
                    f"it has objects but no LogicalCluster, for example {example}",
                )

    def _workspace_problems(self, where: str, workspace: Object) -> Iterator[Problem]:
        spec, status = workspace.get("spec") or {}, workspace.get("status") or {}
        is_deleting = bool(workspace["metadata"].get("deletionTimestamp"))
        phase = status.get("phase")
        if is_deleting or phase != "Ready":
            self._report.unfinished += 1
        name = spec.get("cluster")
        if not name or spec.get("mount"):
            if phase == "Ready" and not spec.get("mount"):
                yield Problem("lost", where, "it is Ready but has no logical cluster")
            return
        cluster = self._clusters.get(name)
        if cluster is None:
            shard = meta.annotation(workspace, SHARD_ANNOTATION)
            if not is_deleting and (not shard or shard in self._own_shards):
                yield Problem("lost", where, f"its logical cluster {name} does not exist")
        elif _owner(cluster).get("uid") != workspace["metadata"]["uid"]:
            yield Problem("contested", where, f"logical cluster {name} has another owner")

    def _owner_problems(self, cluster: str, obj: Object) -> Iterator[Problem]:
        owner = _owner(obj)
        if owner.get("resource") != WORKSPACES.resource:
            return
        parent = owner.get("cluster", "")
        if parent not in self._clusters and self._has_other_shards():
            return  # on another shard, which cannot be read here
        workspace = self._workspaces.get((parent, owner.get("name", "")))
        if workspace is None or workspace["metadata"]["uid"] != owner.get("uid"):
            way = f"{owner.get('cluster')}:{owner.get('name')}"
            if not obj["metadata"].get("deletionTimestamp"):
                yield Problem("ghost", cluster, f"its workspace {way} does not exist")

    @cached_property
    def _own_shards(self) -> set[str]:
        """The name of this shard, as its logical clusters have it."""
        return {meta.annotation(obj, SHARD_ANNOTATION) for obj in self._clusters.values()} - {""}

    def _has_other_shards(self) -> bool:
        return clusters.ROOT not in self._clusters or self._shards > 1

    def _lock_problems(self, cluster: str, obj: Object) -> Iterator[Problem]:
        text = (obj["metadata"].get("annotations") or {}).get(LOCKS)
        if not text:
            return
        bindings = self._bindings.get(cluster, {})
        for resource, lock in parse_locks(text).items():
            if lock.binding and lock.binding not in bindings:
                yield Problem(
                    "stale-lock",
                    cluster,
                    f"{resource} is locked by the missing binding {lock.binding}",
                )

    def _binding_problems(self, where: str, binding: Object) -> Iterator[Problem]:
        for bound in (binding.get("status") or {}).get("boundResources") or ():
            uid = (bound.get("schema") or {}).get("UID")
            group, plural = bound.get("group") or "", bound["resource"]
            if uid not in self._schemas and not is_exported(group, plural):
                yield Problem("unbound", where, f"the schema {uid} of {plural}.{group} is missing")


def _owner(cluster: Object) -> dict[str, Any]:
    return (cluster.get("spec") or {}).get("owner") or {}
