"""Carries a plan out: a LogicalClusterMigration for each move, a few at a time."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from typing import Any

from pykcp.cli.plugins.access.rest import RestClient
from pykcp.cli.plugins.access.status import ServerError
from pykcp.cli.plugins.errors import PluginError
from pykcp.cli.plugins.go_text import quote
from pykcp.cli.plugins.shards.plan import PlannedMove
from pykcp.cli.plugins.shards.survey import migrations
from pykcp.cli.plugins.wait import poll
from pykcp.cli.plugins.workspace.resources import apis, unmet
from pykcp.machinery.kcp.clusters import ROOT

Object = dict[str, Any]
AT_ONCE = 4
TRIES = 2
_POLL_SECONDS = 0.1
_BIND_SECONDS = 30.0
_EXPORT = "migration.kcp.io"


def serve_migrations(client: RestClient) -> None:
    """Bind the API of migrations in `root`, if it is not."""
    try:
        migrations(client).list()
    except ServerError as error:
        if not error.is_not_found:
            raise
    else:
        return
    body = {
        "apiVersion": "apis.kcp.io/v1alpha2",
        "kind": "APIBinding",
        "metadata": {"name": _EXPORT},
        "spec": {"reference": {"export": {"path": ROOT, "name": _EXPORT}}},
    }
    bindings = apis(client, ROOT, "apibindings")
    try:
        bindings.create(body)
    except ServerError as error:
        if error.code != 409:
            raise
    poll(
        lambda: (bindings.get(_EXPORT).get("status") or {}).get("phase") == "Bound",
        _BIND_SECONDS,
        lambda: f"APIBinding {quote(_EXPORT)} is not bound",
    )


class MoveRunner:
    """Runs moves and reports each; stops when one has failed twice."""

    def __init__(self, client: RestClient, moves: Sequence[PlannedMove], timeout: float) -> None:
        self._objects = migrations(client)
        self._total, self._timeout = len(moves), timeout
        self._waiting = deque((move, 1) for move in moves)
        self._running: dict[str, tuple[PlannedMove, int, float]] = {}
        self._done = 0
        self._failures: list[str] = []

    def run(self) -> None:
        while self._running or (self._waiting and not self._failures):
            while self._can_start():
                self._start(*self._waiting.popleft())
            for name in tuple(self._running):
                self._look(name)
            if self._running:
                time.sleep(_POLL_SECONDS)
        if self._failures:
            left = self._total - self._done
            raise PluginError(f"{'; '.join(self._failures)}; {left} workspaces were not moved")

    def _can_start(self) -> bool:
        """A parent waits until everything below it has moved."""
        if not self._waiting or self._failures or len(self._running) >= AT_ONCE:
            return False
        path = self._waiting[0][0].path
        return not any(one.path.startswith(f"{path}:") for one, _, _ in self._running.values())

    def _start(self, move: PlannedMove, attempt: int) -> None:
        name = f"move-{move.cluster}"
        spec = {"logicalCluster": move.cluster, "destinationShard": move.destination}
        body = {
            "apiVersion": "migration.kcp.io/v1alpha1",
            "kind": "LogicalClusterMigration",
            "metadata": {"name": name},
            "spec": spec,
        }
        try:
            self._objects.create(body)
        except ServerError as error:
            if error.code != 409 or self._objects.get(name)["spec"] != spec:
                raise
        self._running[name] = (move, attempt, time.monotonic())

    def _look(self, name: str) -> None:
        move, attempt, began = self._running[name]
        found = self._objects.get(name)
        status = found.get("status") or {}
        phase = status.get("phase") or ""
        seconds = time.monotonic() - began
        if phase == "Completed":
            self._done += 1
            entries = status.get("entriesCopied") or 0
            print(
                f"[{self._done}/{self._total}] {move.path}: {move.origin} -> {move.destination}"
                f" ({entries} objects, {seconds:.1f} s)",
                flush=True,
            )
        elif phase == "Failed":
            if attempt < TRIES:
                self._waiting.appendleft((move, attempt + 1))
            else:
                self._failures.append(f"{move.path} cannot be moved{unmet(found)}")
        elif seconds > self._timeout:
            hint = "" if phase not in ("", "Preparing") else (
                "; is the feature gate LogicalClusterMigration on?"
            )  # fmt: skip
            self._failures.append(
                f"{move.path} is in phase {quote(phase)} after {seconds:.0f} s{hint}"
            )
        else:
            return
        del self._running[name]
        if phase in ("Completed", "Failed"):
            self._objects.delete(name)
