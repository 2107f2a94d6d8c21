"""Rules: what they match."""

from __future__ import annotations

import pytest

from pykcp.auth.authz.attributes import Attributes, path_attributes
from pykcp.auth.authz.rules import Match, Rule
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
PODS = Rule(["get", "list"], [""], ["pods"])


@pytest.mark.parametrize(
    ("rule", "attributes", "expected"),
    [
        (PODS, resource("get", "pods"), ALL),
        (PODS, resource("delete", "pods"), NO),
        (PODS, resource("get", "pods", "apps"), NO),
        (PODS, resource("get", "services"), NO),
        (PODS, resource("get", "pods/log"), NO),
        (PODS, path("get", "/pods"), NO),
        (Rule(["*"], [""], ["pods"]), resource("anything", "pods"), ALL),
        (Rule(["get"], ["*"], ["pods"]), resource("get", "pods", "x"), ALL),
        (Rule(["get"], [""], ["*"]), resource("get", "pods/log"), ALL),
        (Rule(["get"], [""], ["pods/log"]), resource("get", "pods/log"), ALL),
        (Rule(["get"], [""], ["pods/log"]), resource("get", "pods"), NO),
        (Rule(["get"], [""], ["*/log"]), resource("get", "pods/log"), ALL),
        (Rule(["get"], [""], ["*/log"]), resource("get", "pods/exec"), NO),
        (Rule(["get"], [""], ["*/log"]), resource("get", "pods"), NO),
        (Rule(["get"], [""], ["pods/*"]), resource("get", "pods/log"), NO),
        (Rule(["get"], [""], ["pods"], ["a"]), resource("get", "pods", name="a"), THIS),
        (Rule(["get"], [""], ["pods"], ["a"]), resource("get", "pods", name="b"), OTHERS),
        (Rule(["get"], [""], ["pods"], ["a"]), resource("get", "pods"), OTHERS),
        (Rule([], [""], ["pods"]), resource("get", "pods"), NO),
        (Rule(["get"], urls=["/healthz"]), path("get", "/healthz"), ALL),
        (Rule(["get"], urls=["/healthz"]), path("get", "/healthz/"), NO),
        (Rule(["get"], urls=["/healthz"]), path("post", "/healthz"), NO),
        (Rule(["get"], urls=["/api/*"]), path("get", "/api/v1"), ALL),
        (Rule(["get"], urls=["/api/*"]), path("get", "/api"), NO),
        (Rule(["get"], urls=["*"]), path("get", "/x"), ALL),
        (Rule(["*"], ["*"], ["*"]), path("get", "/x"), NO),
        (Rule(["*"], urls=["*"]), resource("get", "pods"), NO),
    ],
)  # fmt: skip
def test_match(rule: Rule, attributes: Attributes, expected: Match) -> None:
    combined = attributes.resource
    if attributes.subresource:
        combined += "/" + attributes.subresource
    assert rule.match(attributes, combined) is expected


def test_rules_survive_json() -> None:
    rule = Rule(["get"], ["g"], ["r"], ["n"], ["/u"])
    assert Rule.from_json(rule.to_json()) == rule
    assert Rule.from_json({"verbs": None}) == Rule()
    assert hash(Rule.from_json(rule.to_json())) == hash(rule)
