"""Admission of what is answered instead of stored: tokens of service accounts, and reviews."""

from __future__ import annotations

from typing import Any

import pytest

from pykcp.testing.client import TestClient, eventually

from .conftest import ROOT, Hooks, patch_of

ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"
TOKENS = f"{ACCOUNTS}/bot/token"
AUTHORIZATION = "/apis/authorization.k8s.io/v1"
QUESTION = {"resourceAttributes": {"verb": "get", "resource": "secrets"}}
REVIEWS = {
    "subjectaccessreviews": ("authorization.k8s.io", {"user": "x", **QUESTION}),
    "selfsubjectaccessreviews": ("authorization.k8s.io", QUESTION),
    "selfsubjectrulesreviews": ("authorization.k8s.io", {"namespace": "default"}),
    "tokenreviews": ("authentication.k8s.io", {"token": "x"}),
    "selfsubjectreviews": ("authentication.k8s.io", {}),
}
EVERYTHING = {
    "apiGroups": ["*"], "apiVersions": ["*"], "operations": ["CREATE"], "resources": ["*/*"],
}  # fmt: skip


@pytest.fixture
def bot(cluster: TestClient) -> TestClient:
    assert cluster.post(ACCOUNTS, {"metadata": {"name": "bot"}}).status == 201
    return cluster


def _refuse(_review: Any) -> dict[str, Any]:
    return {"allowed": False, "status": {"message": "no", "code": 418}}


def _bind(cluster: TestClient, policy: Any) -> None:
    """A policy that denies what does not hold."""
    bound = {"policyName": "p", "validationActions": ["Deny"]}
    for kind, name, spec in (("policies", "p", policy), ("policybindings", "b", bound)):
        path = f"{ROOT}/validatingadmission{kind}"
        made = cluster.post(path, {"metadata": {"name": name}, "spec": spec})
        assert made.status == 201, made


def _path(plural: str) -> str:
    return f"/apis/{REVIEWS[plural][0]}/v1/{plural}"


def _ask(cluster: TestClient, plural: str, **metadata: Any) -> Any:
    return cluster.post(_path(plural), {"metadata": metadata, "spec": REVIEWS[plural][1]})


def test_a_policy_sees_the_token_that_is_asked_for(bot: TestClient) -> None:
    rule = {**EVERYTHING, "apiGroups": [""], "resources": ["serviceaccounts/token"]}
    spec = {
        "matchConstraints": {"resourceRules": [rule]},
        "validations": [
            {
                "expression": "object.spec.expirationSeconds <= 3600",
                "messageExpression": "object.kind + ' of ' + object.metadata.uid",
            }
        ],
    }
    _bind(bot, spec)
    uid = bot.get(f"{ACCOUNTS}/bot").json["metadata"]["uid"]
    body = {"spec": {"expirationSeconds": 7200}}
    refused = eventually(lambda: (r := bot.post(TOKENS, body)).status == 422 and r)
    assert refused.json["message"] == (
        "serviceaccounts \"bot\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' "
        f"denied request: TokenRequest of {uid}"
    )
    assert bot.post(TOKENS, {}).status == 201


def test_webhooks_see_and_change_the_token_that_is_asked_for(hooks: Hooks, bot: TestClient) -> None:
    longer = {"op": "replace", "path": "/spec/expirationSeconds", "value": 1200}
    rule = hooks.rule(operations=["CREATE"], resources=["serviceaccounts/token"])
    hooks.add("Mutating", "longer", lambda _: patch_of(longer), rules=[rule])
    hooks.add("Validating", "seen", lambda _: {"allowed": True}, rules=[rule])
    made = eventually(
        lambda: (r := bot.post(TOKENS, {})).status == 201 and hooks.seen("seen") and r
    )
    assert made.json["spec"]["expirationSeconds"] == 1200
    seen = hooks.seen("seen")[-1]
    assert seen["kind"] == {
        "group": "authentication.k8s.io",
        "version": "v1",
        "kind": "TokenRequest",
    }
    assert (seen["resource"]["resource"], seen["subResource"]) == ("serviceaccounts", "token")
    assert (seen["name"], seen["object"]["metadata"]["name"]) == ("bot", "bot")
    assert seen["object"]["status"] == {"token": "", "expirationTimestamp": None}
    (first,) = hooks.seen("longer")[-1:]
    assert "uid" not in first["object"]["metadata"]


def test_a_refused_token_is_not_issued_for_what_it_is_bound_to(
    hooks: Hooks, bot: TestClient
) -> None:
    """Validation comes before the bound object is looked for, and after what is wrong in itself."""
    rule = hooks.rule(operations=["CREATE"], resources=["serviceaccounts/token"])
    hooks.add("Validating", "no", _refuse, rules=[rule])
    ref = {"apiVersion": "v1", "kind": "Secret", "name": "missing"}
    body = {"spec": {"boundObjectRef": ref}}
    refused = eventually(lambda: (r := bot.post(TOKENS, body)).status == 418 and r)
    assert 'admission webhook "no.example.com" denied the request: no' in refused.json["message"]
    assert bot.post(TOKENS, {"spec": {"expirationSeconds": 1}}).status == 422


@pytest.mark.parametrize("plural", REVIEWS)
def test_webhooks_may_refuse_reviews_and_policies_are_not_asked(
    hooks: Hooks, cluster: TestClient, plural: str
) -> None:
    spec = {
        "matchConstraints": {"resourceRules": [EVERYTHING]},
        "validations": [{"expression": "false"}],
    }
    _bind(cluster, spec)
    eventually(lambda: hooks.create("x", dryRun="All").status == 422)
    assert _ask(cluster, plural).status == 201
    rule = hooks.rule(apiGroups=[REVIEWS[plural][0]], operations=["CREATE"], resources=[plural])
    hooks.add("Validating", "no", _refuse, rules=[rule])
    eventually(lambda: _ask(cluster, plural).status == 418)
    assert hooks.seen("no")[-1]["object"].get("spec", {}) == REVIEWS[plural][1]


def test_a_webhook_changes_the_question(hooks: Hooks, cluster: TestClient) -> None:
    other = {"op": "replace", "path": "/spec/user", "value": "somebody"}
    rule = hooks.rule(
        apiGroups=["authorization.k8s.io"],
        operations=["CREATE"],
        resources=["subjectaccessreviews"],
    )
    hooks.add("Mutating", "other", lambda _: patch_of(other), rules=[rule])
    answer = eventually(
        lambda: (r := _ask(cluster, "subjectaccessreviews")).json["spec"]["user"] != "x" and r
    )
    assert answer.json["spec"]["user"] == "somebody"


@pytest.mark.parametrize("plural", REVIEWS)
def test_reviews_forget_what_only_the_server_may_say(cluster: TestClient, plural: str) -> None:
    answer = _ask(cluster, plural, uid="u", creationTimestamp="2020-01-01T00:00:00Z")
    assert answer.status == 201
    metadata = answer.json["metadata"]
    assert "uid" not in metadata
    assert metadata.get("creationTimestamp") != "2020-01-01T00:00:00Z"


@pytest.mark.parametrize("path", [_path("tokenreviews"), TOKENS])
def test_repeated_owners_are_kept_once(bot: TestClient, path: str) -> None:
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "1-2"}
    body: dict[str, Any] = {"metadata": {"ownerReferences": [owner, owner]}, "spec": {"token": "x"}}
    if path == TOKENS:
        del body["spec"]
    answer = bot.post(path, body)
    assert answer.json["metadata"]["ownerReferences"] == [owner]
    assert "observed: 1-2" in (answer.header("warning") or "")


def test_tokens_in_namespaces_that_go_or_are_not_there(cluster: TestClient) -> None:
    missing = cluster.post("/api/v1/namespaces/nowhere/serviceaccounts/bot/token", {})
    assert (missing.status, missing.json["message"]) == (404, 'namespaces "nowhere" not found')
    assert cluster.post("/api/v1/namespaces", {"metadata": {"name": "going"}}).status == 201
    path = "/api/v1/namespaces/going"
    account = {"metadata": {"name": "bot", "finalizers": ["example.com/stay"]}}
    assert cluster.post(f"{path}/serviceaccounts", account).status == 201
    assert cluster.delete(path).status == 200
    refused = eventually(
        lambda: (r := cluster.post(f"{path}/serviceaccounts/bot/token", {})).status == 403 and r
    )
    assert refused.json["details"]["causes"][0]["reason"] == "NamespaceTerminating"
    spec = {"user": "x", "resourceAttributes": {"namespace": "going", "verb": "get"}}
    local = "namespaces/going/localsubjectaccessreviews"
    assert cluster.post(f"{AUTHORIZATION}/{local}", {"spec": spec}).status == 201


def test_long_reviews(bot: TestClient) -> None:
    """They are read by a worker, and answered like short ones; much longer ones are refused."""
    groups = [f"g{n}" for n in range(20_000)]
    spec = {"user": "x", "groups": groups, **QUESTION}
    body = {"spec": spec, "unknown": 1}
    path = _path("subjectaccessreviews")
    reply = bot.post(path, body)
    assert reply.status == 201
    assert reply.json["spec"]["groups"] == groups
    assert reply.json["status"]["allowed"] is False
    assert reply.header("warning") == '299 - "unknown field \\"unknown\\""'
    yaml = bot.post(path, body, accept="application/yaml")
    assert yaml.status == 201
    assert b"- g19999" in yaml.body
    strict = bot.post(f"{path}?fieldValidation=Strict", body)
    assert (strict.status, "unknown field" in strict.json["message"]) == (400, True)
    spec["groups"] = [f"g{n}" for n in range(250_000)]
    assert bot.post(path, body).status == 413
