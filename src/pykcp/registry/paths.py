"""From paths to logical clusters: a walk along Workspace objects.

`root:org:team` starts in the logical cluster `root`, whose Workspace `org` says which
logical cluster it stands for, and so on. Any prefix may be replaced by the name of the
logical cluster there, and `user:<name>` is the home of a user. Steps are remembered within
bounds and forgotten as the Workspaces change.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from pykcp.apis.kcp.logical_clusters import SHARD_ANNOTATION, SHARD_HASH_ANNOTATION
from pykcp.machinery.kcp import clusters
from pykcp.machinery.kcp.hashes import home_cluster_name
from pykcp.machinery.resources import WORKSPACES
from pykcp.registry.keys import kind_prefix, object_key
from pykcp.storage.interface import Event, Store

_PREFIX = kind_prefix(WORKSPACES)
_REMEMBER = 65536
_REMEMBER_WALKS = 8192
_REMEMBER_LENGTH = 1024
"""Longer paths are walked anew each time: clients do not fill our memory."""
HOMES = "user"


class ResolvedStep(NamedTuple):
    """Where a step of a path leads."""

    cluster: str
    """The logical cluster; "" for a mount, which has none."""
    is_available: bool = True
    mount_url: str = ""
    """Of a mounted workspace: where requests go instead."""
    shard: str = ""
    """Which holds the logical cluster, as far as the Workspace says it: its name or its hash."""


class _Walk(NamedTuple):
    """How far a path could be followed."""

    place: ResolvedStep | None
    """Where it leads; None: nowhere."""
    above: str
    """The logical cluster in which the last step was tried."""
    name: str
    """The Workspace that was looked for there."""


class _Metadata(msgspec.Struct):
    annotations: dict[str, str] | None = None


class _Spec(msgspec.Struct):
    cluster: str = ""
    URL: str = ""
    mount: msgspec.Raw = msgspec.Raw(b"")


class _Status(msgspec.Struct):
    phase: str = ""


class _Workspace(msgspec.Struct):
    metadata: _Metadata
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)


_decode = msgspec.json.Decoder(_Workspace).decode


def _is_remembered(path: str) -> bool:
    """Whether requests for a path may be answered without judging it again.

    The wildcard and system clusters are not paths, although somebody may look for them as such.
    """
    if clusters.SEPARATOR not in path or clusters.is_system(path):
        return False
    return len(path) <= _REMEMBER_LENGTH and clusters.is_valid_path(path)


class PathIndex:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._steps: dict[str, ResolvedStep] = {}
        """By the Workspace's key."""
        self.walks: dict[str, ResolvedStep] = {}
        """By whole paths, all of them valid, as long as every step of all of them is as it was."""
        store.listen(self._follow, (_PREFIX,))

    def _follow(self, events: Sequence[Event]) -> None:
        for event in events:
            if event.key.startswith(_PREFIX) and self._steps.pop(event.key, None) is not None:
                self.walks.clear()

    def find(self, path: str) -> str | None:
        """The name of the logical cluster at a path, if there is one on this shard."""
        place = self.walk(path)
        return place.cluster or None if place is not None else None

    def walk(self, path: str) -> ResolvedStep | None:
        """Where a path leads; a name leads to itself, whether or not it exists.

        What lies beyond a workspace that is not available is not available either.
        """
        known = self.walks.get(path)
        if known is not None:
            return known
        if clusters.is_name(path):
            return ResolvedStep(path)
        place = self._walk(path).place
        if place is None or not _is_remembered(path):
            return place
        if len(self.walks) >= _REMEMBER_WALKS:
            self.walks.clear()
        self.walks[path] = place
        return place

    def nearest(self, path: str) -> tuple[str, str]:
        """The last logical cluster on the way to a path, and the Workspace that is next in it."""
        walk = self._walk(path)
        return walk.above, walk.name

    def _walk(self, path: str) -> _Walk:
        segments = path.split(clusters.SEPARATOR, clusters.MAX_DEPTH)
        start = 2 if segments[0] == HOMES and len(segments) > 1 else 1
        place = ResolvedStep(home_cluster_name(segments[1]) if start == 2 else segments[0])
        above, name = segments[0], segments[1] if start == 2 else ""
        for segment in segments[start : clusters.MAX_DEPTH]:
            if not place.is_available:
                return _Walk(place, above, name)
            if not place.cluster:
                return _Walk(None, above, name)  # a mount: what is below it is not known here
            above, name = place.cluster, segment
            step = self.step(above, name)
            if step is None:
                return _Walk(None, above, name)
            place = step
        is_whole = len(segments) <= clusters.MAX_DEPTH
        return _Walk(place if is_whole else None, above, name)

    def step(self, cluster: str, name: str) -> ResolvedStep | None:
        """Where a Workspace leads; None if there is none, or if it has not been scheduled."""
        key = object_key(_PREFIX, cluster, "", name)
        known = self._steps.get(key)
        if known is not None:
            return known
        entry = self._store.get(key)
        if entry is None:
            return None
        place = _place(_decode(entry.value))
        if place is not None:
            if len(self._steps) >= _REMEMBER:
                self._steps.clear()
                self.walks.clear()
            self._steps[key] = place
        return place


def _place(workspace: _Workspace) -> ResolvedStep | None:
    """None while it has not been scheduled."""
    spec = workspace.spec
    is_available = workspace.status.phase != "Unavailable"
    if spec.mount:
        return ResolvedStep("", is_available, spec.URL) if spec.URL or not is_available else None
    if not spec.cluster:
        return None
    annotations = workspace.metadata.annotations or {}
    shard = annotations.get(SHARD_ANNOTATION) or annotations.get(SHARD_HASH_ANNOTATION, "")
    return ResolvedStep(spec.cluster, is_available, shard=shard)
