"""Plans of moves in `root`: created, approved, and followed until they have ended.

The server carries a plan out. A command that is interrupted does not stop it, and can be repeated.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from pykcp.cli.plugins.access.rest import RestClient
from pykcp.cli.plugins.access.status import ServerError
from pykcp.cli.plugins.errors import PluginError
from pykcp.cli.plugins.go_text import quote
from pykcp.cli.plugins.shards.plan import PlannedMove
from pykcp.cli.plugins.shards.survey import migrations, move_plans
from pykcp.cli.plugins.wait import poll
from pykcp.cli.plugins.workspace.resources import Collection, apis
from pykcp.machinery.kcp.clusters import ROOT

Object = dict[str, Any]
MOST = 1000
"""Moves in one plan."""
ENDED = ("Completed", "Failed")
_POLL_SECONDS = 0.1
_BIND_SECONDS = 30.0
_BEGIN_SECONDS = 30.0


def serve_moves(client: RestClient) -> None:
    """Bind the APIs of migrations and plans in `root`, if they are not."""
    _serve(client, migrations(client), "migration.kcp.io")
    _serve(client, move_plans(client), "moving.pykcp.io")


def _serve(client: RestClient, objects: Collection, export: str) -> None:
    try:
        objects.list("?limit=1")
    except ServerError as error:
        if not error.is_not_found:
            raise
    else:
        return
    body = {
        "apiVersion": "apis.kcp.io/v1alpha2",
        "kind": "APIBinding",
        "metadata": {"name": export},
        "spec": {"reference": {"export": {"path": ROOT, "name": export}}},
    }
    bindings = apis(client, ROOT, "apibindings")
    try:
        bindings.create(body)
    except ServerError as error:
        if error.code != 409:
            raise
    poll(
        lambda: (bindings.get(export).get("status") or {}).get("phase") == "Bound",
        _BIND_SECONDS,
        lambda: f"APIBinding {quote(export)} is not bound",
    )


def plan_body(
    name: str, moves: Sequence[PlannedMove], cordon: str, timeout: float, *, is_approved: bool
) -> Object:
    """A MovePlan."""
    spec: Object = {
        "approved": is_approved,
        "timeoutSeconds": max(1, round(timeout)),
        "moves": [
            {
                "path": one.path,
                "logicalCluster": one.cluster,
                "origin": one.origin,
                "destination": one.destination,
            }
            for one in moves
        ],
    }
    if cordon:
        spec["cordon"] = cordon
    return {
        "apiVersion": "moving.pykcp.io/v1alpha1",
        "kind": "MovePlan",
        "metadata": {"name": name},
        "spec": spec,
    }


def phase_of(plan: Object) -> str:
    return str((plan.get("status") or {}).get("phase") or "")


def current_plan(client: RestClient, name: str) -> Object | None:
    """The plan of a name that has not ended."""
    try:
        found = move_plans(client).get(name)
    except ServerError as error:
        if not error.is_not_found:
            raise
        return None
    return None if phase_of(found) in ENDED else found


def store_plan(client: RestClient, body: Object) -> None:
    """Create a plan; one of the same name that has ended is replaced."""
    objects, name = move_plans(client), body["metadata"]["name"]
    if current_plan(client, name) is not None:
        raise PluginError(
            f"plan {quote(name)} exists: approve it with `kubectl kcp shard approve {name}`, "
            "or delete it"
        )
    try:
        objects.delete(name)
    except ServerError as error:
        if not error.is_not_found:
            raise
    objects.create(body)


def approve_plan(client: RestClient, name: str) -> Object:
    objects = move_plans(client)
    while True:
        found = objects.get(name)
        if found["spec"].get("approved"):
            return found
        try:
            return objects.replace({**found, "spec": {**found["spec"], "approved": True}})
        except ServerError as error:
            if error.code != 409:
                raise


class PlanFollower:
    """Prints what has moved until the plan has ended."""

    def __init__(self, client: RestClient, name: str) -> None:
        self._objects, self._name = move_plans(client), name
        self._told: set[str] = set()

    def run(self) -> None:
        began = time.monotonic()
        while True:
            plan = self._objects.get(self._name)
            self._tell(plan)
            phase = phase_of(plan)
            if phase == "Completed":
                return
            if phase == "Failed":
                raise PluginError(_failures(plan))
            if phase == "Paused":
                raise PluginError(f"plan {quote(self._name)} was paused")
            if not phase and time.monotonic() - began > _BEGIN_SECONDS:
                raise PluginError(
                    f"plan {quote(self._name)} has not begun: is the feature gate "
                    "LogicalClusterMigration on?"
                )
            time.sleep(_POLL_SECONDS)

    def _tell(self, plan: Object) -> None:
        moves = {one["logicalCluster"]: one for one in plan["spec"]["moves"]}
        for done in (plan.get("status") or {}).get("done") or ():
            cluster = done["logicalCluster"]
            if cluster in self._told or cluster not in moves:
                continue
            self._told.add(cluster)
            move, entries = moves[cluster], done.get("entriesCopied") or 0
            print(
                f"[{len(self._told)}/{len(moves)}] {move['path']}: {move['origin']} -> "
                f"{move['destination']} ({entries} objects)",
                flush=True,
            )


def _failures(plan: Object) -> str:
    paths = {one["logicalCluster"]: one["path"] for one in plan["spec"]["moves"]}
    status = plan["status"]
    texts = [
        f"{paths.get(one['logicalCluster'], one['logicalCluster'])} cannot be moved: "
        f"{one.get('message') or ''}"
        for one in status.get("failed") or ()
    ]
    return f"{'; '.join(texts)}; {status['total'] - status['moved']} workspaces were not moved"
