"""From claims to a user: prefixes, groups, expressions, and every refusal's words."""

from __future__ import annotations

from typing import Any

import pytest

from pykcp.auth.authn.config import AuthenticationConfig, read_jwt
from pykcp.auth.authn.config_validation import CompiledJwt, compile_config
from pykcp.auth.authn.interface import CredentialRejected
from pykcp.auth.authn.oidc_claims import user_from
from pykcp.auth.user import User


def compiled(username: dict[str, Any] | None = None, **more: Any) -> CompiledJwt:
    mappings = {
        "username": username or {"claim": "sub", "prefix": ""},
        **more.pop("mappings", {}),
    }
    entry = {
        "issuer": {"url": "https://i.example.com", "audiences": ["a"]},
        "claimMappings": mappings,
        **more,
    }
    (found,) = compile_config(AuthenticationConfig((read_jwt(entry),)))
    return found


def refusal(config: CompiledJwt, claims: dict[str, Any]) -> str:
    with pytest.raises(CredentialRejected) as caught:
        user_from(config, claims)
    return str(caught.value)


def test_claims_with_prefixes() -> None:
    config = compiled(
        {"claim": "sub", "prefix": "oidc:"},
        mappings={"groups": {"claim": "groups", "prefix": "g:"}, "uid": {"claim": "oid"}},
    )
    user = user_from(config, {"sub": "alice", "groups": ["a", "b"], "oid": "7", "jti": "x1"})
    assert user == User(
        "oidc:alice",
        "7",
        ("g:a", "g:b"),
        {"authentication.kubernetes.io/credential-id": ("JTI=x1",)},
    )


@pytest.mark.parametrize(
    ("groups", "expected"),
    [("dev", ("dev",)), (["a", "b"], ("a", "b")), ([], ()), (None, ())],
)
def test_groups_may_be_a_text_or_a_list(groups: Any, expected: tuple[str, ...]) -> None:
    config = compiled(mappings={"groups": {"claim": "g", "prefix": ""}})
    assert user_from(config, {"sub": "a", "g": groups}).groups == expected


def test_a_user_without_the_groups_claim_has_none() -> None:
    config = compiled(mappings={"groups": {"claim": "g", "prefix": ""}})
    assert user_from(config, {"sub": "a"}).groups == ()


def test_groups_that_lie_elsewhere_are_a_refusal() -> None:
    config = compiled(mappings={"groups": {"claim": "g", "prefix": ""}})
    claims = {"sub": "a", "_claim_names": {"g": "s"}, "_claim_sources": {"s": {"endpoint": "x"}}}
    assert refusal(config, claims) == (
        "oidc: could not expand distributed claims: distributed claims are not supported"
    )


@pytest.mark.parametrize(
    ("claims", "told"),
    [
        ({}, 'oidc: parse username claims "sub": claim not present'),
        (
            {"sub": 5},
            (
                'oidc: parse username claims "sub": json: cannot unmarshal number into Go value of '
                "type string"
            ),
        ),
        ({"sub": ""}, 'oidc: parse username claims "sub": claim is empty'),
        ({"sub": None}, 'oidc: parse username claims "sub": claim is empty'),
        (
            {"sub": "a", "g": [1]},
            (
                'oidc: parse groups claim "g": json: cannot unmarshal array into Go value of type '
                "string"
            ),
        ),
        ({"sub": "a"}, 'oidc: parse uid claim "oid": claim not present'),
    ],
)
def test_claims_that_do_not_fit(claims: dict[str, Any], told: str) -> None:
    config = compiled(mappings={"groups": {"claim": "g", "prefix": ""}, "uid": {"claim": "oid"}})
    assert refusal(config, claims) == told


@pytest.mark.parametrize(
    ("verified", "told"),
    [
        (False, "oidc: email not verified"),
        (None, "oidc: email not verified"),
        (
            "true",
            (
                "oidc: parse 'email_verified' claim: json: cannot unmarshal string into Go value of "
                "type bool"
            ),
        ),
    ],
)
def test_an_email_that_is_not_verified_is_no_name(verified: Any, told: str) -> None:
    config = compiled({"claim": "email", "prefix": ""})
    assert refusal(config, {"email": "a@b", "email_verified": verified}) == told


def test_an_email_that_is_verified_or_says_nothing_is_a_name() -> None:
    config = compiled({"claim": "email", "prefix": ""})
    assert user_from(config, {"email": "a@b"}).name == "a@b"
    assert user_from(config, {"email": "a@b", "email_verified": True}).name == "a@b"


def test_expressions_make_users() -> None:
    config = compiled(
        {"expression": "claims.user.name + '@' + claims.realm__dot__id"},
        mappings={
            "groups": {"expression": "claims.roles.split(',')"},
            "uid": {"expression": "string(int(claims.n))"},
            "extra": [
                {"key": "example.com/one", "valueExpression": "claims.one"},
                {"key": "example.com/many", "valueExpression": "['a', '', 'b']"},
                {"key": "example.com/none", "valueExpression": "claims.?missing.orValue('')"},
            ],
        },
    )
    claims = {"user": {"name": "al"}, "realm.id": "x", "roles": "r1,r2", "n": 7, "one": "1"}
    user = user_from(config, claims)
    assert user == User(
        "al@x",
        "7",
        ("r1", "r2"),
        {"example.com/one": ("1",), "example.com/many": ("a", "b")},
    )


@pytest.mark.parametrize(
    ("username", "more", "told"),
    [
        (
            {"expression": "claims.n"},
            {},
            (
                "oidc: error evaluating username claim expression: "
                "username claim expression must return a string"
            ),
        ),
        (
            {"expression": "claims.empty"},
            {},
            "oidc: empty username via CEL expression is not allowed",
        ),
        (
            {"expression": "claims.nothing"},
            {},
            (
                "oidc: error evaluating username claim expression: "
                "expression 'claims.nothing' resulted in error: no such key: nothing"
            ),
        ),
        (
            None,
            {"groups": {"expression": "claims.n"}},
            (
                "oidc: error evaluating group claim expression: "
                "expression must return a string or a list of strings"
            ),
        ),
        (
            None,
            {"uid": {"expression": "claims.n"}},
            (
                "oidc: error evaluating uid claim expression: "
                "uid claim expression must return a string"
            ),
        ),
        (
            None,
            {"extra": [{"key": "a.b/c", "valueExpression": "claims.n"}]},
            (
                "oidc: error evaluating extra claim expression: claims.n: "
                "expression must return a string or a list of strings"
            ),
        ),
    ],
)
def test_expressions_that_do_not_fit(
    username: dict[str, Any] | None, more: dict[str, Any], told: str
) -> None:
    config = compiled(username, mappings=more)
    assert refusal(config, {"sub": "a", "n": 5, "empty": ""}) == told


@pytest.mark.parametrize(
    ("claims", "told"),
    [
        ({}, "oidc: required claim hd not present in ID token"),
        (
            {"hd": 1},
            "oidc: parse claim hd: json: cannot unmarshal number into Go value of type string",
        ),
        (
            {"hd": "evil.com"},
            "oidc: required claim hd value does not match. Got = evil.com, want = example.com",
        ),
    ],
)
def test_required_claims(claims: dict[str, Any], told: str) -> None:
    config = compiled(claimValidationRules=[{"claim": "hd", "requiredValue": "example.com"}])
    assert refusal(config, {"sub": "a", **claims}) == told
    assert user_from(config, {"sub": "a", "hd": "example.com"}).name == "a"


def test_rules_on_claims_and_users() -> None:
    short = "claims.exp - claims.nbf <= 86400"
    plain = "!user.username.startsWith('system:')"
    config = compiled(
        claimValidationRules=[{"expression": short, "message": "too long"}],
        userValidationRules=[{"expression": plain, "message": "system names are ours"}],
    )
    good = {"sub": "a", "nbf": 0, "exp": 100}
    assert user_from(config, good).name == "a"
    assert refusal(config, {**good, "exp": 100_000}) == (
        "oidc: error evaluating claim validation expression: "
        f"validation expression '{short}' failed: too long"
    )
    assert refusal(config, {**good, "sub": "system:x"}) == (
        "oidc: error evaluating user info validation rule: "
        f"validation expression '{plain}' failed: system names are ours"
    )


def test_a_rule_that_runs_away_is_stopped() -> None:
    config = compiled(
        claimValidationRules=[
            {"expression": "claims.l.all(a, claims.l.all(b, claims.l.all(c, a != 'x' || b != c)))"}
        ]
    )
    told = refusal(config, {"sub": "a", "l": ["y"] * 2000})
    assert told.endswith("operation cancelled: actual cost limit exceeded")
