"""The pure parts of views: paths, lifecycle lists, policy rules, warrants."""

from __future__ import annotations

import orjson
import pytest

from pykcp.auth.authz.attributes import Attributes
from pykcp.auth.user import User
from pykcp.machinery.kcp.claims import claimed_identity, sides
from pykcp.steps import at_once
from pykcp.virtual.apiexport.access import with_warrant
from pykcp.virtual.framework import split_clusters, split_head
from pykcp.virtual.lifecycle import is_own_removal
from pykcp.virtual.lifecycle.permissions import compiled


@pytest.mark.parametrize(
    ("path", "count", "expected"),
    [
        ("/a/b/clusters/x", 2, ("a", "b", "/clusters/x")),
        ("/a/b/", 2, ("a", "b", "/")),
        ("/a/b", 2, None),
        ("//b/c", 2, None),
        ("/a//c", 2, None),
        ("", 1, None),
        ("/a/", 1, ("a", "/")),
    ],
)
def test_split_head(path: str, count: int, expected: tuple[str, ...] | None) -> None:
    assert split_head(path, count) == expected


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/clusters/*/api/v1", ("*", "/api/v1")),
        ("/clusters/abc", ("abc", "/")),
        ("/clusters/abc/", ("abc", "/")),
        ("/clusters/system:admin/api", ("system:admin", "/api")),
        ("/clusters/root:org/api", None),
        ("/clusters/", None),
        ("/clusters", None),
        ("/api", None),
    ],
)
def test_split_clusters(path: str, expected: tuple[str, str] | None) -> None:
    assert split_clusters(path) == expected


@pytest.mark.parametrize(
    ("before", "after", "is_fine"),
    [
        (["a", "b"], ["a", "b"], True),
        (["a", "b"], ["b"], True),
        (["a"], [], True),
        (["a", "b"], ["a"], False),
        (["a", "b"], [], False),
        (["a", "b"], ["b", "c"], False),
        (["a", "b"], ["c"], False),
        (["b"], [], False),
        ([], ["a"], False),
    ],
)
def test_only_the_own_entry_goes(before: list[str], after: list[str], is_fine: bool) -> None:
    assert is_own_removal(before, after, "a") is is_fine


RULES = [
    {"verbs": ["get", "list"], "apiGroups": [""], "resources": ["configmaps"]},
    {"verbs": ["*"], "apiGroups": ["apps"], "resources": ["*"], "resourceNames": ["one"]},
    {"verbs": ["update"], "apiGroups": [""], "resources": ["pods/status"]},
    {"verbs": ["get"], "nonResourceURLs": ["/version", "/api*"]},
]
_USER = User("u")


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        (Attributes(_USER, "get", "ns", "", "configmaps", name="x"), None),
        (Attributes(_USER, "delete", "ns", "", "configmaps", name="x"),
         "no rule allows delete on core/configmaps (x) in namespace ns"),
        (Attributes(_USER, "list", "", "", "secrets"), "no rule allows list on core/secrets"),
        (Attributes(_USER, "patch", "", "apps", "things", name="one"), None),
        (Attributes(_USER, "patch", "", "apps", "things", name="two"),
         "no rule allows patch on apps/things (two)"),
        (Attributes(_USER, "update", "", "", "pods", "status", name="p"), None),
        (Attributes(_USER, "update", "", "", "pods", name="p"), "no rule allows update on core/pods (p)"),
        (Attributes(_USER, "get", path="/version", is_resource=False), None),
        (Attributes(_USER, "get", path="/apis", is_resource=False), None),
        (Attributes(_USER, "get", path="/metrics", is_resource=False), "no rule allows get on /metrics"),
    ],
)  # fmt: skip
def test_policy_rules(attributes: Attributes, expected: str | None) -> None:
    others = [{"verbs": ["get"], "apiGroups": ["x"], "resources": [f"r{n}"]} for n in range(100)]
    for rules in (RULES, [*others, *RULES]):
        assert at_once(compiled(rules)).denial(attributes) == expected


def test_warrants_are_for_one_cluster() -> None:
    user = User("u", "1", ("g",), {"authorization.kcp.io/warrant": ("old",), "x": ("y",)})
    warranted = with_warrant(user, "c1")
    old, new = warranted.extra["authorization.kcp.io/warrant"]
    assert (warranted.name, warranted.groups, old) == ("u", ("g",), "old")
    assert orjson.loads(new) == {
        "user": "system:serviceaccount:default:rest",
        "groups": ["system:kcp:admin"],
        "extra": {"authentication.kcp.io/cluster-name": ["c1"]},
    }


def test_claimed_identities() -> None:
    given = [
        {"group": "", "resource": "events", "verbs": ["*"]},
        {"group": "x.io", "resource": "things", "verbs": ["*"], "identityHash": "abc"},
    ]
    asked = at_once(sides(given))
    assert claimed_identity(asked, "x.io", "things") == "abc"
    assert claimed_identity(asked, "events.k8s.io", "events") == ""
    assert claimed_identity(asked, "y.io", "things") == ""
