"""How a plan of moves goes on. Pure.

The state of a plan is in its status and in the LogicalClusterMigrations that it owns: a server
that starts anew, or takes over, finds everything there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from pykcp.machinery import meta
from pykcp.machinery.conditions import FALSE, conditions_of
from pykcp.types import Object

AT_ONCE = 4
TRIES = 2
_BEFORE_TAKEN = ("", "Preparing", "Migrating")
"""Phases in which a move can be cancelled."""


@dataclass(slots=True)
class PlanStep:
    """What the state of a plan is, and what is to be done next."""

    status: Object
    """Without conditions."""
    begin: list[Object] = field(default_factory=list)
    """Moves to begin."""
    remove: list[str] = field(default_factory=list)
    """Names of migrations that have ended, or have taken too long."""
    look_after: float | None = None
    """Seconds after which a move has taken too long."""


def migration_name(plan: str, cluster: str) -> str:
    return f"{plan}-{cluster}"


def next_step(plan: Object, migrations: Iterable[Object], now: float) -> PlanStep:
    """`migrations`: those of the plan; `now`: in seconds since 1970."""
    spec, before = plan["spec"], plan.get("status") or {}
    moves: Sequence[Object] = spec.get("moves") or ()
    done = {one["logicalCluster"]: one for one in before.get("done") or ()}
    failed = {one["logicalCluster"]: one for one in before.get("failed") or ()}
    limit = float(spec.get("timeoutSeconds") or 600)
    step = PlanStep({})
    running: list[Object] = []
    busy: set[str] = set()
    for migration in migrations:
        cluster = migration["spec"]["logicalCluster"]
        busy.add(cluster)
        phase = _phase(migration)
        entries = (migration.get("status") or {}).get("entriesCopied") or 0
        left = meta.parse_rfc3339(meta.creation_timestamp(migration)) + limit - now
        is_late = left <= 0 and phase in _BEFORE_TAKEN
        if phase == "Completed":
            done[cluster] = {"logicalCluster": cluster, "entriesCopied": entries}
            failed.pop(cluster, None)
        elif phase == "Failed" or is_late:
            failed[cluster] = _failure(migration, failed.get(cluster), limit if is_late else 0)
        else:
            running.append({"logicalCluster": cluster, "phase": phase, "entriesCopied": entries})
            step.look_after = min(left, step.look_after or left) if left > 0 else step.look_after
            continue
        if not meta.is_deleting(migration):
            step.remove.append(meta.name(migration))
    has_failed = any(one["attempts"] >= TRIES for one in failed.values())
    waiting = [move for move in moves if move["logicalCluster"] not in done]
    if spec.get("approved") and not has_failed:
        step.begin = _startable(waiting, busy, AT_ONCE - len(running))
    step.status = {
        "phase": _plan_phase(spec, waiting, bool(running), bool(done or failed), has_failed),
        "total": len(moves),
        "moved": len(moves) - len(waiting),
        "done": list(done.values()),
        "failed": list(failed.values()),
        "moving": sorted(running, key=lambda one: str(one["logicalCluster"])),
    }
    return step


def _startable(waiting: Sequence[Object], busy: set[str], room: int) -> list[Object]:
    """A workspace waits until everything below it has moved."""
    if room <= 0:
        return []
    above = {parent for move in waiting for parent in _parents(move.get("path") or "")}
    free = [
        move
        for move in waiting
        if move["logicalCluster"] not in busy and (move.get("path") or "") not in above
    ]
    return free[:room]


def _parents(path: str) -> Iterator[str]:
    parent = path.rpartition(":")[0]
    while parent:
        yield parent
        parent = parent.rpartition(":")[0]


def _plan_phase(
    spec: Object, waiting: Sequence[Object], is_running: bool, has_begun: bool, has_failed: bool
) -> str:
    if not waiting:
        return "Completed"
    if has_failed and not is_running:
        return "Failed"
    if spec.get("approved"):
        return "Running"
    return "Paused" if is_running or has_begun else "Planned"


def _failure(migration: Object, before: Object | None, limit: float) -> Object:
    """One more failed attempt, unless this migration was counted already."""
    attempts: int = before["attempts"] if before else 0
    if before is not None and before.get("migration") == meta.uid(migration):
        return before
    if limit:
        message = f"it is in phase {_phase(migration) or 'Preparing'} after {limit:.0f} s"
    else:
        reasons = [
            str(one.get("message") or one.get("reason") or "")
            for one in conditions_of(migration)
            if one.get("status") == FALSE
        ]
        message = "; ".join(reason for reason in reasons if reason) or "the migration failed"
    return {
        "logicalCluster": migration["spec"]["logicalCluster"],
        "attempts": attempts + 1,
        "message": message,
        "migration": meta.uid(migration),
    }


def _phase(migration: Object) -> str:
    phase: str = (migration.get("status") or {}).get("phase") or ""
    return phase
