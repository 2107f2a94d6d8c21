"""What a delete does: remove, mark or nothing, as finalizers and policies say."""

from __future__ import annotations

from typing import Any

import pytest

from pykcp.machinery.status import Conflict
from pykcp.registry.verbs.deletion import (
    CRD_FINALIZER,
    DeleteOptions,
    DeletionAction,
    check_namespace_preconditions,
    check_preconditions,
    is_finished,
    is_kept_namespace,
    mark_as_deleting,
    plan,
    plan_definition,
    plan_namespace,
    plan_pod,
)

NOW = "2026-01-01T00:00:00Z"
EARLIER = "2025-01-01T00:00:00Z"


def thing(*finalizers: str, **metadata: Any) -> dict[str, Any]:
    found: dict[str, Any] = {"name": "x", "uid": "u", "resourceVersion": "7", **metadata}
    if finalizers:
        found["finalizers"] = list(finalizers)
    return {"metadata": found}


@pytest.mark.parametrize(
    ("finalizers", "options", "action", "after"),
    [
        ((), DeleteOptions(), DeletionAction.REMOVE, ()),
        ((), DeleteOptions(propagation="Background"), DeletionAction.REMOVE, ()),
        ((), DeleteOptions(propagation="Foreground"), DeletionAction.MARK, ("foregroundDeletion",)),
        ((), DeleteOptions(propagation="Orphan"), DeletionAction.MARK, ("orphan",)),
        ((), DeleteOptions(orphan_dependents=True), DeletionAction.MARK, ("orphan",)),
        ((), DeleteOptions(orphan_dependents=False), DeletionAction.REMOVE, ()),
        (("mine",), DeleteOptions(), DeletionAction.MARK, ("mine",)),
        (("mine",), DeleteOptions(propagation="Orphan"), DeletionAction.MARK, ("mine", "orphan")),
        (("orphan",), DeleteOptions(), DeletionAction.MARK, ("orphan",)),
        (("orphan",), DeleteOptions(propagation="Background"), DeletionAction.REMOVE, ("orphan",)),
        (("orphan",), DeleteOptions(propagation="Foreground"), DeletionAction.MARK, ("foregroundDeletion",)),
        (("foregroundDeletion",), DeleteOptions(orphan_dependents=True), DeletionAction.MARK, ("orphan",)),
        (("foregroundDeletion",), DeleteOptions(orphan_dependents=False), DeletionAction.REMOVE, ("foregroundDeletion",)),
    ],
)  # fmt: skip
def test_plan(
    finalizers: tuple[str, ...],
    options: DeleteOptions,
    action: DeletionAction,
    after: tuple[str, ...],
) -> None:
    """Policies are finalizers too; what has one stays until it is gone."""
    obj = thing(*finalizers)
    assert plan(obj, options, now=NOW, collects_garbage=True) is action
    assert tuple(obj["metadata"].get("finalizers", ())) == after
    assert ("deletionTimestamp" in obj["metadata"]) == (action is DeletionAction.MARK)


def test_policies_mean_nothing_where_there_is_no_garbage() -> None:
    """Events are removed whatever the policy says."""
    options = DeleteOptions(propagation="Orphan")
    assert plan(thing(), options, now=NOW, collects_garbage=False) is DeletionAction.REMOVE


def test_a_second_delete_changes_nothing() -> None:
    """What is being deleted keeps its timestamp; only another policy is written."""
    obj = thing("mine", deletionTimestamp=EARLIER)
    assert plan(obj, DeleteOptions(), now=NOW, collects_garbage=True) is DeletionAction.NOTHING
    options = DeleteOptions(propagation="Foreground")
    assert plan(obj, options, now=NOW, collects_garbage=True) is DeletionAction.MARK
    assert obj["metadata"]["deletionTimestamp"] == EARLIER


def test_marking_counts_as_a_change_of_the_specification() -> None:
    """The generation goes up once, and only where there is one."""
    metadata: dict[str, Any] = {"generation": 3}
    mark_as_deleting(metadata, NOW)
    assert metadata == {"generation": 4, "deletionTimestamp": NOW, "deletionGracePeriodSeconds": 0}
    mark_as_deleting(metadata, "later")
    assert metadata["generation"] == 4
    assert metadata["deletionTimestamp"] == NOW


def test_namespaces_are_only_marked() -> None:
    """The first delete marks, further ones do nothing until the namespace is empty."""
    namespace = thing() | {"spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}}
    assert plan_namespace(namespace, DeleteOptions(), NOW) is DeletionAction.MARK
    assert namespace["status"] == {"phase": "Terminating"}
    assert is_kept_namespace(namespace)
    assert plan_namespace(namespace, DeleteOptions(), NOW) is DeletionAction.NOTHING
    namespace["spec"] = {}
    assert plan_namespace(namespace, DeleteOptions(), NOW) is DeletionAction.REMOVE


def test_definitions_wait_for_their_objects() -> None:
    """A CRD gets its finalizer and a condition that says what happens."""
    crd = thing("mine")
    assert plan_definition(crd, DeleteOptions(), NOW) is DeletionAction.MARK
    assert crd["metadata"]["finalizers"] == ["mine", CRD_FINALIZER]
    assert "deletionGracePeriodSeconds" not in crd["metadata"]
    (condition,) = crd["status"]["conditions"]
    assert (condition["type"], condition["reason"]) == ("Terminating", "InstanceDeletionPending")


@pytest.mark.parametrize(
    ("metadata", "finished"),
    [
        ({"deletionTimestamp": NOW}, True),
        ({"deletionTimestamp": NOW, "finalizers": []}, True),
        ({"deletionTimestamp": NOW, "finalizers": ["a"]}, False),
        ({"deletionTimestamp": NOW, "deletionGracePeriodSeconds": 30}, False),
        ({}, False),
    ],
)
def test_is_finished(metadata: dict[str, Any], finished: bool) -> None:
    """The update that takes the last finalizer away is the deletion."""
    assert is_finished(metadata) is finished


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            DeleteOptions(uid="other"),
            ('Operation cannot be fulfilled on ConfigMap "x": the UID in the precondition (other) does not match the '
            "UID in record (u). The object might have been deleted and then recreated"),
        ),
        (
            DeleteOptions(resource_version="1"),
            ('Operation cannot be fulfilled on ConfigMap "x": the ResourceVersion in the precondition (1) does not '
            "match the ResourceVersion in record (7). The object might have been modified"),
        ),
    ],
)  # fmt: skip
def test_preconditions(options: DeleteOptions, message: str) -> None:
    """Only the object that is meant is deleted."""
    with pytest.raises(Conflict) as caught:
        check_preconditions(thing(), options, "", "ConfigMap")
    assert caught.value.message == message
    check_preconditions(thing(), DeleteOptions(uid="u", resource_version="7"), "", "ConfigMap")


def test_preconditions_of_namespaces_are_worded_otherwise() -> None:
    """Upstream's namespace storage has its own text."""
    with pytest.raises(
        Conflict, match="Precondition failed: UID in precondition: o, UID in object meta: u"
    ):
        check_namespace_preconditions(thing(), DeleteOptions(uid="o"))


LATER = "2026-01-01T00:00:30Z"
SOONER = "2026-01-01T00:00:05Z"


def pod(*finalizers: str, node: str = "n1", phase: str = "Running", **metadata: Any) -> Any:
    spec = {"terminationGracePeriodSeconds": 30, **({"nodeName": node} if node else {})}
    return {**thing(*finalizers, **metadata), "spec": spec, "status": {"phase": phase}}


def ending(when: str, left: int) -> dict[str, Any]:
    return {"deletionTimestamp": when, "deletionGracePeriodSeconds": left}


@pytest.mark.parametrize(
    ("found", "options", "action", "when", "left"),
    [
        (pod(), DeleteOptions(), DeletionAction.MARK, LATER, 30),
        (pod(), DeleteOptions(grace_period=5), DeletionAction.MARK, SOONER, 5),
        (pod(), DeleteOptions(grace_period=0), DeletionAction.MARK_AND_REMOVE, NOW, 0),
        (pod(), DeleteOptions(grace_period=-1), DeletionAction.MARK, "2026-01-01T00:00:01Z", 1),
        (pod(node=""), DeleteOptions(), DeletionAction.MARK_AND_REMOVE, NOW, 0),
        (pod(phase="Failed"), DeleteOptions(), DeletionAction.MARK_AND_REMOVE, NOW, 0),
        (pod("mine", node=""), DeleteOptions(), DeletionAction.MARK, NOW, 0),
        (
            pod(node=""),
            DeleteOptions(propagation="Foreground"),
            DeletionAction.MARK,
            NOW,
            0,
        ),
        (pod(**ending(LATER, 30)), DeleteOptions(), DeletionAction.NOTHING, LATER, 30),
        (
            pod(**ending(LATER, 30)),
            DeleteOptions(grace_period=60),
            DeletionAction.NOTHING,
            LATER,
            30,
        ),
        (pod(**ending(LATER, 30)), DeleteOptions(grace_period=5), DeletionAction.MARK, SOONER, 5),
        (
            pod(**ending(LATER, 30)),
            DeleteOptions(grace_period=0),
            DeletionAction.MARK_AND_REMOVE,
            NOW,
            0,
        ),
        (pod("mine", **ending(NOW, 0)), DeleteOptions(), DeletionAction.NOTHING, NOW, 0),
        (pod(**ending(NOW, 0)), DeleteOptions(), DeletionAction.REMOVE, NOW, 0),
    ],
)
def test_pods_have_time_to_end(
    found: Any, options: DeleteOptions, action: DeletionAction, when: str, left: int
) -> None:
    assert plan_pod(found, options, NOW) is action
    metadata = found["metadata"]
    assert (metadata["deletionTimestamp"], metadata["deletionGracePeriodSeconds"]) == (when, left)
