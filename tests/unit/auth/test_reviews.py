"""Reviews, answered and refused as a running kube-apiserver does."""

from __future__ import annotations

from typing import Any

import pytest

from pykcp.auth import reviews
from pykcp.auth.authn.chain import Authentication
from pykcp.auth.authn.static_tokens import parse_token_file
from pykcp.auth.authz.chain import Authorizer
from pykcp.auth.authz.rbac import RbacObjects
from pykcp.auth.authz.rbac_chain import RbacChain
from pykcp.auth.authz.role_cache import ClusterRules, RoleCache
from pykcp.auth.user import User
from pykcp.machinery.status import BadRequest, InternalError, StatusError

ALICE = User("alice", "1", ("team",))
PODS = {"verb": "get", "resource": "pods", "namespace": "default"}
WHERE = "spec.resourceAttributes"


@pytest.fixture
def authorizer() -> Authorizer:
    rules = [
        {"verbs": ["access"], "nonResourceURLs": ["/"]},
        {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "resourceNames": ["a"]},
        {"verbs": ["list"], "apiGroups": ["*"], "resources": ["*"]},
    ]
    binding = {
        "metadata": {"name": "b"},
        "roleRef": {"kind": "ClusterRole", "name": "r"},
        "subjects": [{"kind": "Group", "name": "team"}, {"kind": "User", "name": "outsider"}],
    }
    gone = {
        **binding,
        "metadata": {"name": "gone"},
        "roleRef": {"kind": "ClusterRole", "name": "g"},
    }
    closed = {
        **binding,
        "metadata": {"name": "c"},
        "roleRef": {"kind": "ClusterRole", "name": "lister"},
        "subjects": [{"kind": "User", "name": "stranger"}],
    }
    roles = [
        {"metadata": {"name": "r"}, "rules": rules},
        {"metadata": {"name": "lister"}, "rules": [rules[2]]},
    ]
    content = ClusterRules(
        RbacObjects(roles, [binding, gone, closed]), logical_cluster={"status": {"phase": "Ready"}}
    )

    async def load(cluster: str) -> ClusterRules:
        return content if cluster == "ws" else ClusterRules()

    return Authorizer(RbacChain(RoleCache(load)))


def review(kind: str, spec: Any = None, metadata: Any = None) -> dict[str, Any]:
    made: dict[str, Any] = {"apiVersion": "authorization.k8s.io/v1", "kind": kind}
    if spec is not None:
        made["spec"] = spec
    if metadata is not None:
        made["metadata"] = metadata
    return made


@pytest.mark.parametrize(
    ("spec", "status"),
    [
        ({"groups": ["team"], "resourceAttributes": {"verb": "list", "resource": "pods"}},
         {"allowed": True, "reason": "access granted"}),
        ({"groups": ["team"], "resourceAttributes": {**PODS, "name": "a"}},
         {"allowed": True, "reason": "access granted"}),
        ({"groups": ["team"], "resourceAttributes": {**PODS, "name": "b"}},
         {"allowed": False, "reason": "access denied"}),
        ({"user": "x", "resourceAttributes": PODS}, {"allowed": False, "reason": "access denied"}),
        ({"groups": ["system:masters"], "resourceAttributes": PODS}, {"allowed": True}),
        ({"user": "x", "nonResourceAttributes": {"path": "/healthz", "verb": "get"}},
         {"allowed": True}),
        ({"groups": ["team"], "nonResourceAttributes": {"path": "/x", "verb": "get"}},
         {"allowed": False, "reason": "access denied"}),
        ({"groups": ["team"], "resourceAttributes": {
            "verb": "get", "group": "apis.kcp.io", "resource": "apiexports",
            "subresource": "status"}},
         {"allowed": False, "denied": True, "reason": "access denied"}),
        ({"user": "x", "uid": "7", "resourceAttributes": {**PODS, "verb": "list"},
          "extra": {"authorization.kcp.io/warrant": ['{"user":"y","groups":["team"]}']}},
         {"allowed": True, "reason": "access granted"}),
        ({"user": "x", "resourceAttributes": {**PODS, "labelSelector": {"rawSelector": "a in"}}},
         {"allowed": False, "reason": "access denied",
          "evaluationError": f"{WHERE}.labelSelector ignored due to parse error"}),
        ({"user": "x", "resourceAttributes": {**PODS, "labelSelector": {"rawSelector": "a in (b)"},
                                              "fieldSelector": {"rawSelector": "a=b"}}},
         {"allowed": False, "reason": "access denied"}),
        ({"user": "x", "resourceAttributes": {**PODS, "fieldSelector": {"rawSelector": "a"}}},
         {"allowed": False, "reason": "access denied",
          "evaluationError": f"{WHERE}.fieldSelector ignored due to parse error"}),
        ({"user": "x", "resourceAttributes": {
            **PODS,
            "labelSelector": {"requirements": [{"key": "a", "operator": "Odd"},
                                               {"key": "b", "operator": "Exists"}]},
            "fieldSelector": {"requirements": [{"key": "x", "operator": "Exists"}]}}},
         {"allowed": False, "reason": "access denied",
          "evaluationError": f"{WHERE}.fieldSelector ignored due to parse error; "
                             f"{WHERE}.labelSelector partially ignored due to parse error"}),
        ({"user": "x", "resourceAttributes": {
            **PODS, "fieldSelector": {"requirements": [
                {"key": "x", "operator": "In", "values": ["1"]},
                {"key": "y", "operator": "NotIn", "values": ["1", "2"]}]}}},
         {"allowed": False, "reason": "access denied",
          "evaluationError": f"{WHERE}.fieldSelector partially ignored due to parse error"}),
    ],
)  # fmt: skip
async def test_subject_access_reviews(authorizer: Authorizer, spec: Any, status: Any) -> None:
    asked = review("SubjectAccessReview", spec)
    answered = await reviews.subject_access_review(authorizer, "ws", asked)
    assert answered == {**asked, "status": status}


async def test_a_deep_review_skips_the_workspace(authorizer: Authorizer) -> None:
    spec = {"user": "stranger", "resourceAttributes": {"verb": "list", "resource": "pods"}}
    asked = review("SubjectAccessReview", spec)
    shallow = await reviews.subject_access_review(authorizer, "ws", asked)
    deep = await reviews.subject_access_review(authorizer, "ws", asked, is_deep=True)
    assert (shallow["status"]["allowed"], deep["status"]["allowed"]) == (False, True)


EITHER = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
NOBODY = 'spec.user: Invalid value: "": at least one of user or group must be specified'


@pytest.mark.parametrize(
    ("spec", "metadata", "problems"),
    [
        ({}, None, f"[{WHERE}: Invalid value: null: {EITHER}, {NOBODY}]"),
        (None, None, f"[{WHERE}: Invalid value: null: {EITHER}, {NOBODY}]"),
        ({"user": "x"}, None, f"{WHERE}: Invalid value: null: {EITHER}"),
        ({"resourceAttributes": PODS}, None, NOBODY),
        ({"user": "x", "resourceAttributes": PODS, "nonResourceAttributes": {"path": "/x"}}, None,
         ('spec.nonResourceAttributes: Invalid value: {"Path":"/x","Verb":""}: cannot be specified '
         "in combination with resourceAttributes")),
        ({"user": "x", "resourceAttributes": PODS}, {"name": "n", "labels": {"a": "b"}},
         'metadata: Invalid value: {"name":"n","labels":{"a":"b"}}: must be empty'),
        ({"user": "x", "resourceAttributes": {
            **PODS, "fieldSelector": {}, "labelSelector": {
                "rawSelector": "a", "requirements": [{"key": "a", "operator": "Exists"}]}}}, None,
         (f"[{WHERE}.fieldSelector.requirements: Required value: when {WHERE}.fieldSelector is "
         f"specified, requirements or rawSelector is required, {WHERE}.labelSelector.rawSelector: "
         'Invalid value: "a": may not specified at the same time as requirements]')),
        ({"user": "x", "resourceAttributes": {**PODS, "fieldSelector": {"requirements": [
            {"operator": "In"}, {"key": "x", "operator": "Exists", "values": ["1"]}]}}}, None,
         (f"[{WHERE}.fieldSelector.requirements[0].key: Required value: must be specified, "
         f"{WHERE}.fieldSelector.requirements[0].values: Required value: must be specified when "
         f"`operator` is 'In' or 'NotIn', {WHERE}.fieldSelector.requirements[1].values: Forbidden: "
         "may not be specified when `operator` is 'Exists' or 'DoesNotExist']")),
    ],
)  # fmt: skip
async def test_what_validation_finds(
    authorizer: Authorizer, spec: Any, metadata: Any, problems: str
) -> None:
    asked = review("SubjectAccessReview", spec, metadata)
    with pytest.raises(StatusError) as caught:
        await reviews.subject_access_review(authorizer, "ws", asked)
    assert caught.value.code == 422
    assert caught.value.message == f'.authorization.k8s.io "" is invalid: {problems}'


async def test_label_requirements_are_checked_like_labels(authorizer: Authorizer) -> None:
    wrong = [{"key": "a b", "operator": "In"}, {"key": "b", "operator": "In", "values": ["y z"]}]
    spec = {"user": "x", "resourceAttributes": {**PODS, "labelSelector": {"requirements": wrong}}}
    with pytest.raises(StatusError) as caught:
        await reviews.subject_access_review(authorizer, "ws", review("SubjectAccessReview", spec))
    places = [cause.field.rpartition("labelSelector.")[2] for cause in caught.value.causes]
    assert places == ["requirements[0].values", "requirements[0].key", "requirements[1].values[0]"]


async def test_local_reviews_are_about_their_namespace(authorizer: Authorizer) -> None:
    asked = review("LocalSubjectAccessReview", {"groups": ["team"], "resourceAttributes": PODS})
    answered = await reviews.local_subject_access_review(authorizer, "ws", asked, "default")
    assert answered["metadata"] == {"namespace": "default"}
    assert answered["status"] == {"allowed": False, "reason": "access denied"}


async def test_local_reviews_refuse_what_is_not_local(authorizer: Authorizer) -> None:
    spec = {
        "user": "x",
        "resourceAttributes": {"verb": "get"},
        "nonResourceAttributes": {"path": "/"},
    }
    asked = review("LocalSubjectAccessReview", spec, {"name": "x"})
    with pytest.raises(StatusError) as caught:
        await reviews.local_subject_access_review(authorizer, "ws", asked, "default")
    shown = '{"Path":"/","Verb":""}'
    assert [(cause.field, cause.message) for cause in caught.value.causes] == [
        ("spec.nonResourceAttributes",
         f"Invalid value: {shown}: cannot be specified in combination with resourceAttributes"),
        ("metadata", ('Invalid value: {"namespace":"default","name":"x"}: '
                     "must be empty except for namespace")),
        (f"{WHERE}.namespace", 'Invalid value: "": must match metadata.namespace'),
        ("spec.nonResourceAttributes",
         f"Invalid value: {shown}: disallowed on this kind of request"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("namespace", "metadata", "message"),
    [
        ("", None, "namespace is required on this type: "),
        ("default", {"namespace": "other"},
         "spec.resourceAttributes.namespace must match namespace: default"),
    ],
)  # fmt: skip
async def test_local_reviews_need_the_right_namespace(
    authorizer: Authorizer, namespace: str, metadata: Any, message: str
) -> None:
    attributes = {**PODS, "namespace": "other"}
    asked = review(
        "LocalSubjectAccessReview", {"user": "x", "resourceAttributes": attributes}, metadata
    )
    with pytest.raises(BadRequest) as caught:
        await reviews.local_subject_access_review(authorizer, "ws", asked, namespace)
    assert caught.value.message == message


async def test_self_reviews_ask_about_oneself(authorizer: Authorizer) -> None:
    spec = {"resourceAttributes": {"verb": "list", "resource": "pods"}}
    asked = review("SelfSubjectAccessReview", spec, {"namespace": "ignored"})
    answered = await reviews.self_subject_access_review(authorizer, "ws", asked, ALICE)
    assert answered["status"]["allowed"] is True
    with pytest.raises(StatusError, match=EITHER):
        await reviews.self_subject_access_review(
            authorizer, "ws", review("SelfSubjectAccessReview", {}), ALICE
        )


async def test_rules_reviews_list_what_one_holds(authorizer: Authorizer) -> None:
    asked = review("SelfSubjectRulesReview", {"namespace": "default"})
    assert await reviews.self_subject_rules_review(authorizer, "ws", asked, ALICE) == {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectRulesReview",
        "metadata": {},
        "spec": {},
        "status": {
            "resourceRules": [
                {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"],
                 "resourceNames": ["a"]},
                {"verbs": ["list"], "apiGroups": ["*"], "resources": ["*"]},
            ],
            "nonResourceRules": [{"verbs": ["access"], "nonResourceURLs": ["/"]}],
            "incomplete": False,
            "evaluationError": 'clusterrole.rbac.authorization.k8s.io "g" not found',
        },
    }  # fmt: skip
    with pytest.raises(BadRequest, match="no namespace on request"):
        await reviews.self_subject_rules_review(authorizer, "ws", review("x", {}), ALICE)


async def test_self_subject_review_says_who_one_is() -> None:
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    assert await reviews.self_subject_review(asked, ALICE, 1_800_000_000) == {
        **asked,
        "metadata": {"creationTimestamp": "2027-01-15T08:00:00Z"},
        "status": {"userInfo": {"username": "alice", "uid": "1", "groups": ["team"]}},
    }


@pytest.fixture
def authentication() -> Authentication:
    tokens = parse_token_file("good,bob,7,g", "f").authenticator(["api"])
    return Authentication(clock=lambda: 0.0, tokens=[tokens], api_audiences=["api"])


@pytest.mark.parametrize(
    ("spec", "status"),
    [
        ({"token": "good"}, {
            "authenticated": True, "audiences": ["api"],
            "user": {"username": "bob", "uid": "7", "groups": ["g", "system:authenticated"]}}),
        ({"token": "good", "audiences": ["api", "x"]}, {
            "authenticated": True, "audiences": ["api"],
            "user": {"username": "bob", "uid": "7", "groups": ["g", "system:authenticated"]}}),
        ({"token": "bad"}, {"user": {}, "error": "invalid bearer token"}),
        ({"token": "good", "audiences": ["x"]}, {"user": {}, "error": "invalid bearer token"}),
    ],
)  # fmt: skip
async def test_token_reviews(authentication: Authentication, spec: Any, status: Any) -> None:
    asked = review("TokenReview", spec)
    answered = await reviews.token_review(authentication, "ws", asked)
    assert answered == {**asked, "status": status}


@pytest.mark.parametrize(
    ("spec", "namespace", "message"),
    [
        ({}, "", "token is required for TokenReview in authentication"),
        ({"token": "x"}, "ns", "namespace is not allowed on this type: ns"),
    ],
)
async def test_token_reviews_refused(
    authentication: Authentication, spec: Any, namespace: str, message: str
) -> None:
    with pytest.raises(BadRequest) as caught:
        await reviews.token_review(authentication, "ws", review("TokenReview", spec), namespace)
    assert caught.value.message == message


async def test_an_authenticator_that_ignores_audiences_is_a_fault_of_the_server() -> None:
    tokens = parse_token_file("good,bob,7", "f").authenticator([])
    authentication = Authentication(clock=lambda: 0.0, tokens=[tokens])
    asked = review("TokenReview", {"token": "good", "audiences": ["x"]})
    with pytest.raises(InternalError):
        await reviews.token_review(authentication, "ws", asked)
