"""Rules: what they match."""

from __future__ import annotations

import pytest

from pykcp.auth.authz.attributes import Attributes, path_attributes
from pykcp.auth.authz.rules import Match, PolicyRule
from pykcp.auth.user import User

USER = User("u")


def resource(verb: str, what: str, group: str = "", name: str = "") -> Attributes:
    """`pods/log` style."""
    base, _, sub = what.partition("/")
    return Attributes(USER, verb, group=group, resource=base, subresource=sub, name=name)


def path(verb: str, url: str) -> Attributes:
    return path_attributes(USER, verb, url)


NO, OTHERS = Match.NONE, Match.FOR_OTHER_NAMES
THIS, ALL = Match.FOR_THIS_NAME, Match.FOR_ALL_NAMES
PODS = PolicyRule(["get", "list"], [""], ["pods"])


@pytest.mark.parametrize(
    ("rule", "attributes", "expected"),
    [
        (PODS, resource("get", "pods"), ALL),
        (PODS, resource("delete", "pods"), NO),
        (PODS, resource("get", "pods", "apps"), NO),
        (PODS, resource("get", "services"), NO),
        (PODS, resource("get", "pods/log"), NO),
        (PODS, path("get", "/pods"), NO),
        (PolicyRule(["*"], [""], ["pods"]), resource("anything", "pods"), ALL),
        (PolicyRule(["get"], ["*"], ["pods"]), resource("get", "pods", "x"), ALL),
        (PolicyRule(["get"], [""], ["*"]), resource("get", "pods/log"), ALL),
        (PolicyRule(["get"], [""], ["pods/log"]), resource("get", "pods/log"), ALL),
        (PolicyRule(["get"], [""], ["pods/log"]), resource("get", "pods"), NO),
        (PolicyRule(["get"], [""], ["*/log"]), resource("get", "pods/log"), ALL),
        (PolicyRule(["get"], [""], ["*/log"]), resource("get", "pods/exec"), NO),
        (PolicyRule(["get"], [""], ["*/log"]), resource("get", "pods"), NO),
        (PolicyRule(["get"], [""], ["pods/*"]), resource("get", "pods/log"), NO),
        (PolicyRule(["get"], [""], ["pods"], ["a"]), resource("get", "pods", name="a"), THIS),
        (PolicyRule(["get"], [""], ["pods"], ["a"]), resource("get", "pods", name="b"), OTHERS),
        (PolicyRule(["get"], [""], ["pods"], ["a"]), resource("get", "pods"), OTHERS),
        (PolicyRule([], [""], ["pods"]), resource("get", "pods"), NO),
        (PolicyRule(["get"], urls=["/healthz"]), path("get", "/healthz"), ALL),
        (PolicyRule(["get"], urls=["/healthz"]), path("get", "/healthz/"), NO),
        (PolicyRule(["get"], urls=["/healthz"]), path("post", "/healthz"), NO),
        (PolicyRule(["get"], urls=["/api/*"]), path("get", "/api/v1"), ALL),
        (PolicyRule(["get"], urls=["/api/*"]), path("get", "/api"), NO),
        (PolicyRule(["get"], urls=["*"]), path("get", "/x"), ALL),
        (PolicyRule(["*"], ["*"], ["*"]), path("get", "/x"), NO),
        (PolicyRule(["*"], urls=["*"]), resource("get", "pods"), NO),
    ],
)  # fmt: skip
def test_match(rule: PolicyRule, attributes: Attributes, expected: Match) -> None:
    combined = attributes.resource
    if attributes.subresource:
        combined += "/" + attributes.subresource
    assert rule.match(attributes, combined) is expected


def test_rules_survive_json() -> None:
    rule = PolicyRule(["get"], ["g"], ["r"], ["n"], ["/u"])
    assert PolicyRule.from_json(rule.to_json()) == rule
    assert PolicyRule.from_json({"verbs": None}) == PolicyRule()
    assert hash(PolicyRule.from_json(rule.to_json())) == hash(rule)
