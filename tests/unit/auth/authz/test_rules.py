"""Rules: what they match, what they cover, and how a refusal to grant them reads."""

from __future__ import annotations

from typing import Any

import pytest

from pykcp.auth.authz.attributes import Attributes, path_attributes
from pykcp.auth.authz.rules import Match, Rule, escalation_message, uncovered
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


@pytest.mark.parametrize(
    ("owned", "wanted", "missing"),
    [
        ([PODS], [PODS], []),
        ([], [], []),
        ([], [Rule(["get"], [""], ["pods"])], [Rule(["get"], [""], ["pods"])]),
        ([PODS], [Rule(["get", "delete"], [""], ["pods"])], [Rule(["delete"], [""], ["pods"])]),
        ([Rule(["*"], ["*"], ["*"])], [Rule(["*"], ["*"], ["*"], ["n"])], []),
        ([PODS], [Rule(["*"], [""], ["pods"])], [Rule(["*"], [""], ["pods"])]),
        ([Rule(["get"], [""], ["pods"]), Rule(["list"], [""], ["pods"])], [PODS], []),
        # names: a rule for all objects covers one for some, not the reverse
        ([PODS], [Rule(["get"], [""], ["pods"], ["a"])], []),
        ([Rule(["get"], [""], ["pods"], ["a"])], [Rule(["get"], [""], ["pods"])],
         [Rule(["get"], [""], ["pods"])]),
        ([Rule(["get"], [""], ["pods"], ["a"])], [Rule(["get"], [""], ["pods"], ["a", "b"])],
         [Rule(["get"], [""], ["pods"], ["b"])]),
        # subresources
        ([Rule(["get"], [""], ["*/log"])], [Rule(["get"], [""], ["pods/log"])], []),
        ([Rule(["get"], [""], ["*/log"])], [Rule(["get"], [""], ["*/log"])], []),
        ([Rule(["get"], [""], ["pods"])], [Rule(["get"], [""], ["pods/log"])],
         [Rule(["get"], [""], ["pods/log"])]),
        # URLs
        ([Rule(["get"], urls=["*"])], [Rule(["get"], urls=["/a", "/b/*"])], []),
        ([Rule(["get"], urls=["/b/*"])], [Rule(["get"], urls=["/b/c/*", "/b"])],
         [Rule(["get"], urls=["/b"])]),
        ([Rule(["get"], urls=["/a"])], [Rule(["get"], urls=["/a*"])],
         [Rule(["get"], urls=["/a*"])]),
    ],
)  # fmt: skip
def test_uncovered(owned: list[Rule], wanted: list[Rule], missing: list[Rule]) -> None:
    assert uncovered(owned, wanted) == missing


@pytest.mark.parametrize(
    ("user", "wanted", "message"),
    [
        (
            User("alice", groups=("a", "b")),
            [Rule(["get"], [""], ["configmaps"])],
            (
                'user "alice" (groups=["a" "b"]) is attempting to grant RBAC permissions not '
                'currently held:\n{APIGroups:[""], Resources:["configmaps"], Verbs:["get"]}'
            ),
        ),
        (
            User("bob"),
            [
                Rule(["get", "list"], ["apps", ""], ["x"]),
                Rule(["get"], ["apps"], ["x"], ["n"]),
                Rule(["get", "put"], urls=["/u"]),
            ],
            (
                'user "bob" (groups=[]) is attempting to grant RBAC permissions not currently '
                'held:\n{APIGroups:[""], Resources:["x"], Verbs:["get" "list"]}\n'
                '{APIGroups:["apps"], Resources:["x"], ResourceNames:["n"], Verbs:["get"]}\n'
                '{APIGroups:["apps"], Resources:["x"], Verbs:["get" "list"]}\n'
                '{NonResourceURLs:["/u"], Verbs:["get"]}\n'
                '{NonResourceURLs:["/u"], Verbs:["put"]}'
            ),
        ),
    ],
)
def test_the_refusal_names_what_is_missing(user: User, wanted: Any, message: str) -> None:
    assert escalation_message(user, [], wanted) == message


def test_resolution_errors_are_told() -> None:
    message = escalation_message(USER, [], [PODS], ["role a not found", "role b not found"])
    assert message is not None
    assert message.endswith("; resolution errors: [[role a not found, role b not found]]")


def test_what_one_holds_one_may_grant() -> None:
    assert escalation_message(USER, [Rule(["*"], ["*"], ["*"])], [PODS]) is None


def test_rules_survive_json() -> None:
    rule = Rule(["get"], ["g"], ["r"], ["n"], ["/u"])
    assert Rule.from_json(rule.to_json()) == rule
    assert Rule.from_json({"verbs": None}) == Rule()
    assert hash(Rule.from_json(rule.to_json())) == hash(rule)
