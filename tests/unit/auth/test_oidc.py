"""Tokens of an issuer over real HTTPS: what is accepted, what is refused, and when it is asked."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import hmac
import json
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from pykcp.auth.authn import oidc_issuer
from pykcp.auth.authn.config import AuthenticationConfig, read_jwt
from pykcp.auth.authn.config_validation import CompiledJwt, compile_config
from pykcp.auth.authn.interface import Authenticated, CredentialRejected
from pykcp.auth.authn.oidc import JwtAuthenticator, JwtTokens
from pykcp.auth.authn.oidc_issuer import REFRESH_PAUSE, RemoteIssuer
from pykcp.auth.authn.oidc_keys import (
    ALGORITHMS,
    IssuerKey,
    KeyProblem,
    find_signer,
    parse_key,
    parse_key_set,
)
from pykcp.testing.issuer import AUDIENCE, DISCOVERY, KEYS, SigningKey, TestIssuer, encode, sign


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(scope="module")
def shared() -> Iterator[TestIssuer]:
    """An issuer with a key of every algorithm; only for tests that leave it alone."""
    issuer = TestIssuer(*ALGORITHMS)
    yield issuer
    issuer.close()


@pytest.fixture
def issuer() -> Iterator[TestIssuer]:
    """An issuer to be meddled with."""
    made = TestIssuer("ES256")
    yield made
    made.close()


def configured(issuer: TestIssuer, *audiences: str) -> CompiledJwt:
    entry = {
        "issuer": {
            "url": issuer.url,
            "certificateAuthority": issuer.ca,
            "audiences": list(audiences or (AUDIENCE,)),
            "audienceMatchPolicy": "MatchAny",
        },
        "claimMappings": {"username": {"claim": "sub", "prefix": ""}},
    }
    (compiled,) = compile_config(AuthenticationConfig((read_jwt(entry),)))
    return compiled


class Verifier:
    """An authenticator for an issuer that was reached."""

    def __init__(self, remote: RemoteIssuer, authenticator: JwtAuthenticator, clock: Clock) -> None:
        self.remote, self.authenticator, self.clock = remote, authenticator, clock

    async def name(self, token: str) -> str:
        found = await self.authenticator.authenticate(token, time.time())
        return found.user.name

    async def refusal(self, token: str) -> str:
        with pytest.raises(CredentialRejected) as caught:
            await self.authenticator.authenticate(token, time.time())
        text = str(caught.value)
        assert token not in text
        return text


@contextlib.asynccontextmanager
async def verifying(
    issuer: TestIssuer, *audiences: str, algorithms: tuple[str, ...] = ALGORITHMS
) -> AsyncIterator[Verifier]:
    clock = Clock()
    remote = RemoteIssuer(issuer.url, "", issuer.ca, clock)
    remote.start()
    try:
        async with asyncio.timeout(10):
            await remote.wait_until_ready()
            while not remote.keys:  # noqa: ASYNC110 - nothing else tells
                await asyncio.sleep(0.01)
        compiled = configured(issuer, *audiences)
        yield Verifier(remote, JwtAuthenticator(compiled, remote, algorithms), clock)
    finally:
        await remote.close()


@pytest.mark.parametrize("algorithm", ALGORITHMS)
async def test_every_algorithm_is_verified(shared: TestIssuer, algorithm: str) -> None:
    key = shared.keys[algorithm]
    other = SigningKey(key.key_id, algorithm)
    async with verifying(shared) as verifier:
        assert await verifier.name(shared.token(key)) == "alice"
        assert "failed to verify id token signature" in await verifier.refusal(shared.token(other))


async def test_a_token_may_name_no_key(shared: TestIssuer) -> None:
    async with verifying(shared) as verifier:
        token = sign(shared.keys["PS384"], shared.claims(), kid="")
        assert await verifier.name(token) == "alice"


async def test_only_chosen_algorithms_are_accepted(shared: TestIssuer) -> None:
    async with verifying(shared, algorithms=("RS256",)) as verifier:
        assert await verifier.name(shared.token(shared.keys["RS256"])) == "alice"
        assert await verifier.refusal(shared.token(shared.keys["ES256"])) == (
            "oidc: verify token: oidc: id token signed with unsupported algorithm, "
            'expected ["RS256"] got "ES256"'
        )


async def test_no_signature_is_no_proof(shared: TestIssuer) -> None:
    async with verifying(shared) as verifier:
        for name in ("none", "None", "NONE", ""):
            head = encode(json.dumps({"alg": name}).encode())
            body = encode(json.dumps(shared.claims()).encode())
            for signature in ("", encode(b"x")):
                told = await verifier.refusal(f"{head}.{body}.{signature}")
                assert "id token signed with unsupported algorithm" in told


async def test_a_public_key_is_no_secret(shared: TestIssuer) -> None:
    """HS256 keyed with what everybody knows."""
    key = shared.keys["RS256"]
    public = key.key.public_key()
    for form in (
        public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo),
        public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo),
        json.dumps(key.to_jwk()).encode(),
    ):
        head = encode(json.dumps({"alg": "HS256", "kid": key.key_id}).encode())
        signed = f"{head}.{encode(json.dumps(shared.claims()).encode())}"
        mac = hmac.new(form, signed.encode(), hashlib.sha256).digest()
        async with verifying(shared) as verifier:
            told = await verifier.refusal(f"{signed}.{encode(mac)}")
            assert 'got "HS256"' in told


async def test_a_key_only_verifies_its_own_kind(shared: TestIssuer) -> None:
    async with verifying(shared) as verifier:
        rsa, curve = shared.keys["RS256"], shared.keys["ES256"]
        for key, claimed in ((rsa, "ES256"), (curve, "RS256"), (curve, "ES384"), (rsa, "EdDSA")):
            told = await verifier.refusal(sign(key, shared.claims(), alg=claimed))
            assert "failed to verify id token signature" in told


async def test_keys_in_the_token_are_not_looked_at(shared: TestIssuer) -> None:
    own = SigningKey("mine", "ES256")
    async with verifying(shared) as verifier:
        token = sign(own, shared.claims(), jwk=own.to_jwk(), jku=f"{shared.url}/mine")
        assert "failed to verify id token signature" in await verifier.refusal(token)
    assert shared.server.count("/mine") == 0


async def test_critical_headers_are_refused(shared: TestIssuer) -> None:
    async with verifying(shared) as verifier:
        for header in ({"crit": ["exp"]}, {"b64": False}):
            token = sign(shared.keys["ES256"], shared.claims(), **header)
            assert "failed to verify id token signature" in await verifier.refusal(token)


async def test_claims_about_the_token_itself(shared: TestIssuer) -> None:
    now = time.time()
    lead = "oidc: verify token: "
    unmarshal = (
        "oidc: failed to unmarshal claims: json: cannot unmarshal {} into Go struct field "
        "idToken.{} of type {}"
    )
    async with verifying(shared) as verifier:
        for changes, told in (
            (
                {"iss": "https://evil"},
                (
                    "oidc: id token issued by a different provider, expected "
                    f'"{shared.url}" got "https://evil"'
                ),
            ),
            ({"aud": "other"}, 'oidc: expected audience "my-client" got ["other"]'),
            ({"aud": None}, 'oidc: expected audience "my-client" got []'),
            ({"aud": [5]}, unmarshal.format("number", "aud", "string")),
            ({"aud": 5}, unmarshal.format("number", "aud", "[]string")),
            ({"sub": {}}, unmarshal.format("object", "sub", "string")),
            (
                {"_claim_names": 5},
                unmarshal.format("number", "_claim_names", "map[string]string"),
            ),
            ({"_claim_names": {"a": ""}}, "oidc: failed to obtain source from claim name"),
            ({"_claim_names": {"a": "s"}}, "oidc: source does not exist"),
            ({"exp": True}, unmarshal.format("bool", "exp", "json.Number")),
            ({"iat": []}, unmarshal.format("array", "iat", "json.Number")),
            (
                {"exp": "soon"},
                (
                    "oidc: failed to unmarshal claims: json: invalid number literal, "
                    r'trying to unmarshal "\"soon\"" into Number'
                ),
            ),
            (
                {"exp": None},
                "oidc: token is expired (Token Expiry: 0001-01-01 00:00:00 +0000 UTC)",
            ),
            (
                {"exp": 1_700_000_000},
                "oidc: token is expired (Token Expiry: 2023-11-14 22:13:20 +0000 UTC)",
            ),
        ):
            assert await verifier.refusal(shared.token(**changes)) == lead + told
        told = await verifier.refusal(shared.token(nbf=now + 100))
        assert "before the nbf (not before) time" in told
        assert await verifier.name(shared.token(nbf=now + 30)) == "alice"
        assert await verifier.name(shared.token(aud=["other", AUDIENCE])) == "alice"
        assert await verifier.name(shared.token(exp=now + 1.5)) == "alice"
        assert await verifier.name(shared.token(exp=str(int(now) + 100))) == "alice"


async def test_one_of_several_audiences_is_enough(shared: TestIssuer) -> None:
    async with verifying(shared, "b", "a") as verifier:
        assert await verifier.name(shared.token(aud=["x", "a"])) == "alice"
        assert await verifier.refusal(shared.token(aud="c")) == (
            'oidc: verify token: oidc: expected audience in ["a" "b"] got ["c"]'
        )


async def test_the_proof_ends_with_the_token(shared: TestIssuer) -> None:
    end = int(time.time()) + 50
    async with verifying(shared) as verifier:
        found = await verifier.authenticator.authenticate(shared.token(exp=end), time.time())
    assert found.expires == end


@pytest.mark.parametrize(
    "token",
    [
        "",
        "a",
        "a.b.c",
        "..",
        "....",
        "e30.e30.e30",
        "{}.{}.{}",
        "\x00.\x00.\x00",
        "é.é.é",
        "W10.W10.W10",
    ],
)
async def test_garbage_is_refused(shared: TestIssuer, token: str) -> None:
    async with verifying(shared) as verifier:
        with pytest.raises(CredentialRejected):
            await verifier.authenticator.authenticate(token, time.time())
        tokens = JwtTokens(())
        tokens.replace([verifier.authenticator])
        assert await tokens.authenticate(token, (), "root", time.time()) is None


async def test_a_huge_token_costs_little(shared: TestIssuer) -> None:
    key = shared.keys["ES256"]
    async with verifying(shared) as verifier:
        assert await verifier.name(shared.token(key, junk="x" * 1_000_000)) == "alice"
        begin = time.perf_counter()
        await verifier.refusal("a." * 1_000_000)
        assert time.perf_counter() - begin < 1
        deep = json.dumps(shared.claims())[:-1] + ', "x": ' + "[" * 900 + "]" * 900 + "}"
        head = encode(json.dumps({"alg": "ES256", "kid": key.key_id}).encode())
        signed = f"{head}.{encode(deep.encode())}"
        assert await verifier.name(f"{signed}.{encode(key.sign(signed.encode()))}") == "alice"


# --- which issuer -------------------------------------------------------------


async def test_a_token_goes_to_its_issuer_and_to_no_other(shared: TestIssuer) -> None:
    async with verifying(shared) as verifier:
        tokens = JwtTokens(("api",))
        assert await tokens.authenticate(shared.token(), ("api",), "", time.time()) is None
        tokens.replace([verifier.authenticator])
        found = await tokens.authenticate(shared.token(), ("api",), "", time.time())
        assert isinstance(found, Authenticated)
        assert found.audiences == ("api",)
        assert found.is_portable
        foreign = shared.token(iss="https://other")
        assert await tokens.authenticate(foreign, ("api",), "", time.time()) is None
        assert await tokens.authenticate(shared.token(), ("else",), "", time.time()) is None
        for odd in (5, None, ["x"], {"a": 1}):
            token = shared.token(iss=odd)
            assert await tokens.authenticate(token, ("api",), "", time.time()) is None


# --- the issuer on the network ------------------------------------------------


async def test_new_keys_are_fetched_when_a_token_needs_them(issuer: TestIssuer) -> None:
    async with verifying(issuer) as verifier:
        fresh = issuer.keys["new"] = SigningKey("fresh", "ES256")
        told = await verifier.refusal(issuer.token(fresh))
        assert "failed to verify id token signature" in told, "fetched a moment ago"
        verifier.clock.now += REFRESH_PAUSE
        assert await verifier.name(issuer.token(fresh)) == "alice"
        assert issuer.server.count(KEYS) == 2


async def test_tokens_of_no_key_do_not_flood_the_issuer(issuer: TestIssuer) -> None:
    async with verifying(issuer) as verifier:
        verifier.clock.now += REFRESH_PAUSE
        bad = [issuer.token(SigningKey(f"k{i}", "ES256")) for i in range(20)]
        await asyncio.gather(*(verifier.refusal(token) for token in bad))
        for token in bad:
            await verifier.refusal(token)
        assert issuer.server.count(KEYS) == 2


async def test_a_key_that_was_withdrawn_stops_working(issuer: TestIssuer) -> None:
    async with verifying(issuer) as verifier:
        old = issuer.keys.pop("ES256")
        issuer.keys["new"] = SigningKey("new", "ES256")
        assert await verifier.name(issuer.token(old)) == "alice"
        verifier.clock.now += oidc_issuer.KEYS_MAX_AGE + 1
        assert await verifier.name(issuer.token(old)) == "alice", "the first is not made to wait"
        async with asyncio.timeout(10):
            while verifier.remote.keys[0].key_id != "new":  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        await verifier.refusal(issuer.token(old))


async def test_known_keys_stay_good_while_the_issuer_is_away(issuer: TestIssuer) -> None:
    async with verifying(issuer) as verifier:
        for broken in (b"", b"[]", b'{"keys": 5}', b"\xff\xfe", b"x" * (3 << 20)):
            issuer.server.on(KEYS, lambda _, answer=broken: answer)
            verifier.clock.now += REFRESH_PAUSE
            await verifier.refusal(issuer.token(SigningKey("unknown", "ES256")))
            assert await verifier.name(issuer.token()) == "alice"


async def test_an_issuer_that_hangs_is_waited_for_within_limits(
    issuer: TestIssuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(oidc_issuer, "WAIT_SECONDS", 0.2)

    async def hang(_: Any) -> bytes:
        await asyncio.sleep(60)
        return b""

    async with verifying(issuer) as verifier:
        issuer.server.on(KEYS, hang)
        verifier.clock.now += REFRESH_PAUSE
        begin = time.monotonic()
        unknown = issuer.token(SigningKey("unknown", "ES256"))
        slow = asyncio.create_task(verifier.refusal(unknown))
        await asyncio.sleep(0)
        assert await verifier.name(issuer.token()) == "alice"
        assert not slow.done()
        await slow
        assert time.monotonic() - begin < 5


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (b"nonsense", "oidc: failed to decode provider discovery object"),
        (b'"text"', "oidc: issuer did not match the issuer returned by provider"),
        (b'{"issuer": "https://evil"}', "oidc: issuer did not match"),
        (b'{"issuer": "ISSUER"}', "provider did not return JWKS URL"),
        (
            b'{"issuer": "ISSUER", "jwks_uri": "http://127.0.0.1/keys"}',
            "oidc: the provider's JWKS URL is not https",
        ),
    ],
)
async def test_an_issuer_that_talks_nonsense_is_not_believed(
    issuer: TestIssuer, answer: bytes, told: str, caplog: pytest.LogCaptureFixture
) -> None:
    body = answer.replace(b"ISSUER", issuer.url.encode())
    issuer.server.on(DISCOVERY, lambda _: body)
    remote = RemoteIssuer(issuer.url, "", issuer.ca)
    try:
        await remote._refresh()
        assert not remote.is_ready
        assert told in caplog.text
        authenticator = JwtAuthenticator(configured(issuer), remote)
        with pytest.raises(CredentialRejected, match="oidc: authenticator not initialized"):
            await authenticator.authenticate(issuer.token(), time.time())
    finally:
        await remote.close()


async def test_a_certificate_of_somebody_else_is_not_trusted(
    issuer: TestIssuer, shared: TestIssuer, caplog: pytest.LogCaptureFixture
) -> None:
    remote = RemoteIssuer(issuer.url, "", shared.ca)
    try:
        await remote._refresh()
        assert not remote.is_ready
        assert "CERTIFICATE_VERIFY_FAILED" in caplog.text
    finally:
        await remote.close()


async def test_discovery_may_lie_elsewhere(issuer: TestIssuer) -> None:
    url = issuer.server.on(
        "/elsewhere", lambda _: {"issuer": "https://real", "jwks_uri": issuer.url + KEYS}
    )
    remote = RemoteIssuer("https://real", url, issuer.ca)
    try:
        await remote._refresh()
        assert remote.is_ready
        assert len(remote.keys) == 1
    finally:
        await remote.close()


# --- key sets -----------------------------------------------------------------


def test_keys_of_no_use_are_left_out() -> None:
    good = SigningKey("good", "ES256").to_jwk()
    rsa = SigningKey("r", "RS256").to_jwk()
    entries: list[Any] = [
        5,
        {},
        {"kty": "oct", "k": "c2VjcmV0"},
        {"kty": ["EC"]},
        {**good, "crv": "P-999"},
        {**good, "crv": ["P-256"]},
        {**good, "x": ""},
        {**good, "x": encode(b"\x01" * 32)},  # not on the curve
        {**rsa, "n": encode(b"\xff" * 4096)},  # too large
        {**rsa, "e": encode(b"\x01")},
        {"kty": "OKP", "crv": "X25519", "x": encode(b"x" * 32)},
        {"kty": "OKP", "crv": "Ed25519", "x": "!"},
        good,
    ]
    found = parse_key_set(json.dumps({"keys": entries}).encode())
    assert [key.key_id for key in found] == ["good"]


@pytest.mark.parametrize("document", [b"", b"null", b"[]", b'{"keys": {}}', b"{}"])
def test_what_is_no_key_set_is_an_error(document: bytes) -> None:
    with pytest.raises(KeyProblem):
        parse_key_set(document)


def test_signatures_of_odd_lengths_are_false() -> None:
    key = parse_key(SigningKey("k", "ES256").to_jwk())
    for length in (0, 1, 63, 65, 128):
        assert not key.verifies("ES256", b"\0" * length, b"data")
    assert not key.verifies("ES256", base64.b64decode("AAAA"), b"data")


def test_a_token_without_a_key_id_is_tried_with_some_keys() -> None:
    """Not with as many as an issuer can publish."""
    tried: list[str] = []

    class Key(IssuerKey):
        def verifies(self, algorithm: str, signature: bytes, signed: bytes) -> bool:
            tried.append(self.key_id)
            return self.key_id == "last"

    others = [Key(str(n), frozenset(("RS256",)), None) for n in range(300)]
    last = Key("last", frozenset(("ES256",)), None)
    assert find_signer([*others, last], "", "ES256", b"", b"") is last
    assert tried == ["last"]
    assert find_signer(others, "299", "RS256", b"", b"") is None
    assert tried == ["last", "299"]
    assert find_signer(others, "", "RS256", b"", b"") is None
    assert len(tried) < 30
