"""The scenario `workspaces`: a random tree of workspaces, to see how fast they are made."""

from __future__ import annotations

import random
from typing import NamedTuple

from pykcp.cli.plugins.errors import PluginError, Prefixed
from pykcp.cli.plugins.go_text import quote
from pykcp.cli.plugins.quickstart.scenario import (
    ORGANIZATION_SUFFIX,
    Scenario,
    ScenarioStep,
    Stage,
    check_name,
    make_workspace,
    organization_step,
)

_TELL_EVERY = 25
_SUMMARY = """
Quickstart complete! Here's what was created:

  Workspace hierarchy:
    root
    +-- {org} (organization)
        +-- {made} child workspaces in a random tree (max depth {depth}, seed {seed})

  Org path: {path}

  Explore:
    kubectl ws :{path}
    kubectl get workspaces

  Cleanup:
    kubectl kcp quickstart --scenario workspaces --cleanup --name-prefix {prefix}
"""


class PlannedWorkspace(NamedTuple):
    """A workspace to be made: its name, and where in the list its parent is."""

    name: str
    parent: int
    depth: int


def random_tree(prefix: str, count: int, depth: int, seed: int) -> list[PlannedWorkspace]:
    """The organization and `count` workspaces below it, none deeper than `depth`."""
    numbers = random.Random(seed)  # noqa: S311 - the same seed is to give the same tree
    places = [PlannedWorkspace(prefix + ORGANIZATION_SUFFIX, -1, 0)]
    open_places = [0]
    for number in range(1, count + 1):
        parent = numbers.choice(open_places)
        place = PlannedWorkspace(child_name(prefix, number), parent, places[parent].depth + 1)
        if place.depth < depth:
            open_places.append(len(places))
        places.append(place)
    return places


def child_name(prefix: str, number: int) -> str:
    return f"{prefix}-ws-{number}"


class WorkspaceTree(Scenario):
    name = "workspaces"

    def __init__(self, depth: int, count: int, seed: int) -> None:
        self._depth = depth
        self._count = count
        self._seed = seed
        self._made = 0

    def check(self, prefix: str) -> None:
        words = f"--name-prefix {quote(prefix)}"
        check_name(prefix + ORGANIZATION_SUFFIX, words)
        if self._count > 0:
            longest = child_name(prefix, self._count)
            check_name(longest, f"{words} with --tree-count {self._count}")
        if self._depth < 1:
            raise PluginError(f"--tree-depth must be >= 1, got {self._depth}")
        if self._count < 0:
            raise PluginError(f"--tree-count must be >= 0, got {self._count}")

    def steps(self, prefix: str) -> list[ScenarioStep]:
        shape = f"max depth {self._depth}, seed {self._seed}"
        return [
            organization_step(prefix, f"cascades {self._count} child workspaces"),
            ScenarioStep(f"Creating {self._count} workspaces ({shape})", self._make),
        ]

    def samples(self, prefix: str) -> list[ScenarioStep]:
        return []

    def place_to_enter(self, stage: Stage) -> str:
        return stage.paths.get("org", "")

    def summary(self, stage: Stage) -> str:
        return _SUMMARY.format(
            org=stage.prefix + ORGANIZATION_SUFFIX,
            made=self._made,
            depth=self._depth,
            seed=self._seed,
            path=stage.paths["org"],
            prefix=stage.prefix,
        )

    def _make(self, stage: Stage) -> None:
        places = random_tree(stage.prefix, self._count, self._depth, self._seed)
        total = len(places) - 1
        if total == 0:
            print("  No child workspaces to create (count=0)")
        paths = [stage.paths["org"]]
        start = stage.clock()
        for number, place in enumerate(places[1:], 1):
            paths.append(self._make_one(stage, place, paths[place.parent], f"{number}/{total}"))
            self._made = number
            if number % _TELL_EVERY == 0 or number == total:
                rate = number / max(stage.clock() - start, 1e-9)
                print(
                    f"  Progress: {number}/{total} workspaces created "
                    f"({rate:.1f} ws/s, depth so far: {place.depth})",
                    flush=True,
                )

    def _make_one(self, stage: Stage, place: PlannedWorkspace, parent: str, which: str) -> str:
        try:
            return make_workspace(stage, parent, place.name, "universal")[0]
        except PluginError as error:
            raise Prefixed(
                f"creating workspace {which} ({quote(place.name)} at depth {place.depth} "
                f"under {parent})",
                error,
            ) from error
