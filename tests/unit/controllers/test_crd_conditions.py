"""What a definition's status says about names, establishment and approval."""

from __future__ import annotations

from typing import Any

import pytest

from pykcp.controllers.kube.crd_conditions import after_naming, condition_of

Object = dict[str, Any]
NOW = "2026-01-01T00:00:00Z"


def crd(group: str = "example.com", **names: Any) -> Object:
    given = {"plural": "boxes", "singular": "box", "kind": "Box", "listKind": "BoxList", **names}
    return {
        "metadata": {"name": f"{given['plural']}.{group}"},
        "spec": {"group": group, "names": given},
        "status": {},
    }


def settled(one: Object, *others: Object) -> Object:
    return {**one, "status": after_naming(one, others, NOW)}


def said(one: Object, kind: str) -> tuple[str, str, str]:
    found = condition_of(one, kind)
    assert found is not None
    return found["status"], found["reason"], found["message"]


def test_free_names_are_accepted_at_once() -> None:
    found = settled(crd(shortNames=["bx"], categories=["all"]))
    assert found["status"]["acceptedNames"] == found["spec"]["names"]
    assert said(found, "NamesAccepted") == ("True", "NoConflicts", "no conflicts found")
    assert said(found, "Established") == (
        "True",
        "InitialNamesAccepted",
        "the initial names have been accepted",
    )


CONFLICTS: dict[str, tuple[Object, str, str]] = {
    "singular": ({"singular": "box"}, "SingularConflict", '"box" is already in use'),
    "kind": ({"kind": "Box"}, "KindConflict", '"Box" is already in use'),
    "list kind": ({"listKind": "BoxList"}, "ListKindConflict", '"BoxList" is already in use'),
    "short name": ({"shortNames": ["bx"]}, "ShortNamesConflict", '"bx" is already in use'),
    "short names": (
        {"shortNames": ["bx", "free", "box"]},
        "ShortNamesConflict",
        '["bx" is already in use, "box" is already in use]',
    ),
    "kind as list kind": ({"kind": "BoxList"}, "KindConflict", '"BoxList" is already in use'),
}


@pytest.mark.parametrize("case", CONFLICTS, ids=str)
def test_names_belong_to_who_had_them_first(case: str) -> None:
    changes, reason, message = CONFLICTS[case]
    holder = settled(crd(shortNames=["bx"]))
    other = {"plural": "cases", "singular": "case", "kind": "Case", "listKind": "CaseList"}
    found = settled(crd(**{**other, **changes}), holder)
    assert said(found, "NamesAccepted") == ("False", reason, message)
    assert said(found, "Established") == ("False", "NotAccepted", "not all names are accepted")
    assert found["status"]["acceptedNames"]["plural"] == "cases"


def test_a_conflict_is_over_when_the_holder_goes() -> None:
    holder = settled(crd())
    waiting = settled(crd(plural="cases", singular="case", listKind="CaseList"), holder)
    assert said(waiting, "NamesAccepted")[0] == "False"
    freed = settled(waiting)
    assert said(freed, "NamesAccepted")[0] == "True"
    assert said(freed, "Established")[0] == "True"


def test_what_is_established_stays_so_when_new_names_are_taken() -> None:
    other = settled(crd(plural="cases", singular="case", kind="Case", listKind="CaseList"))
    mine = settled(crd())
    mine["spec"]["names"] = {**mine["spec"]["names"], "shortNames": ["case"]}
    found = settled(mine, other)
    assert said(found, "NamesAccepted")[:2] == ("False", "ShortNamesConflict")
    assert said(found, "Established")[0] == "True"
    assert "shortNames" not in found["status"]["acceptedNames"]


_MISSING = (
    'protected groups must have approval annotation "api-approved.kubernetes.io", '
    "see https://github.com/kubernetes/enhancements/pull/1111"
)
APPROVALS = {
    "https://github.com/kubernetes/kubernetes/pull/1": (
        "True",
        "ApprovedAnnotation",
        "approved in https://github.com/kubernetes/kubernetes/pull/1",
    ),
    "unapproved, experimental": (
        "False",
        "UnapprovedAnnotation",
        'not approved: "unapproved, experimental"',
    ),
    "": (
        "False",
        "MissingAnnotation",
        _MISSING,
    ),
}


@pytest.mark.parametrize("text", APPROVALS)
def test_approval_of_community_groups(text: str) -> None:
    one = crd("sigs.k8s.io")
    one["metadata"]["annotations"] = {"api-approved.kubernetes.io": text}
    assert said(settled(one), "KubernetesAPIApprovalPolicyConformant") == APPROVALS[text]


def test_other_groups_need_no_approval() -> None:
    assert condition_of(settled(crd()), "KubernetesAPIApprovalPolicyConformant") is None


def test_approval_comes_before_names_and_after_what_was_there() -> None:
    """Upstream's order, where two controllers race and the one for approval mostly wins."""
    one = crd("sigs.k8s.io")
    one["metadata"]["annotations"] = {"api-approved.kubernetes.io": "unapproved, experimental"}
    approval = "KubernetesAPIApprovalPolicyConformant"
    expected = [approval, "NamesAccepted", "Established"]
    assert [c["type"] for c in settled(one)["status"]["conditions"]] == expected
    named = settled(crd("example.com"))
    one["status"] = named["status"]
    expected = ["NamesAccepted", "Established", approval]
    assert [c["type"] for c in settled(one)["status"]["conditions"]] == expected
