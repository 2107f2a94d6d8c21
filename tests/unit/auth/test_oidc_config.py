"""AuthenticationConfiguration: what is read, and what is refused in which words."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from pykcp.auth.authn.config import (
    AnonymousConfig,
    AuthenticationConfig,
    AuthenticationConfigError,
    parse_config,
)
from pykcp.auth.authn.config_file import config_from_flags
from pykcp.auth.authn.config_validation import check_config, compile_config
from pykcp.auth.settings import SignInSettings


def jwt(**changes: Any) -> dict[str, Any]:
    return {
        "issuer": {"url": "https://one.example.com", "audiences": ["a"]},
        "claimMappings": {"username": {"claim": "sub", "prefix": ""}},
        **changes,
    }


def document(*jwts: dict[str, Any], version: str = "v1", **more: Any) -> str:
    return yaml.safe_dump(
        {
            "apiVersion": f"apiserver.config.k8s.io/{version}",
            "kind": "AuthenticationConfiguration",
            "jwt": list(jwts),
            **more,
        }
    )


def problems(*jwts: dict[str, Any], disallowed: tuple[str, ...] = (), **more: Any) -> list[str]:
    _, errors = check_config(parse_config(document(*jwts, **more)), disallowed)
    return [error.text() for error in errors]


@pytest.mark.parametrize("version", ["v1alpha1", "v1beta1", "v1"])
def test_a_configuration_is_read(version: str) -> None:
    config = parse_config(
        document(
            jwt(
                claimValidationRules=[{"claim": "hd", "requiredValue": "example.com"}],
                userValidationRules=[{"expression": "user.username != ''", "message": "no"}],
                claimMappings={
                    "username": {"expression": "claims.sub"},
                    "groups": {"claim": "groups", "prefix": "x:"},
                    "uid": {"claim": "uid"},
                    "extra": [{"key": "example.com/a", "valueExpression": "claims.a"}],
                },
            ),
            version=version,
            anonymous={"enabled": True, "conditions": [{"path": "/livez"}]},
        )
    )
    (one,) = config.jwt
    assert one.issuer.audiences == ("a",)
    assert one.username.expression == "claims.sub"
    assert (one.groups.claim, one.groups.prefix) == ("groups", "x:")
    assert one.extra[0].value_expression == "claims.a"
    assert config.anonymous == AnonymousConfig(True, ("/livez",))
    assert len(compile_config(config)) == 1


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "empty config data"),
        ("- 1", "couldn't get version/kind; json parse error: not an object"),
        ("jwt: []", "Object 'Kind' is missing"),
        ("kind: AuthenticationConfiguration", "Object 'apiVersion' is missing"),
        (
            "kind: Pod\napiVersion: v1",
            'no kind "Pod" is registered for version "v1"',
        ),
        (
            "kind: AuthenticationConfiguration\napiVersion: apiserver.config.k8s.io/v2",
            (
                'no kind "AuthenticationConfiguration" is registered for version '
                '"apiserver.config.k8s.io/v2"'
            ),
        ),
        ("a: [", "yaml: line 1: "),
        (
            "kind: AuthenticationConfiguration\nkind: b",
            'strict decoding error: line 2: key "kind" already set in map',
        ),
        (document(jwt(foo=1)), 'strict decoding error: unknown field "jwt[0].foo"'),
        (
            document(jwt(issuer={"url": "u", "audience": "x"})),
            'strict decoding error: unknown field "jwt[0].issuer.audience"',
        ),
        (
            document(jwt(issuer={"url": 5})),
            "strict decoding error: jwt[0].issuer.url: must be a string",
        ),
        (
            document(jwt(issuer={"audiences": "x"})),
            "strict decoding error: jwt[0].issuer.audiences: must be a list of strings",
        ),
        (
            document(jwt(claimMappings={"uid": {"prefix": "x"}})),
            'strict decoding error: unknown field "jwt[0].claimMappings.uid.prefix"',
        ),
        (
            document(anonymous={"enabled": "yes"}),
            "strict decoding error: anonymous.enabled: must be true or false",
        ),
    ],
)
def test_what_cannot_be_decoded_is_told(text: str, told: str) -> None:
    with pytest.raises(AuthenticationConfigError) as caught:
        parse_config(text)
    assert str(caught.value).startswith(told)


def issuer(**changes: Any) -> dict[str, Any]:
    return jwt(issuer={"url": "https://one.example.com", "audiences": ["a"], **changes})


def username(**mapping: Any) -> dict[str, Any]:
    return jwt(claimMappings={"username": mapping})


def mappings(**more: Any) -> dict[str, Any]:
    return jwt(claimMappings={"username": {"claim": "sub", "prefix": ""}, **more})


_EMAIL_TEXT = (
    "claims.email_verified must be used in claimMappings.username.expression or "
    "claimMappings.extra[*].valueExpression or claimValidationRules[*].expression when "
    "claims.email is used in claimMappings.username.expression"
)


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        (issuer(url=""), "jwt[0].issuer.url: Required value"),
        (
            issuer(url="http://x"),
            'jwt[0].issuer.url: Invalid value: "http://x": URL scheme must be https',
        ),
        (
            issuer(url="https://u:p@x"),
            (
                'jwt[0].issuer.url: Invalid value: "https://u:p@x": '
                "URL must not contain a username or password"
            ),
        ),
        (
            issuer(url="https://x?a=b"),
            'jwt[0].issuer.url: Invalid value: "https://x?a=b": URL must not contain a query',
        ),
        (
            issuer(url="https://%zz"),
            (
                'jwt[0].issuer.url: Invalid value: "https://%zz": '
                'parse "https://%zz": invalid URL escape "%zz"'
            ),
        ),
        (
            issuer(url="https://x#f"),
            'jwt[0].issuer.url: Invalid value: "https://x#f": URL must not contain a fragment',
        ),
        (
            issuer(discoveryURL="https://one.example.com/"),
            (
                'jwt[0].issuer.discoveryURL: Invalid value: "https://one.example.com/": '
                "discoveryURL must be different from URL"
            ),
        ),
        (
            issuer(audiences=[]),
            (
                "jwt[0].issuer.audiences: Required value: "
                "at least one jwt[0].issuer.audiences is required"
            ),
        ),
        (
            issuer(audiences=["a", "a"], audienceMatchPolicy="MatchAny"),
            'jwt[0].issuer.audiences[1]: Duplicate value: "a"',
        ),
        (
            issuer(audiences=["a", "b"]),
            (
                'jwt[0].issuer.audienceMatchPolicy: Invalid value: "": '
                "audienceMatchPolicy must be MatchAny for multiple audiences"
            ),
        ),
        (
            issuer(audienceMatchPolicy="All"),
            (
                'jwt[0].issuer.audienceMatchPolicy: Invalid value: "All": '
                "audienceMatchPolicy must be empty or MatchAny for single audience"
            ),
        ),
        (
            issuer(certificateAuthority="nonsense"),
            (
                'jwt[0].issuer.certificateAuthority: Invalid value: "<omitted>": '
                "data does not contain any valid RSA or ECDSA certificates"
            ),
        ),
        (
            username(),
            "jwt[0].claimMappings.username: Required value: claim or expression is required",
        ),
        (
            username(claim="sub"),
            (
                "jwt[0].claimMappings.username.prefix: Required value: prefix is required when claim "
                "is set. It can be set to an empty string to disable prefixing"
            ),
        ),
        (
            username(claim="sub", expression="claims.sub", prefix=""),
            (
                'jwt[0].claimMappings.username: Invalid value: "": '
                "claim and expression can't both be set"
            ),
        ),
        (
            username(expression="claims.sub", prefix="x"),
            (
                'jwt[0].claimMappings.username.prefix: Invalid value: "x": '
                "may not be specified when expression is set"
            ),
        ),
        (
            username(expression="claims.email"),
            'jwt[0].claimMappings.username.expression: Invalid value: "claims.email": '
            + _EMAIL_TEXT,
        ),
        (
            username(expression="user.x"),
            (
                'jwt[0].claimMappings.username.expression: Invalid value: "user.x": compilation '
                "failed: ERROR: <input>:1:1: undeclared reference to 'user' (in container '')\n"
                " | user.x\n | ^"
            ),
        ),
        (
            mappings(uid={"claim": "a", "expression": "claims.a"}),
            'jwt[0].claimMappings.uid: Invalid value: "": claim and expression can\'t both be set',
        ),
        (
            mappings(extra=[{"key": "foo", "valueExpression": "claims.a"}]),
            (
                'jwt[0].claimMappings.extra[0].key: Invalid value: "foo": '
                'must be a domain-prefixed path (such as "acme.io/foo")'
            ),
        ),
        (
            mappings(extra=[{"key": "example.org/Foo", "valueExpression": "claims.a"}]),
            (
                'jwt[0].claimMappings.extra[0].key: Invalid value: "example.org/Foo": '
                "must be lowercase"
            ),
        ),
        (
            mappings(extra=[{"key": "a.k8s.io/foo", "valueExpression": "claims.a"}]),
            (
                'jwt[0].claimMappings.extra[0].key: Invalid value: "a.k8s.io/foo": '
                "k8s.io, kubernetes.io and their subdomains are reserved for Kubernetes use"
            ),
        ),
        (
            mappings(extra=[{"key": "example.org/foo"}]),
            "jwt[0].claimMappings.extra[0].valueExpression: Required value",
        ),
        (
            jwt(claimValidationRules=[{}]),
            "jwt[0].claimValidationRules[0]: Required value: claim or expression is required",
        ),
        (
            jwt(claimValidationRules=[{"claim": "a", "expression": "true"}]),
            (
                'jwt[0].claimValidationRules[0]: Invalid value: "a": '
                "claim and expression can't both be set"
            ),
        ),
        (
            jwt(claimValidationRules=[{"claim": "a", "message": "m"}]),
            (
                'jwt[0].claimValidationRules[0].message: Invalid value: "m": '
                "may not be specified when claim is set"
            ),
        ),
        (
            jwt(claimValidationRules=[{"claim": "a"}, {"claim": "a"}]),
            'jwt[0].claimValidationRules[1].claim: Duplicate value: "a"',
        ),
        (
            jwt(claimValidationRules=[{"expression": "claims.a", "requiredValue": "x"}]),
            (
                'jwt[0].claimValidationRules[0].requiredValue: Invalid value: "x": '
                "may not be specified when expression is set"
            ),
        ),
        (
            jwt(claimValidationRules=[{"expression": "claims.a"}]),
            (
                'jwt[0].claimValidationRules[0].expression: Invalid value: "claims.a": '
                "must evaluate to bool"
            ),
        ),
        (
            jwt(userValidationRules=[{}]),
            "jwt[0].userValidationRules[0].expression: Required value",
        ),
        (
            jwt(userValidationRules=[{"expression": "user.nothing == ''"}]),
            (
                "jwt[0].userValidationRules[0].expression: Invalid value: "
                "\"user.nothing == ''\": compilation failed: ERROR: <input>:1:5: "
                "undefined field 'nothing'\n | user.nothing == ''\n | ....^"
            ),
        ),
        (
            jwt(userValidationRules=[{"expression": "user.uid == ''"}] * 2),
            "jwt[0].userValidationRules[1].expression: Duplicate value: \"user.uid == ''\"",
        ),
    ],
)
def test_what_makes_no_sense_is_told_as_upstream_tells_it(entry: dict[str, Any], told: str) -> None:
    assert told in problems(entry)


def test_the_email_rule_is_content_with_a_check_anywhere() -> None:
    checked = "claims.?email_verified.orValue(true) == true"
    by_rule = jwt(
        claimMappings={"username": {"expression": "claims.email"}},
        claimValidationRules=[{"expression": checked}],
    )
    by_name = username(expression=f"{checked} ? claims.email : claims.sub")
    by_extra = jwt(
        claimMappings={
            "username": {"expression": "claims.email"},
            "extra": [{"key": "a.b/c", "valueExpression": "string(claims.email_verified)"}],
        }
    )
    assert problems(by_rule) == problems(by_name) == problems(by_extra) == []


def test_issuers_must_differ_and_must_not_be_ours() -> None:
    told = problems(jwt(), jwt(), disallowed=("https://one.example.com", "https://kcp.svc"))
    assert 'jwt[1].issuer.url: Duplicate value: "https://one.example.com"' in told
    assert (
        'jwt[0].issuer.url: Invalid value: "https://one.example.com": URL must not overlap with '
        "disallowed issuers: [https://kcp.svc https://one.example.com]"
    ) in told


def test_there_is_a_limit_to_issuers() -> None:
    assert problems(*[jwt()] * 65) == ["jwt: Too many: 65: must have at most 64 items"]


def test_anonymous_paths_need_anonymous_access() -> None:
    told = problems(anonymous={"enabled": False, "conditions": [{"path": "/x"}]})
    assert told == [
        (
            'anonymous.conditions: Invalid value: [{"Path":"/x"}]: '
            "enabled should be set to true when conditions are defined"
        )
    ]


def test_all_problems_are_told_at_once() -> None:
    with pytest.raises(AuthenticationConfigError) as caught:
        compile_config(parse_config(document(issuer(url="", audiences=[]))))
    assert str(caught.value) == (
        "invalid authentication configuration: [jwt[0].issuer.url: Required value, "
        "jwt[0].issuer.audiences: Required value: at least one jwt[0].issuer.audiences is required]"
    )


# --- flags --------------------------------------------------------------------


def flags(**more: Any) -> SignInSettings:
    given = {"oidc_issuer_url": "https://i", "oidc_client_id": "c", "is_any_oidc_given": True}
    return SignInSettings(**{**given, **more})


@pytest.mark.parametrize(
    ("claim", "prefix", "expected"),
    [
        ("sub", "", "https://i#"),
        ("sub", "-", ""),
        ("sub", "p:", "p:"),
        ("email", "", ""),
        ("email", "p:", "p:"),
    ],
)
def test_names_are_prefixed_as_the_flags_say(claim: str, prefix: str, expected: str) -> None:
    config = config_from_flags(flags(oidc_username_claim=claim, oidc_username_prefix=prefix))
    assert config.jwt[0].username.prefix == expected
    assert not check_config(config)[1]


def test_flags_become_a_configuration() -> None:
    config = config_from_flags(
        flags(
            oidc_groups_claim="roles",
            oidc_groups_prefix="g:",
            oidc_required_claim={"hd": "example.com"},
        )
    )
    (one,) = config.jwt
    assert one.issuer.audiences == ("c",)
    assert (one.groups.claim, one.groups.prefix) == ("roles", "g:")
    assert [(r.claim, r.required_value) for r in one.claim_validation_rules] == [
        ("hd", "example.com")
    ]


def test_no_flags_no_issuer() -> None:
    assert config_from_flags(SignInSettings()) == AuthenticationConfig()
    assert SignInSettings().problems() == []


def test_flags_that_do_not_go_together() -> None:
    alone = SignInSettings(oidc_issuer_url="https://i", is_any_oidc_given=True)
    assert alone.problems() == [
        (
            "oidc-issuer-url and oidc-client-id must be specified together when any oidc-* flags "
            "are set"
        )
    ]
    both = flags(authentication_config=__file__)
    assert both.problems() == ["authentication-config file and oidc-* flags are mutually exclusive"]
    version = SignInSettings(authorization_webhook_version="v2")
    assert version.problems() == [
        'unsupported webhook authorizer version "v2", supported versions are "v1", "v1beta1"'
    ]


def test_unknown_algorithms_are_refused() -> None:
    with pytest.raises(AuthenticationConfigError, match='oidc: unsupported signing alg: "HS256"'):
        config_from_flags(flags(oidc_signing_algs=("HS256",)))
