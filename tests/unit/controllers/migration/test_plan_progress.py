"""Plans of moves: which begin, which have failed, when a plan has ended."""

from __future__ import annotations

from typing import Any

import pytest

from pykcp.controllers.migration.plan_progress import AT_ONCE, next_step
from pykcp.machinery.meta import now_rfc3339

NOW = 1_800_000_000.0


def plan(*paths: str, approved: bool = True, **status: Any) -> dict[str, Any]:
    moves = [{"path": p, "logicalCluster": f"c-{p}", "destination": "b"} for p in paths]
    spec = {"approved": approved, "moves": moves, "timeoutSeconds": 100}
    return {"metadata": {"name": "p", "uid": "u"}, "spec": spec, "status": status}


def migration(path: str, phase: str = "Migrating", age: float = 1.0, **more: Any) -> dict[str, Any]:
    metadata = {
        "name": f"p-c-{path}",
        "uid": f"uid-{path}",
        "creationTimestamp": now_rfc3339(NOW - age),
        **more,
    }
    failed = {"type": "OriginReady", "status": "False", "message": "no room"}
    conditions = [failed] if phase == "Failed" else []
    return {
        "metadata": metadata,
        "spec": {"logicalCluster": f"c-{path}"},
        "status": {"phase": phase, "entriesCopied": 7, "conditions": conditions},
    }


def done(*paths: str) -> list[dict[str, Any]]:
    return [{"logicalCluster": f"c-{path}", "entriesCopied": 1} for path in paths]


def failure(path: str, attempts: int, uid: str = "earlier") -> dict[str, Any]:
    entry = {"logicalCluster": f"c-{path}", "attempts": attempts, "migration": uid}
    return {**entry, "message": "no room"}


def begun(step: Any) -> list[str]:
    return [move["path"] for move in step.begin]


def test_nothing_begins_without_approval() -> None:
    step = next_step(plan("r:a", approved=False), [], NOW)
    assert (begun(step), step.status["phase"], step.status["total"]) == ([], "Planned", 1)


def test_a_few_at_a_time() -> None:
    paths = [f"r:{n}" for n in range(9)]
    assert begun(next_step(plan(*paths), [], NOW)) == paths[:AT_ONCE]
    step = next_step(plan(*paths), [migration("r:0"), migration("r:1")], NOW)
    assert begun(step) == ["r:2", "r:3"]
    assert [one["logicalCluster"] for one in step.status["moving"]] == ["c-r:0", "c-r:1"]
    assert step.look_after == pytest.approx(99.0)


def test_children_first_wherever_they_are_in_the_list() -> None:
    paths = ("r:a", "r:a:b:c", "r:ab", "r:a:b")
    assert begun(next_step(plan(*paths), [], NOW)) == ["r:a:b:c", "r:ab"]
    assert begun(next_step(plan(*paths, done=done("r:a:b:c")), [], NOW)) == ["r:ab", "r:a:b"]


def test_a_completed_move() -> None:
    step = next_step(plan("r:a", "r:b"), [migration("r:a", "Completed")], NOW)
    assert step.remove == ["p-c-r:a"]
    assert step.status["done"] == [{"logicalCluster": "c-r:a", "entriesCopied": 7}]
    assert (step.status["moved"], step.status["phase"]) == (1, "Running")
    step = next_step(plan("r:a", done=done("r:a")), [], NOW)
    assert (step.status["phase"], begun(step)) == ("Completed", [])


def test_the_second_failure_of_a_move_ends_the_plan() -> None:
    first = next_step(plan("r:a", "r:b"), [migration("r:a", "Failed")], NOW)
    assert first.status["failed"] == [failure("r:a", 1, "uid-r:a")]
    assert begun(first) == ["r:b"], "the failed one waits until its migration is gone"
    again = next_step(plan("r:a", "r:b", failed=first.status["failed"]), [], NOW)
    assert begun(again) == ["r:a", "r:b"]
    counted = next_step(
        plan("r:a", failed=first.status["failed"]), [migration("r:a", "Failed")], NOW
    )
    assert counted.status["failed"][0]["attempts"] == 1, "each migration counts once"
    before = [failure("r:a", 1)]
    running = [migration("r:a", "Failed"), migration("r:b")]
    last = next_step(plan("r:a", "r:b", "r:c", failed=before), running, NOW)
    assert (last.status["phase"], begun(last)) == ("Running", [])
    ended = next_step(plan("r:a", "r:b", failed=[failure("r:a", 2)]), [], NOW)
    assert (ended.status["phase"], begun(ended)) == ("Failed", [])


def test_a_move_that_takes_too_long_is_cancelled_before_it_is_taken() -> None:
    late = next_step(plan("r:a"), [migration("r:a", "Preparing", age=101)], NOW)
    assert late.remove == ["p-c-r:a"]
    assert late.status["failed"][0]["message"] == "it is in phase Preparing after 100 s"
    taken = next_step(plan("r:a"), [migration("r:a", "OriginCleanup", age=101)], NOW)
    assert (taken.remove, taken.status["failed"], taken.look_after) == ([], [], None)


def test_withdrawing_the_approval_pauses() -> None:
    step = next_step(plan("r:a", "r:b", approved=False), [migration("r:a")], NOW)
    assert (step.status["phase"], begun(step)) == ("Paused", [])
    step = next_step(plan("r:a", "r:b", approved=False, done=done("r:a")), [], NOW)
    assert step.status["phase"] == "Paused"


def test_a_migration_that_is_being_deleted_is_not_deleted_again() -> None:
    going = migration("r:a", "Failed", deletionTimestamp=now_rfc3339(NOW))
    assert next_step(plan("r:a"), [going], NOW).remove == []
