"""Deletion protection of workspaces, and of the workspaces that contain them.

Annotation `tenancy.pykcp.io/deletion-protection: "true"`; not in kcp. Anyone who can update the
workspace can remove it: it prevents mistakes, it is not access control.

Protection is checked when a deletion starts. The content of a terminating workspace is deleted
with it, so an annotation that is added later has no effect. Other shards are asked if the workspace
may have content there. One that does not answer blocks the deletion if it has logical clusters of
workspaces below: these may contain protected ones.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from pykcp.aio.slices import Slices
from pykcp.apis.kcp.logical_clusters import SHARD_ANNOTATION
from pykcp.machinery import meta
from pykcp.machinery.kcp import clusters
from pykcp.machinery.resources import LOGICAL_CLUSTERS, WORKSPACES
from pykcp.machinery.status import Forbidden, ServiceUnavailable, StatusError
from pykcp.registry.codec import decode
from pykcp.registry.indexes.entries import PROTECTED_WORKSPACES, PROTECTION, is_protected
from pykcp.registry.keys import kind_prefix, object_key, split_key
from pykcp.registry.lookup import ObjectLookup
from pykcp.registry.stored import Event, Query, StoreReader
from pykcp.registry.verbs.admitting import AdmissionRequest
from pykcp.types import Object

if TYPE_CHECKING:
    from pykcp.clients.peers import Peers

_log = logging.getLogger(__name__)

_PREFIX = kind_prefix(WORKSPACES)
_CLUSTERS = kind_prefix(LOGICAL_CLUSTERS)
_MARK = PROTECTION.encode()
PROTECTED_SERVICE = "/services/provisioning/protected"
SHARDS_SERVICE = "/services/provisioning/shards"
_ASK_SECONDS = 2.0
_PATHS_AT_ONCE = 1000
_PAGE = 500
_HOW = f"remove the annotation {PROTECTION} from it first"


class ProtectedWorkspaces:
    """Where the protected ones are. It holds those and nothing else, and reads them once."""

    def __init__(self, store: StoreReader, lookup: ObjectLookup) -> None:
        self._store, self._lookup = store, lookup
        self._is_loaded = False
        self._fresh: set[str] = set()
        """Keys that have not been sorted in yet."""
        self._above: dict[str, tuple[str, ...]] = {}
        """By key: the logical clusters that it is in, the nearest first."""
        self._below: dict[str, set[str]] = {}
        """By logical cluster: the keys in it, however deep."""
        store.listen(self._follow, (_PREFIX,))

    def _follow(self, events: Sequence[Event]) -> None:
        for event in events:
            if not event.key.startswith(_PREFIX):
                continue
            if _MARK in event.value and not event.deleted:
                self._fresh.add(event.key)
            elif event.key in self._above or event.key in self._fresh:
                self._forget(event.key)

    def _forget(self, key: str) -> None:
        self._fresh.discard(key)
        for cluster in self._above.pop(key, ()):
            held = self._below[cluster]
            held.discard(key)
            if not held:
                del self._below[cluster]

    def below(self, cluster: str) -> list[str]:
        """The paths of those in a logical cluster, by name."""
        if not self._is_loaded:
            self._is_loaded = True
            self._fresh.update(self._store.lookup(PROTECTED_WORKSPACES))
        while self._fresh:
            self._sort_in(self._fresh.pop())
        return sorted(map(self._path, self._below.get(cluster, ())))

    def _sort_in(self, key: str) -> None:
        self._forget(key)
        entry = self._store.get(key)
        if entry is None or not is_protected(decode(entry.value)):
            return
        above = tuple(self._ancestors(split_key(key).cluster))
        self._above[key] = above
        for cluster in above:
            self._below.setdefault(cluster, set()).add(key)

    def _ancestors(self, cluster: str) -> Iterator[str]:
        seen: set[str] = set()
        while cluster and cluster not in seen:
            yield cluster
            seen.add(cluster)
            found = self._lookup.logical_cluster(cluster) or {}
            cluster = ((found.get("spec") or {}).get("owner") or {}).get("cluster") or ""

    def _path(self, key: str) -> str:
        return _path_of(self._lookup, key)

    def path(self, cluster: str, name: str = "") -> str:
        path = self._lookup.canonical_path(cluster)
        return clusters.join(path, name) if name else path

    def is_empty(self, cluster: str) -> bool:
        """Whether a logical cluster is on this shard and has no child workspaces."""
        # Not the lookup: logical clusters of other shards may be published.
        is_here = self._store.get(object_key(_CLUSTERS, cluster, "", "cluster")) is not None
        return is_here and not self._store.keys(f"{_PREFIX}{cluster}/", limit=1)

    def is_going(self, cluster: str) -> bool:
        """Whether a logical cluster is being deleted, with all that is in it."""
        found = self._lookup.logical_cluster(cluster)
        return found is not None and meta.is_deleting(found)

    def owner(self, logical_cluster: Object) -> Object | None:
        """The Workspace that stands for a logical cluster."""
        owner = (logical_cluster.get("spec") or {}).get("owner") or {}
        if owner.get("resource") != WORKSPACES.resource:
            return None
        found = self._lookup.get(WORKSPACES, owner.get("cluster", ""), owner.get("name", ""))
        return found if found is not None and meta.uid(found) == owner.get("uid") else None


def protected_below(store: StoreReader, lookup: ObjectLookup, paths: Sequence[str]) -> list[str]:
    """The paths of the protected workspaces of this shard in the workspaces with these paths."""
    wanted = set(paths)
    found = (_path_of(lookup, key) for key in store.lookup(PROTECTED_WORKSPACES))
    return sorted(path for path in found if not wanted.isdisjoint(_ancestors(path)))


async def shards_below(store: StoreReader, lookup: ObjectLookup, paths: Sequence[str]) -> list[str]:
    """The shards of the workspaces that are below those with these paths, as far as the Workspaces
    are on this shard. It reads all of them: it is needed only while a shard does not answer.
    """
    wanted, found = set(paths), set()
    slices, after = Slices("shards-below"), ""
    while True:
        page = await store.list(Query(_PREFIX, after=after, limit=_PAGE))
        for value in page.values:
            workspace = decode(value)
            parent = lookup.canonical_path(meta.cluster(workspace))
            if parent in wanted or not wanted.isdisjoint(_ancestors(parent)):
                found.add(meta.annotation(workspace, SHARD_ANNOTATION))
            if slices.is_over():
                await slices.next()
        after = page.next_after
        if not after:
            return sorted(found - {""})


def _ancestors(path: str) -> Iterator[str]:
    while ":" in path:
        path = path.rpartition(":")[0]
        yield path


def _path_of(lookup: ObjectLookup, key: str) -> str:
    parts = split_key(key)
    return clusters.join(lookup.canonical_path(parts.cluster), parts.name)


ShardsBelow = Callable[[Sequence[str]], Awaitable[list[str]]]
"""The shards of the workspaces below some paths, as far as this shard knows."""


class OtherShards:
    """Asks other shards what they protect."""

    def __init__(self, peers: Peers | None, shards_below: ShardsBelow) -> None:
        self._peers, self._shards_below = peers, shards_below

    @property
    def exist(self) -> bool:
        return self._peers is not None

    async def protected_below(self, paths: Sequence[str]) -> list[str]:
        """The paths of their protected workspaces in the workspaces with these paths.

        Raises ServiceUnavailable if a shard does not answer that may have some.
        """
        if self._peers is None:
            return []
        names = self._peers.names()
        asked = (self._ask(name, PROTECTED_SERVICE, paths, "protected") for name in names)
        answers = dict(zip(names, await asyncio.gather(*asked), strict=True))
        silent = {name for name, answer in answers.items() if answer is None}
        found = sorted(path for answer in answers.values() for path in answer or ())
        if silent and not found:
            await self._check_silent(silent, set(names) - silent, paths)
        return found

    async def _check_silent(
        self, silent: set[str], answering: set[str], paths: Sequence[str]
    ) -> None:
        """Every logical cluster below has a Workspace: on a shard that answers, or in a logical
        cluster of a silent one, for which the same holds. So those that answer know all that matter.
        """
        used = set(await self._shards_below(paths))
        asked = (self._ask(name, SHARDS_SERVICE, paths, "shards") for name in sorted(answering))
        for answer in await asyncio.gather(*asked):
            used.update(answer or ())
        for name in sorted(silent & used):
            raise ServiceUnavailable(
                f'shard "{name}" does not answer: workspaces on it may be protected from deletion. '
                "Try again when it is back, or delete its Shard if it is lost"
            )

    async def _ask(
        self, shard: str, service: str, paths: Sequence[str], part: str
    ) -> list[str] | None:
        """None: it does not answer."""
        assert self._peers is not None
        found: list[str] = []
        try:
            async with asyncio.timeout(_ASK_SECONDS):
                client = self._peers.client(shard)
                for start in range(0, len(paths), _PATHS_AT_ONCE):
                    some = list(paths[start : start + _PATHS_AT_ONCE])
                    answer = await client.send("POST", service, {"paths": some})
                    found += map(str, answer.get(part) or ())
        except (StatusError, TimeoutError) as error:
            _log.warning("shard %s does not say what it protects: %s", shard, error)
            return None
        return found


class WorkspaceProtection:
    name = "tenancy.pykcp.io/DeletionProtection"
    kind = WORKSPACES

    def __init__(self, protected: ProtectedWorkspaces, others: OtherShards) -> None:
        self._protected, self._others = protected, others

    def wants(self, request: AdmissionRequest) -> bool:
        return request.operation == "DELETE"

    async def validate(self, request: AdmissionRequest) -> None:
        assert request.old is not None
        if self._protected.is_going(request.context.cluster):
            return
        parent = request.context.cluster
        checked = (request.old, *(decode(value) for value in request.collection or ()))
        elsewhere = {
            self._protected.path(parent, name): name for name in map(self._check, checked) if name
        }
        held = await self._others.protected_below(list(elsewhere)) if elsewhere else []
        if held:
            name = next(elsewhere[path] for path in _ancestors(held[0]) if path in elsewhere)
            raise _refused(WORKSPACES.group, WORKSPACES.resource, name, held)

    def _check(self, workspace: Object) -> str:
        """Raise Forbidden, or return the name if it may have content on other shards."""
        if meta.is_deleting(workspace):
            return ""
        name = meta.name(workspace)
        if is_protected(workspace):
            raise _refused(WORKSPACES.group, WORKSPACES.resource, name, [])
        cluster = (workspace.get("spec") or {}).get("cluster")
        held = self._protected.below(cluster) if cluster else []
        if held:
            raise _refused(WORKSPACES.group, WORKSPACES.resource, name, held)
        is_whole = not cluster or not self._others.exist or self._protected.is_empty(cluster)
        return "" if is_whole else name


class LogicalClusterProtection:
    """Deleting the LogicalCluster itself also deletes the workspace, so it is checked as well."""

    name = "tenancy.pykcp.io/DeletionProtection"
    kind = LOGICAL_CLUSTERS

    def __init__(self, protected: ProtectedWorkspaces, others: OtherShards) -> None:
        self._protected, self._others = protected, others

    def wants(self, request: AdmissionRequest) -> bool:
        return request.operation == "DELETE"

    async def validate(self, request: AdmissionRequest) -> None:
        assert request.old is not None
        if meta.is_deleting(request.old):
            return
        owner = self._protected.owner(request.old)
        if owner is not None and meta.is_deleting(owner):
            return
        cluster = request.context.cluster
        held = self._protected.below(cluster)
        if not held and not self._protected.is_empty(cluster):
            held = await self._others.protected_below([self._protected.path(cluster)])
        if held or (owner is not None and is_protected(owner)):
            name = meta.name(request.old)
            raise _refused(LOGICAL_CLUSTERS.group, LOGICAL_CLUSTERS.resource, name, held)


def _refused(group: str, resource: str, name: str, held: list[str]) -> Forbidden:
    """`held`: what is protected; none: it is the object itself."""
    if not held:
        return Forbidden.resource(group, resource, name, f"it is protected from deletion, {_HOW}")
    more = f" (and {len(held) - 1} more)" if len(held) > 1 else ""
    why = f"workspace {held[0]}{more} in it is protected from deletion, {_HOW}"
    return Forbidden.resource(group, resource, name, why)
