"""Made-up input: configurations and tokens may be refused, but never break anything."""

from __future__ import annotations

import contextlib
import json
import time
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from pykcp.auth.authn.config import (
    AuthenticationConfig,
    AuthenticationConfigError,
    parse_config,
    read_jwt,
)
from pykcp.auth.authn.config_validation import check_config, compile_config
from pykcp.auth.authn.interface import CredentialRejected
from pykcp.auth.authn.oidc import JwtAuthenticator, JwtTokens
from pykcp.auth.authn.oidc_issuer import RemoteIssuer
from pykcp.auth.authn.oidc_keys import KeyProblem, parse_key, parse_key_set
from pykcp.testing.issuer import SigningKey, encode, sign

NAMES = st.sampled_from(
    [
        "jwt", "anonymous", "issuer", "url", "audiences", "discoveryURL", "claimMappings",
        "username", "groups", "uid", "extra", "claim", "prefix", "expression", "key",
        "valueExpression", "claimValidationRules", "userValidationRules", "message", "enabled",
        "conditions", "path", "certificateAuthority", "x",
    ]
)  # fmt: skip
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=20),
    st.sampled_from(["https://a", "claims.sub", "claims.", "user.groups", "https://[", "a/b"]),
)
JSON = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=25,
)


@given(jwts=st.lists(st.dictionaries(NAMES, JSON, max_size=4), max_size=3), anonymous=JSON)
@settings(max_examples=150, deadline=None)
def test_configurations(jwts: list[Any], anonymous: Any) -> None:
    document = {
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "AuthenticationConfiguration",
        "jwt": jwts,
        "anonymous": anonymous,
    }
    with contextlib.suppress(AuthenticationConfigError):
        _, errors = check_config(parse_config(yaml.safe_dump(document)))
        assert all(error.text() for error in errors)


@pytest.mark.parametrize(
    "text",
    [
        "!!map [1]",
        "? [a]\n: b",
        "? {a: b}\n: c",
        "&a [*a]",
        "kind: &a {b: *a}",
        "<<: 5",
        "a: !!python/object/apply:os.system [true]",
        "\x00",
        "a: 2026-99-99",
        "- " * 5000,
        "[" * 5000,
        "5: 6\nkind: AuthenticationConfiguration\napiVersion: apiserver.config.k8s.io/v1",
        "kind: [AuthenticationConfiguration]\napiVersion: {}",
    ],
)
def test_odd_yaml(text: str) -> None:
    with pytest.raises(AuthenticationConfigError):
        parse_config(text)


@given(text=st.text(max_size=60))
@settings(max_examples=200, deadline=None)
def test_any_text(text: str) -> None:
    with contextlib.suppress(AuthenticationConfigError):
        parse_config(text)


@given(document=st.binary(max_size=60), entry=st.dictionaries(st.sampled_from(
    ["kty", "kid", "n", "e", "crv", "x", "y", "alg"]), JSON | st.sampled_from(
    ["RSA", "EC", "OKP", "P-256", "Ed25519", "AQAB", "_w"]), max_size=8))  # fmt: skip
@settings(max_examples=200, deadline=None)
def test_keys(document: bytes, entry: Any) -> None:
    with contextlib.suppress(KeyProblem):
        parse_key_set(document)
    with contextlib.suppress(KeyProblem):
        parse_key(entry)


KEY = SigningKey("k", "ES256")
CLAIMS = st.dictionaries(
    st.sampled_from(
        ["iss", "aud", "exp", "nbf", "iat", "sub", "groups", "n", "jti", "_claim_names",
         "_claim_sources"]
    ),
    JSON | st.sampled_from(["https://a", "me", 4_000_000_000]),
    max_size=9,
)  # fmt: skip


async def _outcome(token: str) -> str:
    entry = {
        "issuer": {"url": "https://a", "audiences": ["me"]},
        "claimMappings": {
            "username": {"claim": "sub", "prefix": ""},
            "groups": {"expression": "claims.groups"},
            "extra": [{"key": "a.b/c", "valueExpression": "claims.?n.orValue('')"}],
        },
    }
    (compiled,) = compile_config(AuthenticationConfig((read_jwt(entry),)))
    remote = RemoteIssuer("https://a", clock=lambda: 0.0)
    remote._ready.set()
    remote._attempted = 0.0
    remote.keys = [parse_key(KEY.to_jwk())]
    remote._fetched = 0.0
    tokens = JwtTokens(())
    tokens.replace([JwtAuthenticator(compiled, remote)])
    try:
        found = await tokens.authenticate(token, (), "", time.time())
    except CredentialRejected as error:
        return str(error)
    return "nobody" if found is None else f"user {found.user.name}"


def run(token: str) -> str:
    import asyncio

    return asyncio.run(_outcome(token))


@given(claims=CLAIMS)
@settings(max_examples=200, deadline=None)
def test_signed_claims_of_any_kind(claims: Any) -> None:
    claims = (
        json.loads(json.dumps(claims, allow_nan=False, default=str)) if _is_json(claims) else {}
    )
    assert run(sign(KEY, {"iss": "https://a", **claims}))


def _is_json(value: Any) -> bool:
    try:
        json.dumps(value, allow_nan=False)
    except ValueError:
        return False
    return True


@given(head=st.binary(max_size=40), body=st.binary(max_size=40), end=st.binary(max_size=80))
@settings(max_examples=200, deadline=None)
def test_unsigned_tokens_never_make_a_user(head: bytes, body: bytes, end: bytes) -> None:
    claims = json.dumps({"iss": "https://a", "aud": "me", "sub": "x", "exp": 4e9}).encode()
    for first, second in ((head, body), (head, claims), (b'{"alg": "ES256"}', claims)):
        told = run(".".join(encode(part) for part in (first, second, end)))
        assert not told.startswith("user ")


@given(token=st.text(max_size=80))
@settings(max_examples=100, deadline=None)
def test_any_text_is_no_token(token: str) -> None:
    assert not run(token).startswith("user ")
