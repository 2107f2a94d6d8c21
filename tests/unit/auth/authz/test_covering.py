"""What of some rules others cover, and how a refusal to grant the rest reads."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykcp.auth.authz.covering import (
    MAX_MISSING,
    escalation_message,
    find_missing,
    uncovered,
)
from pykcp.auth.authz.rules import PolicyRule
from pykcp.auth.user import User
from pykcp.steps import at_once

USER = User("u")
PODS = PolicyRule(["get", "list"], [""], ["pods"])


@pytest.mark.parametrize(
    ("owned", "wanted", "missing"),
    [
        ([PODS], [PODS], []),
        ([], [], []),
        ([], [PolicyRule(["get"], [""], ["pods"])], [PolicyRule(["get"], [""], ["pods"])]),
        ([PODS], [PolicyRule(["get", "delete"], [""], ["pods"])], [PolicyRule(["delete"], [""], ["pods"])]),
        ([PolicyRule(["*"], ["*"], ["*"])], [PolicyRule(["*"], ["*"], ["*"], ["n"])], []),
        ([PODS], [PolicyRule(["*"], [""], ["pods"])], [PolicyRule(["*"], [""], ["pods"])]),
        ([PolicyRule(["get"], [""], ["pods"]), PolicyRule(["list"], [""], ["pods"])], [PODS], []),
        # names: a rule for all objects covers one for some, not the reverse
        ([PODS], [PolicyRule(["get"], [""], ["pods"], ["a"])], []),
        ([PolicyRule(["get"], [""], ["pods"], ["a"])], [PolicyRule(["get"], [""], ["pods"])],
         [PolicyRule(["get"], [""], ["pods"])]),
        ([PolicyRule(["get"], [""], ["pods"], ["a"])], [PolicyRule(["get"], [""], ["pods"], ["a", "b"])],
         [PolicyRule(["get"], [""], ["pods"], ["b"])]),
        # subresources
        ([PolicyRule(["get"], [""], ["*/log"])], [PolicyRule(["get"], [""], ["pods/log"])], []),
        ([PolicyRule(["get"], [""], ["*/log"])], [PolicyRule(["get"], [""], ["*/log"])], []),
        ([PolicyRule(["get"], [""], ["pods"])], [PolicyRule(["get"], [""], ["pods/log"])],
         [PolicyRule(["get"], [""], ["pods/log"])]),
        # URLs
        ([PolicyRule(["get"], urls=["*"])], [PolicyRule(["get"], urls=["/a", "/b/*"])], []),
        ([PolicyRule(["get"], urls=["/b/*"])], [PolicyRule(["get"], urls=["/b/c/*", "/b"])],
         [PolicyRule(["get"], urls=["/b"])]),
        ([PolicyRule(["get"], urls=["/a"])], [PolicyRule(["get"], urls=["/a*"])],
         [PolicyRule(["get"], urls=["/a*"])]),
    ],
)  # fmt: skip
def test_uncovered(
    owned: list[PolicyRule], wanted: list[PolicyRule], missing: list[PolicyRule]
) -> None:
    assert uncovered(owned, wanted) == missing


@pytest.mark.parametrize(
    ("user", "wanted", "message"),
    [
        (
            User("alice", groups=("a", "b")),
            [PolicyRule(["get"], [""], ["configmaps"])],
            (
                'user "alice" (groups=["a" "b"]) is attempting to grant RBAC permissions not '
                'currently held:\n{APIGroups:[""], Resources:["configmaps"], Verbs:["get"]}'
            ),
        ),
        (
            User("bob"),
            [
                PolicyRule(["get", "list"], ["apps", ""], ["x"]),
                PolicyRule(["get"], ["apps"], ["x"], ["n"]),
                PolicyRule(["get", "put"], urls=["/u"]),
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
    assert at_once(escalation_message(user, [], wanted)) == message


def test_resolution_errors_are_told() -> None:
    message = at_once(
        escalation_message(USER, [], [PODS], ["role a not found", "role b not found"])
    )
    assert message is not None
    assert message.endswith("; resolution errors: [[role a not found, role b not found]]")


def test_what_one_holds_one_may_grant() -> None:
    assert at_once(escalation_message(USER, [PolicyRule(["*"], ["*"], ["*"])], [PODS])) is None


# --- against upstream's way, which compares every combination ------------------


def _some(*values: str, least: int = 0) -> st.SearchStrategy[list[str]]:
    return st.lists(st.sampled_from(values), min_size=least, max_size=3)


RULES = st.lists(
    st.builds(
        PolicyRule,
        _some("get", "list", "*"),
        _some("", "apps", "*"),
        _some("a", "b", "a/x", "b/x", "*/x", "*"),
        _some("m", "n"),
        _some("/u", "/u/*", "/u/v", "*", "/w**"),
    ),
    max_size=5,
)


def _parts(rule: PolicyRule) -> list[PolicyRule]:
    resources = product(rule.api_groups, rule.resources, rule.verbs, rule.names or [""])
    parts = [PolicyRule([v], [g], [r], [n] if n else []) for g, r, v, n in resources]
    return parts + [PolicyRule([v], urls=[u]) for u, v in product(rule.urls, rule.verbs)]


def _covers(owner: PolicyRule, part: PolicyRule) -> bool:
    def has(values: tuple[str, ...], value: str) -> bool:
        return "*" in values or value in values

    def url_covers(ours: str, url: str) -> bool:
        return ours == url or (ours.endswith("*") and url.startswith(ours.rstrip("*")))

    if not has(owner.verbs, part.verbs[0]):
        return False
    if part.urls:
        return not owner.names and any(url_covers(ours, part.urls[0]) for ours in owner.urls)
    resource = part.resources[0]
    any_of = "*/" + resource.partition("/")[2]
    covers_resource = has(owner.resources, resource) or (
        "/" in resource and any_of in owner.resources
    )
    covers_name = not owner.names or (bool(part.names) and part.names[0] in owner.names)
    return has(owner.api_groups, part.api_groups[0]) and covers_resource and covers_name


@given(RULES, RULES)
def test_the_same_is_missing_as_when_every_combination_is_compared(
    owned: list[PolicyRule], wanted: list[PolicyRule]
) -> None:
    parts = [part for rule in wanted for part in _parts(rule)]
    expected = [part for part in parts if not any(_covers(rule, part) for rule in owned)]
    assert sorted(map(repr, uncovered(owned, wanted))) == sorted(map(repr, expected))


# --- rules of a few kilobytes that stand for billions of combinations ----------


def _many(letter: str, count: int = 1000) -> list[str]:
    return [f"{letter}{number}" for number in range(count)]


BILLIONS = PolicyRule(_many("v"), _many("g"), _many("r"), _many("n"))


def test_a_trillion_combinations_are_covered() -> None:
    assert at_once(escalation_message(USER, [BILLIONS], [BILLIONS])) is None
    by_verb = [PolicyRule([verb], ["*"], ["*"]) for verb in _many("v")]
    assert at_once(escalation_message(USER, by_verb, [BILLIONS])) is None
    halves = [
        PolicyRule(_many("v"), _many("g")[:500], ["*"], _many("n")),
        PolicyRule(["*"], _many("g")[500:], _many("r")),
    ]
    assert at_once(escalation_message(USER, halves, [BILLIONS])) is None


def test_a_trillion_combinations_are_missing() -> None:
    """As many as fit are named, the first ones, and that there are more."""
    for owned in (
        [],
        [PolicyRule(["x"], ["y"], ["z"])],
        [PolicyRule(["*"], ["*"], ["*"], ["other"])],
    ):
        message = at_once(escalation_message(USER, owned, [BILLIONS]))
        assert message is not None
        assert len(message) < 100 * MAX_MISSING
        assert message.endswith("(further permissions are missing)")
        assert '{APIGroups:["g0"], Resources:["r0"], ResourceNames:["n0"], Verbs:["v0"' in message


def test_one_in_a_trillion_is_missing() -> None:
    owned = [
        PolicyRule(_many("v")[1:], _many("g"), _many("r")),
        PolicyRule(_many("v"), _many("g")[1:], _many("r")),
        PolicyRule(_many("v"), _many("g"), _many("r")[1:]),
        PolicyRule(_many("v"), _many("g"), _many("r"), _many("n")[1:]),
    ]
    only = PolicyRule(["v0"], ["g0"], ["r0"], ["n0"])
    assert uncovered(owned, [BILLIONS]) == [only]


def test_hundreds_of_names_against_thousands_of_rules() -> None:
    """Each rule for one name; the work is that of a look at each."""
    held = [PolicyRule(["get"], [""], ["secrets"], [name]) for name in _many("n", 20_000)]
    wanted = [PolicyRule(["get"], [""], ["secrets"], _many("n", 20_300)[19_999:])]
    missing = uncovered(held, wanted)
    assert [part.names[0] for part in missing] == _many("n", 20_300)[20_000:]
    one_by_one = [PolicyRule(["get"], [""], ["secrets"], [name]) for name in _many("n", 20_000)]
    assert not uncovered(held, one_by_one)


def test_thousands_of_urls_against_thousands_of_patterns() -> None:
    held = [PolicyRule(["get"], urls=[f"/{number}/*"]) for number in range(20_000)]
    wanted = [PolicyRule(["get"], urls=[f"/{number}/x" for number in range(20_001)])]
    assert uncovered(held, wanted) == [PolicyRule(["get"], urls=["/20000/x"])]


def test_rules_that_were_made_to_be_hard_to_compare_are_not_covered() -> None:
    """Every value is held by other rules than the next: there is nothing to put together."""
    count = 130
    verbs, groups, resources = _many("v", count), _many("g", count), _many("r", count)
    held = [PolicyRule([verb], groups, resources) for verb in verbs]
    held += [PolicyRule(verbs[:1], [groups[n]], resources[:n]) for n in range(count)]
    wanted = [PolicyRule(verbs, groups, resources)]
    assert sum(1 for _ in find_missing(held, wanted)) < 100_000
    assert at_once(find_missing(held, wanted))
    assert not at_once(find_missing([*held, PolicyRule(["*"], ["*"], ["*"])], wanted))
