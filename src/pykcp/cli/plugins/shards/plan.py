"""Which logical clusters move where. Pure.

Children move before their parents. A shard that takes some is the one with the fewest, among those
that are not cordoned and below their limit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from pykcp.cli.plugins.errors import PluginError
from pykcp.cli.plugins.go_text import quote


class ShardRow(NamedTuple):
    """A shard, as far as plans are concerned."""

    name: str
    is_cordoned: bool = False
    limit: int | None = None
    """How many logical clusters it may have at most."""


class PlacedWorkspace(NamedTuple):
    path: str
    cluster: str
    shard: str


class PlannedMove(NamedTuple):
    path: str
    cluster: str
    origin: str
    destination: str


def drain(
    shards: Sequence[ShardRow], workspaces: Sequence[PlacedWorkspace], name: str
) -> list[PlannedMove]:
    """Moves that leave no workspace on a shard."""
    if name not in {shard.name for shard in shards}:
        raise PluginError(f"shard {quote(name)} not found")
    room = _Room(shards, workspaces, without=name)
    leaving = [one for one in workspaces if one.shard == name]
    return [_move(one, room.take()) for one in _children_first(leaving)]


def rebalance(
    shards: Sequence[ShardRow], workspaces: Sequence[PlacedWorkspace]
) -> list[PlannedMove]:
    """The fewest moves after which no two shards differ by more than one workspace."""
    room = _Room(shards, workspaces)
    candidates = {
        shard.name: _children_first([one for one in workspaces if one.shard == shard.name])
        for shard in shards
        if not shard.is_cordoned
    }
    moves: list[PlannedMove] = []
    while True:
        most = max(candidates, key=lambda name: (len(candidates[name]), name), default="")
        least = room.least()
        if not most or not least or len(candidates[most]) - room.count(least) < 2:
            return _in_order(moves)
        moves.append(_move(candidates[most].pop(0), room.take()))
        room.leave(most)


def relocate(
    shards: Sequence[ShardRow],
    workspaces: Sequence[PlacedWorkspace],
    path: str,
    destination: str,
    *,
    is_recursive: bool,
) -> list[PlannedMove]:
    """Moves of a workspace to a shard, with all workspaces below it if asked for."""
    if destination not in {shard.name for shard in shards}:
        raise PluginError(f"shard {quote(destination)} not found")
    chosen = [
        one
        for one in workspaces
        if one.path == path or (is_recursive and one.path.startswith(f"{path}:"))
    ]
    if path not in {one.path for one in chosen}:
        raise PluginError(f"workspace {quote(path)} not found")
    away = [one for one in chosen if one.shard != destination]
    return [_move(one, destination) for one in _children_first(away)]


class _Room:
    """How many workspaces each shard has that may take some."""

    def __init__(
        self, shards: Iterable[ShardRow], workspaces: Iterable[PlacedWorkspace], without: str = ""
    ) -> None:
        counts = Counter(one.shard for one in workspaces)
        usable = [s for s in shards if not s.is_cordoned and s.name != without]
        self._limits = {shard.name: shard.limit for shard in usable}
        self._counts = {shard.name: counts[shard.name] for shard in usable}

    def count(self, name: str) -> int:
        return self._counts[name]

    def least(self) -> str:
        """The shard to take the next one; "" if there is none."""
        free = [name for name, count in self._counts.items() if self._is_below(name, count)]
        return min(free, key=lambda name: (self._counts[name], name), default="")

    def _is_below(self, name: str, count: int) -> bool:
        limit = self._limits[name]
        return limit is None or count < limit

    def take(self) -> str:
        name = self.least()
        if not name:
            raise PluginError("no shard can take the workspaces: all others are cordoned, or full")
        self._counts[name] += 1
        return name

    def leave(self, name: str) -> None:
        self._counts[name] -= 1


def _move(workspace: PlacedWorkspace, destination: str) -> PlannedMove:
    return PlannedMove(workspace.path, workspace.cluster, workspace.shard, destination)


def _children_first(workspaces: Iterable[PlacedWorkspace]) -> list[PlacedWorkspace]:
    return sorted(workspaces, key=lambda one: (-one.path.count(":"), one.path))


def _in_order(moves: list[PlannedMove]) -> list[PlannedMove]:
    return sorted(moves, key=lambda one: (-one.path.count(":"), one.path))
