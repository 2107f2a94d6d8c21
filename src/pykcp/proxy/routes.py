"""Where logical clusters are, as far as it was asked for. Pure.

Two kinds of facts are kept, within a bound: where a Workspace leads, and which shard has a
logical cluster. A path is followed from fact to fact; the first one that is missing is a
`RouteQuestion` for a shard. A shard's stream of changes removes facts. When the stream breaks and cannot be
resumed, all facts of that shard are void: they carry the shard's epoch, which then goes on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from pykcp.caching import BoundedCache
from pykcp.clients.where import RouteAnswer, WorkspaceStep
from pykcp.machinery.kcp import clusters
from pykcp.machinery.kcp.hashes import home_cluster_name

ROUTES = 65_536
_WALKS = 8_192
_CHANGES = 1_024
_ALIASES = 4_096
_LONGEST_WALK = 1_024
"""Longer paths are followed anew each time: clients do not fill our memory."""
_HOMES = "user"


class ClusterRoute(NamedTuple):
    """Where the requests to a path go."""

    shard: str
    """"" if they go to no shard."""
    cluster: str
    type: str = ""
    """The qualified name of the workspace type."""
    is_available: bool = True
    mount: str = ""
    """Of a mounted workspace: where requests go instead."""


class RouteQuestion(NamedTuple):
    """What has to be looked up before a path can be followed further."""

    path: str
    """It begins with the name of a logical cluster."""
    shard: str = ""
    """The name or the hash of the shard that should know; "" if no shard is known."""


class _Step(NamedTuple):
    step: WorkspaceStep
    source: str
    epoch: int


class _Place(NamedTuple):
    shard: str
    type: str
    epoch: int


class _Alias(NamedTuple):
    """A logical cluster that was found by its canonical path, not by the Workspaces on the way."""

    cluster: str
    instead_of: str
    """The shard that could have said it otherwise; "" if none could."""


class RouteTable:
    def __init__(self, is_live: Callable[[str], bool], limit: int = ROUTES) -> None:
        """`is_live`: whether changes of a shard's routes are heard of."""
        self._is_live = is_live
        self._steps: BoundedCache[tuple[str, str], _Step] = BoundedCache("route-steps", limit // 2)
        self._places: BoundedCache[str, _Place] = BoundedCache("routes", limit // 2)
        self._aliases: BoundedCache[str, _Alias] = BoundedCache("route-aliases", _ALIASES)
        self._walks: BoundedCache[str, ClusterRoute] = BoundedCache("route-walks", _WALKS)
        """By whole paths; cleared whenever a fact is removed."""
        self._epochs: dict[str, int] = {}
        self._changes: BoundedCache[tuple[str, str, str], int] = BoundedCache("", _CHANGES)
        """Revisions of the last changes: an answer that is older comes too late."""

    def __len__(self) -> int:
        return len(self._steps) + len(self._places)

    def find(self, path: str) -> ClusterRoute | RouteQuestion:
        """Where a valid path leads, or what has to be asked first."""
        known = self._walks.get(path)
        if known is not None:
            return known
        segments = _segments(path)
        found = self._walk(segments)
        if isinstance(found, RouteQuestion) and len(self._aliases):
            return self._by_alias(segments, found)
        if isinstance(found, ClusterRoute) and found.shard and len(path) <= _LONGEST_WALK:
            self._walks.put(path, found)
        return found

    def _by_alias(
        self, segments: list[str], question: RouteQuestion
    ) -> ClusterRoute | RouteQuestion:
        """The same from a logical cluster on the way whose canonical path is known."""
        for size in range(len(segments), 0, -1):
            alias = self._aliases.get(":".join(segments[:size]))
            if alias is None or self._place(alias.cluster) is None:
                continue
            if not alias.instead_of or not self._is_live(alias.instead_of):
                return self._walk([alias.cluster, *segments[size:]])
        return question

    def _walk(self, segments: list[str]) -> ClusterRoute | RouteQuestion:
        cluster, shard = segments[0], ""
        for index, name in enumerate(segments[1:], 1):
            found = self._step(cluster, name)
            if found is None:
                return self._question([cluster, *segments[index:]], shard)
            if not found.is_available or found.mount:
                # What is below a mount is not known here, and what is below a workspace that is
                # not available is not available either.
                is_last = index == len(segments) - 1
                mount = found.mount if is_last else ""
                return ClusterRoute("", "", is_available=found.is_available, mount=mount)
            cluster, shard = found.cluster, found.shard
        place = self._place(cluster)
        if place is None:
            return self._question([cluster], shard)
        return ClusterRoute(place.shard, cluster, place.type)

    def _question(self, segments: list[str], shard: str) -> RouteQuestion:
        place = self._place(segments[0])
        return RouteQuestion(":".join(segments), place.shard if place is not None else shard)

    def _step(self, cluster: str, name: str) -> WorkspaceStep | None:
        found = self._steps.get((cluster, name))
        if found is None or found.epoch != self._epochs.get(found.source, 0):
            return None
        step = found.step
        if (not step.is_available or step.mount) and not self._is_live(found.source):
            return None  # such an answer is final, so it must not be out of date
        return step

    def _place(self, cluster: str) -> _Place | None:
        found = self._places.get(cluster)
        if found is None or found.epoch != self._epochs.get(found.shard, 0):
            return None
        return found

    # --- what shards say

    def learn(self, answer: RouteAnswer, instead_of: str = "") -> None:
        """`instead_of`: the shard that should know, and does not answer."""
        if answer.path:
            self._aliases.put(answer.path, _Alias(answer.start, instead_of))
            start = RouteAnswer(
                answer.shard, answer.revision, True, (), answer.start, answer.start_type
            )
            self.learn(start)
        shard, epoch = answer.shard, self._epochs.get(answer.shard, 0)
        for step in answer.steps:
            if not self._is_late(step.above, step.name, answer):
                self._steps.put((step.above, step.name), _Step(step, shard, epoch))
        if answer.cluster and not self._is_late(answer.cluster, "", answer):
            self._places.put(answer.cluster, _Place(shard, answer.type, epoch))

    def _is_late(self, cluster: str, workspace: str, answer: RouteAnswer) -> bool:
        return answer.revision < (self._changes.get((answer.shard, cluster, workspace)) or 0)

    def change(self, shard: str, cluster: str, workspace: str, revision: int) -> None:
        """A Workspace changed; or a logical cluster, if `workspace` is ""."""
        self._changes.put((shard, cluster, workspace), revision)
        if workspace:
            if self._steps.pop((cluster, workspace)) is not None:
                self._walks.clear()
        else:
            self.forget_cluster(cluster)

    def forget_cluster(self, cluster: str) -> None:
        if self._places.pop(cluster) is not None:
            self._walks.clear()

    def forget_shard(self, shard: str) -> None:
        """Everything that it has said: it may have changed without notice."""
        self._epochs[shard] = self._epochs.get(shard, 0) + 1
        self._walks.clear()

    def forget_path(self, path: str) -> None:
        """Everything on the way to a path: following it led to the wrong shard."""
        segments = _segments(path)
        for size in range(len(segments)):
            self._aliases.pop(":".join(segments[: size + 1]))
        cluster = segments[0]
        for name in segments[1:]:
            found = self._steps.pop((cluster, name))
            if found is None:
                break
            cluster = found.step.cluster
        self._places.pop(cluster)
        self._walks.clear()


def _segments(path: str) -> list[str]:
    """The logical cluster at which a path starts, and the Workspaces from there on."""
    if clusters.is_name(path):
        return [path]
    segments = path.split(clusters.SEPARATOR)
    if segments[0] == _HOMES and len(segments) > 1:
        segments[:2] = [home_cluster_name(segments[1])]
    return segments
