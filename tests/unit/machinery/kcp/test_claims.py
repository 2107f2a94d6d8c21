"""Claims: who asks, who grants, which labels follow."""

from __future__ import annotations

import pytest

from pykcp.machinery.kcp import claims
from pykcp.machinery.kcp.claims import BoundExport, ClaimKey, Sides
from pykcp.machinery.kcp.hashes import claim_label_key, claim_label_value
from pykcp.steps import at_once
from pykcp.types import Object

ALL: Object = {"matchAll": True}
CONFIG_MAPS = ClaimKey("configmaps", "", "")


def claim(resource: str, group: str = "", identity: str = "", **more: object) -> Object:
    out: Object = {"group": group, "resource": resource, "identityHash": identity}
    return {**out, "verbs": ["*"], **more}


def export(*claimed: Object) -> Object:
    return {"spec": {"permissionClaims": list(claimed)}}


def binding(*given: Object, applied: tuple[Object, ...] = ()) -> Object:
    spec = [{"state": "Accepted", "selector": ALL, **one} for one in given]
    return {
        "spec": {"permissionClaims": spec},
        "status": {"appliedPermissionClaims": list(applied)},
    }


def sides(*given: Object) -> Sides:
    return at_once(claims.sides(given))


@pytest.mark.parametrize(
    ("group", "resource", "needed"),
    [
        ("", "configmaps", False),
        ("events.k8s.io", "events", False),
        ("authentication.k8s.io", "tokenreviews", False),
        ("authentication.k8s.io", "selfsubjectreviews", True),
        ("apis.kcp.io", "whatever", False),
        ("core.kcp.io", "logicalclusters", False),
        ("tenancy.kcp.io", "workspaces", True),
        ("apps", "deployments", True),
    ],
)
def test_which_claims_need_an_identity(group: str, resource: str, needed: bool) -> None:
    assert claims.needs_identity(group, resource) is needed


@pytest.mark.parametrize(
    ("ours", "theirs", "verb", "allowed"),
    [
        (["get", "list"], ["get"], "get", True),
        (["get", "list"], ["get"], "list", False),
        (["*"], ["get"], "get", False),
        (["*"], ["*"], "delete", True),
        (["*", "get"], ["get"], "get", True),
    ],
)
def test_verbs_are_those_both_sides_name(
    ours: list[str], theirs: list[str], verb: str, allowed: bool
) -> None:
    given = sides(claim("configmaps", verbs=ours))
    verbs = claims.allowed_verbs(given, sides(claim("configmaps", verbs=theirs)), "", "configmaps")
    assert claims.is_allowed(verbs, verb) is allowed


def test_a_rejected_claim_allows_nothing() -> None:
    assert at_once(claims.accepted(binding(claim("secrets", state="Rejected")))) == {}
    assert not claims.allowed_verbs(sides(), sides(claim("secrets")), "", "secrets")


def test_events_of_both_groups_are_one() -> None:
    both = sides(claim("events"))
    assert claims.allowed_verbs(both, both, "events.k8s.io", "events") == {"*"}
    due = labels_due([_bound(claim("events"))], "events.k8s.io", "events", {})
    assert list(due.values()) == [claim_label_value("", "events")]


def _bound(*given: Object) -> BoundExport:
    accepted = [{"selector": ALL, **one} for one in given]
    return BoundExport("abcd1234", "my-export", at_once(claims.covering(accepted)))


def labels_due(
    exports: list[BoundExport], group: str, resource: str, labels: dict[str, str] | None
) -> dict[str, str]:
    return at_once(claims.labels_due(exports, group, resource, labels))


@pytest.mark.parametrize(
    ("selector", "labels", "covered"),
    [
        (ALL, None, True),
        ({"matchLabels": {"a": "b"}}, {"a": "b", "c": "d"}, True),
        ({"matchLabels": {"a": "b"}}, {"a": "x"}, False),
        ({"matchLabels": {"a": "b"}}, None, False),
        ({"matchExpressions": [{"key": "a", "operator": "DoesNotExist"}]}, None, True),
        ({"matchExpressions": [{"key": "a", "operator": "Exists"}]}, {"b": "c"}, False),
        ({"matchExpressions": [{"key": "a", "operator": "Nonsense"}]}, {"a": "b"}, False),
        ({}, {}, True),
    ],
)
def test_labels_follow_the_selector(
    selector: Object, labels: dict[str, str] | None, covered: bool
) -> None:
    due = labels_due([_bound(claim("configmaps", selector=selector))], "", "configmaps", labels)
    key, value = claim_label_key("abcd1234", "my-export"), claim_label_value("", "configmaps")
    assert due == ({key: value} if covered else {})


def test_what_is_not_kept_is_not_labelled() -> None:
    exports = [_bound(claim("tokenreviews", "authentication.k8s.io"))]
    assert labels_due(exports, "authentication.k8s.io", "tokenreviews", {}) == {}


def test_compare_names_what_changes() -> None:
    asked = export(claim("configmaps"), claim("secrets"), claim("leases", "coordination.k8s.io"))
    by_label: Object = {"matchLabels": {"a": "b"}}
    given = binding(
        claim("configmaps", selector=by_label),
        claim("secrets"),
        claim("apps", "x", "hash"),
        applied=(
            claim("configmaps", selector=ALL),
            claim("secrets", selector=ALL),
            claim("namespaces", selector=ALL),
        ),
    )
    state = at_once(claims.compare(asked, given))
    assert state.expected == [CONFIG_MAPS, ClaimKey("secrets", "", "")]
    assert state.unexpected == [ClaimKey("apps", "x", "hash")]
    assert state.changes == [CONFIG_MAPS, ClaimKey("namespaces", "", "")]
    assert state.mismatches == []


def test_mismatches_say_what_differs() -> None:
    asked = export(
        claim("configmaps", verbs=["get"], defaultSelector=ALL), claim("secrets", verbs=["list"])
    )
    given = binding(
        claim("configmaps", verbs=["get", "list"], selector={"matchLabels": {"a": "b"}}),
        claim("secrets"),
    )
    assert [str(m) for m in at_once(claims.compare(asked, given)).mismatches] == [
        "configmaps. (verbs: accepted [get list], exported [get]; selector differs from defaultSelector)"
    ]


def test_a_large_selector_is_parsed_once() -> None:
    """Not for every object that it may select."""
    values = [f"v{number}" for number in range(100_000)]
    selector = {"matchExpressions": [{"key": "a", "operator": "In", "values": values}]}
    exports = [_bound(claim("configmaps", selector=selector))]
    for value in values[:2_000]:
        assert labels_due(exports, "", "configmaps", {"a": value})
        assert not labels_due(exports, "", "configmaps", {"a": "other"})


def test_claims_of_other_resources_are_not_looked_at() -> None:
    exports = [_bound(*(claim(f"r{number}") for number in range(10_000)))] * 10
    for _ in range(2_000):
        assert not labels_due(exports, "", "configmaps", {})
    assert labels_due(exports, "", "r9999", {})


def test_the_last_claim_gives_the_label() -> None:
    """Of those that cover an object; those that never do are not kept."""
    by_label: Object = {"matchLabels": {"a": "b"}}
    bound = _bound(
        *(claim("configmaps", identity=f"i{number}") for number in range(10)),
        claim("configmaps", identity="some", selector=by_label),
        claim("configmaps", identity="others", selector=by_label),
    )
    assert [c.label for c in bound.accepted["", "configmaps"]] == [
        claim_label_value("", "configmaps", identity) for identity in ("others", "i9")
    ]
    for labels, identity in (({"a": "b"}, "others"), ({}, "i9")):
        due = labels_due([bound], "", "configmaps", labels)
        assert list(due.values()) == [claim_label_value("", "configmaps", identity)]
