"""Refusals in the words that kubectl users know."""

from __future__ import annotations

import pytest

from pykcp.auth.authz.attributes import (
    Attributes,
    Decision,
    StageFinding,
    Verdict,
    forbidden,
    path_attributes,
)
from pykcp.auth.user import User

BOB = User("bob")


@pytest.mark.parametrize(
    ("attributes", "reason", "message"),
    [
        (
            Attributes(BOB, "list", "default", "", "configmaps"), "",
            ('configmaps is forbidden: User "bob" cannot list resource "configmaps" in API '
             'group "" in the namespace "default"'),
        ),
        (
            Attributes(BOB, "list", "", "", "namespaces"), "access denied",
            ('namespaces is forbidden: User "bob" cannot list resource "namespaces" in API '
             'group "" at the cluster scope: access denied'),
        ),
        (
            Attributes(BOB, "update", "ns", "apps", "deployments", "scale", name="web"), "",
            ('deployments.apps "web" is forbidden: User "bob" cannot update resource '
             '"deployments/scale" in API group "apps" in the namespace "ns"'),
        ),
        (
            path_attributes(BOB, "get", "/api"), "access denied",
            'forbidden: User "bob" cannot get path "/api": access denied',
        ),
        (
            path_attributes(User("<a&b>"), "get", '/"x"'), "",
            'forbidden: User "&lt;a&amp;b&gt;" cannot get path "/\\"x\\""',
        ),
    ],
)  # fmt: skip
def test_refusals(attributes: Attributes, reason: str, message: str) -> None:
    assert forbidden(attributes, reason).message == message


def test_a_refusal_names_the_object_in_its_details() -> None:
    status = forbidden(Attributes(BOB, "get", "ns", "g", "r", name="n")).to_json()
    assert status["details"] == {"name": "n", "group": "g", "kind": "r"}
    assert (status["code"], status["reason"]) == (403, "Forbidden")


def test_steps_become_audit_annotations() -> None:
    decision = Decision(
        Verdict.DENY, "access denied", (StageFinding("05-local", Verdict.NO_OPINION, "local: "),
                                        StageFinding("01-x", Verdict.DENY, "no"))
    )  # fmt: skip
    assert decision.audit_annotations("request.auth.kcp.io") == {
        "request.auth.kcp.io/05-local-decision": "NoOpinion",
        "request.auth.kcp.io/05-local-reason": "local: ",
        "request.auth.kcp.io/01-x-decision": "Denied",
        "request.auth.kcp.io/01-x-reason": "no",
    }
