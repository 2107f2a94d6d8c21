"""Conditions of a terminating namespace, in upstream's words."""

from __future__ import annotations

from pykcp.controllers.kube.namespace_conditions import (
    RemainingObjects,
    unexpected_remains,
    update_conditions,
)
from pykcp.machinery.resources import CONFIG_MAPS, ROLES

_TYPES = [
    "NamespaceDeletionDiscoveryFailure",
    "NamespaceDeletionGroupVersionParsingFailure",
    "NamespaceDeletionContentFailure",
    "NamespaceContentRemaining",
    "NamespaceFinalizersRemaining",
]


def _by_type(conditions: list[dict[str, str]] | None) -> dict[str, dict[str, str]]:
    return {condition["type"]: condition for condition in conditions or ()}


def test_all_is_well() -> None:
    conditions = update_conditions((), RemainingObjects(), "t1")
    assert conditions is not None
    assert [c["type"] for c in conditions] == _TYPES
    assert {c["status"] for c in conditions} == {"False"}
    assert [c["message"] for c in conditions] == [
        "All resources successfully discovered",
        "All legacy kube types successfully parsed",
        "All content successfully deleted, may be waiting on finalization",
        "All content successfully removed",
        "All content-preserving finalizers finished",
    ]


def test_what_remains_is_named_and_sorted() -> None:
    remains = RemainingObjects(
        {CONFIG_MAPS: 2, ROLES: 1}, {"b.io/x": 1, "a.io/x": 3}, ["second", "first"]
    )
    found = _by_type(update_conditions((), remains, "t1"))
    assert found["NamespaceContentRemaining"] == {
        "type": "NamespaceContentRemaining",
        "status": "True",
        "lastTransitionTime": "t1",
        "reason": "SomeResourcesRemain",
        "message": "Some resources are remaining: configmaps. has 2 resource instances, "
        "roles.rbac.authorization.k8s.io has 1 resource instances",
    }
    assert found["NamespaceFinalizersRemaining"]["message"] == (
        "Some content in the namespace has finalizers remaining: "
        "a.io/x in 3 resource instances, b.io/x in 1 resource instances"
    )
    assert found["NamespaceDeletionContentFailure"]["reason"] == "ContentDeletionFailed"
    assert found["NamespaceDeletionContentFailure"]["message"] == (
        "Failed to delete all resource types, 2 remaining: first, second"
    )


def test_a_transition_is_dated_and_a_new_message_is_not() -> None:
    one = update_conditions((), RemainingObjects({CONFIG_MAPS: 2}), "t1") or []
    assert update_conditions(one, RemainingObjects({CONFIG_MAPS: 2}), "t2") is None
    fewer = update_conditions(one, RemainingObjects({CONFIG_MAPS: 1}), "t2")
    assert _by_type(fewer)["NamespaceContentRemaining"]["lastTransitionTime"] == "t1"
    assert "has 1 resource" in _by_type(fewer)["NamespaceContentRemaining"]["message"]
    none = update_conditions(fewer or [], RemainingObjects(), "t3")
    assert _by_type(none)["NamespaceContentRemaining"]["lastTransitionTime"] == "t3"
    assert _by_type(none)["NamespaceContentRemaining"]["status"] == "False"


def test_foreign_conditions_stay() -> None:
    mine = {"type": "Mine", "status": "True"}
    assert (update_conditions((mine,), RemainingObjects(), "t") or [])[0] == mine


def test_unexpected_remains_name_the_kind_as_go_does() -> None:
    assert unexpected_remains("ns", CONFIG_MAPS) == (
        "unexpected items still remain in namespace: ns for gvr: /v1, Resource=configmaps"
    )
