"""The audit policy: which rule a request falls under, and what is refused in which words."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from pykcp.observe.audit.policy import (
    COMPLETE,
    RECEIVED,
    STARTED,
    AuditedRequest,
    AuditLevel,
    PolicyError,
    parse_policy,
)


def policy_text(*rules: dict[str, Any], **more: Any) -> str:
    head = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy"}
    return yaml.safe_dump({**head, "rules": list(rules), **more})


def get(resource: str, **more: Any) -> AuditedRequest:
    name, _, subresource = resource.partition("/")
    fields = {"user": "tim", "groups": ("humans", "devs"), "verb": "get", "namespace": "default"}
    return AuditedRequest(
        is_resource=True, resource=name, subresource=subresource, **{**fields, **more}
    )


def path(text: str, verb: str = "get") -> AuditedRequest:
    return AuditedRequest("tim", ("humans",), verb, is_resource=False, path=text)


CORE = {"group": ""}


@pytest.mark.parametrize(
    ("rule", "question", "matches"),
    [
        ({}, get("pods"), True),
        ({}, path("/x"), True),
        ({"users": ["tim"]}, get("pods"), True),
        ({"users": ["tom"]}, get("pods"), False),
        ({"users": ["tim"]}, get("pods", user="", groups=()), False),
        ({"userGroups": ["devs"]}, get("pods"), True),
        ({"userGroups": ["ops"]}, get("pods"), False),
        ({"verbs": ["get", "list"]}, get("pods"), True),
        ({"verbs": ["list"]}, get("pods"), False),
        ({"namespaces": ["default"]}, get("pods"), True),
        ({"namespaces": ["other"]}, get("pods"), False),
        ({"namespaces": [""]}, get("nodes", namespace=""), True),
        ({"namespaces": ["default"]}, path("/x"), False),
        ({"resources": [CORE]}, get("pods"), True),
        ({"resources": [CORE]}, get("deployments", group="apps"), False),
        ({"resources": [{"group": "*"}]}, get("deployments", group="apps"), True),
        ({"resources": [{**CORE, "resources": ["pods"]}]}, get("pods"), True),
        ({"resources": [{**CORE, "resources": ["pods"]}]}, get("pods/log"), False),
        ({"resources": [{**CORE, "resources": ["pods/log"]}]}, get("pods/log"), True),
        ({"resources": [{**CORE, "resources": ["pods/log"]}]}, get("pods"), False),
        ({"resources": [{**CORE, "resources": ["*"]}]}, get("pods/log"), True),
        ({"resources": [{**CORE, "resources": ["*/log"]}]}, get("pods/log"), True),
        ({"resources": [{**CORE, "resources": ["*/log"]}]}, get("pods"), False),
        ({"resources": [{**CORE, "resources": ["pods/*"]}]}, get("pods/log"), True),
        ({"resources": [{**CORE, "resources": ["pods/*"]}]}, get("pods"), True),
        ({"resources": [{**CORE, "resources": ["pods/*"]}]}, get("services/log"), False),
        (
            {"resources": [{**CORE, "resources": ["pods"], "resourceNames": ["a"]}]},
            get("pods", name="a"),
            True,
        ),
        (
            {"resources": [{**CORE, "resources": ["pods"], "resourceNames": ["a"]}]},
            get("pods", name="b"),
            False,
        ),
        ({"resources": [CORE]}, path("/x"), False),
        ({"nonResourceURLs": ["/healthz*"]}, path("/healthz/ping"), True),
        ({"nonResourceURLs": ["/healthz"]}, path("/healthz/ping"), False),
        ({"nonResourceURLs": ["*"]}, path("/version"), True),
        ({"nonResourceURLs": ["*"]}, get("pods"), False),
    ],
)
def test_a_rule_matches(rule: dict[str, Any], question: AuditedRequest, matches: bool) -> None:
    policy = parse_policy(policy_text({"level": "Request", **rule}))
    expected = AuditLevel.REQUEST if matches else AuditLevel.NONE
    assert policy.evaluate(question).level is expected


def test_the_first_rule_decides() -> None:
    policy = parse_policy(
        policy_text(
            {"level": "None", "users": ["system:apiserver"]},
            {"level": "RequestResponse", "resources": [{**CORE, "resources": ["pods"]}]},
            {"level": "Metadata"},
        )
    )
    assert policy.evaluate(get("pods")).level is AuditLevel.REQUEST_RESPONSE
    assert policy.evaluate(get("secrets")).level is AuditLevel.METADATA
    assert policy.evaluate(get("pods", user="system:apiserver")).level is AuditLevel.NONE


def test_stages_add_up_and_managed_fields_override() -> None:
    policy = parse_policy(
        policy_text(
            {"level": "Metadata", "verbs": ["get"], "omitStages": ["ResponseStarted"]},
            {"level": "Metadata", "omitManagedFields": False},
            omitStages=["RequestReceived"],
            omitManagedFields=True,
        )
    )
    first, second = policy.evaluate(get("pods")), policy.evaluate(get("pods", verb="list"))
    assert first.omit_stages == {RECEIVED, STARTED}
    assert first.omit_managed_fields
    assert second.omit_stages == {RECEIVED}
    assert COMPLETE not in second.omit_stages
    assert not second.omit_managed_fields


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "failed decoding: not an object"),
        ("a: [", "failed decoding: "),
        ("apiVersion: v1\nkind: Policy\n", "no kind 'Policy' is registered for version 'v1'"),
        (policy_text(), "loaded illegal policy with 0 rules"),
        (policy_text({}), "rules[0].level: Required value"),
        (
            policy_text({"level": "All"}),
            (
                'rules[0].level: Unsupported value: "All": supported values: "None", "Metadata", '
                '"Request", "RequestResponse"'
            ),
        ),
        (
            policy_text({"level": "None", "nonResourceURLs": ["x"]}),
            "non-resource URL rules must begin with a '/' character",
        ),
        (
            policy_text({"level": "None", "nonResourceURLs": ["/a*b"]}),
            "non-resource URL wildcards '*' must be the final character of the rule",
        ),
        (
            policy_text({"level": "None", "nonResourceURLs": ["/a"], "namespaces": ["x"]}),
            "rules cannot apply to both regular resources and non-resource URLs",
        ),
        (
            policy_text({"level": "None", "resources": [{"group": "apps/v1"}]}),
            'rules[0].resources.group: Invalid value: "apps/v1"',
        ),
        (
            policy_text({"level": "None", "resources": [{**CORE, "resourceNames": ["x"]}]}),
            "using resourceNames requires at least one resource",
        ),
        (
            policy_text({"level": "None"}, omitStages=["Never"]),
            (
                'omitStages[0]: Invalid value: "Never": allowed stages are RequestReceived,'
                "ResponseStarted,ResponseComplete,Panic"
            ),
        ),
    ],
)
def test_refuses(text: str, message: str) -> None:
    with pytest.raises(PolicyError) as caught:
        parse_policy(text)
    assert message in str(caught.value)
