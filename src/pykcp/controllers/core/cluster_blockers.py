"""Objects that block deletions, by position in the tree of terminating workspaces. In memory.

A workspace waits for the workspaces in it. What holds them up may be many levels further down:
each says upwards where it is.
"""

from __future__ import annotations

from typing import NamedTuple

from pykcp.apis.kcp.logical_clusters import PATH_ANNOTATION
from pykcp.machinery import meta
from pykcp.types import Object

_SHOWN = 3


class BlockedPaths(NamedTuple):
    """Some paths with blocking objects, and the number of such paths."""

    paths: tuple[str, ...] = ()
    places: int = 0

    def text(self) -> str:
        """The suffix of a condition's message."""
        if not self.places:
            return ""
        more = self.places - len(self.paths)
        shown = ", ".join(self.paths) + (f" (and {more} more)" if more > 0 else "")
        return f"; blocked in {shown}"


NOWHERE = BlockedPaths()


class Blockers:
    def __init__(self) -> None:
        self._in: dict[str, dict[str, BlockedPaths]] = {}
        """By logical cluster: its child clusters that contain blocking objects, at any depth."""
        self._parents: dict[str, str] = {}

    def below(self, cluster: str) -> BlockedPaths:
        found = self._in.get(cluster)
        if not found:
            return NOWHERE
        paths = sorted(path for one in found.values() for path in one.paths)
        return BlockedPaths(tuple(paths[:_SHOWN]), sum(one.places for one in found.values()))

    def note(self, cluster: Object, *, is_here: bool) -> str:
        """Record whether a LogicalCluster is blocked, by its own content or below.

        Returns the parent cluster if its information has changed; "" otherwise.
        """
        name = meta.cluster(cluster)
        blocked = self.below(name)
        if is_here:
            path = meta.annotation(cluster, PATH_ANNOTATION) or name
            blocked = BlockedPaths((path, *blocked.paths)[:_SHOWN], blocked.places + 1)
        if not blocked.places:
            return self.forget(name)
        parent = ((cluster.get("spec") or {}).get("owner") or {}).get("cluster") or ""
        if not parent:
            return ""  # a home workspace, which has no parent
        known = self._in.setdefault(parent, {})
        if known.get(name) == blocked:
            return ""
        known[name] = blocked
        self._parents[name] = parent
        return parent

    def forget(self, cluster: str) -> str:
        """Record that a cluster is no longer blocked. Returns the parent cluster if that is a change."""
        parent = self._parents.pop(cluster, "")
        if parent:
            del self._in[parent][cluster]
            if not self._in[parent]:
                del self._in[parent]
        return parent
