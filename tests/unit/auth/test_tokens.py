"""Signed tokens: ours are good, all others are not."""

from __future__ import annotations

import json
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from joserfc import jws
from joserfc.jwk import ECKey, KeySet, RSAKey

from pykcp.auth import certificates
from pykcp.auth.files import CredentialError
from pykcp.auth.tokens import (
    TokenError,
    TokenSigner,
    TokenVerifier,
    VerificationKey,
    decode_part,
    encode_part,
    jwks,
    load_verification_keys,
    openid_configuration,
    unverified_claims,
)


def pem(key: Any) -> bytes:
    encoded: bytes = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return encoded


@pytest.fixture(scope="module")
def keys() -> dict[str, bytes]:
    return {
        "RS256": pem(rsa.generate_private_key(public_exponent=65537, key_size=2048)),
        "ES256": pem(ec.generate_private_key(ec.SECP256R1())),
        "ES384": pem(ec.generate_private_key(ec.SECP384R1())),
        "ES512": pem(ec.generate_private_key(ec.SECP521R1())),
    }


ALGORITHMS = ["RS256", "ES256", "ES384", "ES512"]


@pytest.fixture
def signer(keys: dict[str, bytes]) -> TokenSigner:
    return TokenSigner(keys["ES256"], "us")


@pytest.fixture
def verifier(signer: TokenSigner) -> TokenVerifier:
    return TokenVerifier([signer.verification_key])


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_what_was_signed_is_verified(keys: dict[str, bytes], algorithm: str) -> None:
    signer = TokenSigner(keys[algorithm], "us")
    token = signer.sign({"sub": "x", "iss": "them"})
    header = json.loads(decode_part(token.split(".")[0]))
    assert header == {"alg": algorithm, "kid": signer.verification_key.key_id}
    assert TokenVerifier([signer.verification_key]).verify(token) == {"sub": "x", "iss": "us"}


def test_claims_are_in_the_order_of_their_names(signer: TokenSigner) -> None:
    body = decode_part(
        signer.sign({"sub": "x", "aud": ["a"], "kubernetes.io": {"b": 1, "a": 2}}).split(".")[1]
    )
    assert body == b'{"aud":["a"],"iss":"us","kubernetes.io":{"a":2,"b":1},"sub":"x"}'


def test_a_token_without_a_key_id_is_tried_with_every_key(keys: dict[str, bytes]) -> None:
    signers = [TokenSigner(keys[name], "us") for name in ALGORITHMS]
    verifier = TokenVerifier([one.verification_key for one in signers])
    signers[1]._header = encode_part(b'{"alg":"ES256"}')
    assert verifier.verify(signers[1].sign({"a": 1}))["a"] == 1


def tampered(token: str, part: int, content: bytes) -> str:
    parts = token.split(".")
    parts[part] = encode_part(content)
    return ".".join(parts)


@pytest.mark.parametrize(
    ("part", "content", "why"),
    [
        (1, b'{"sub":"admin"}', "cryptographic"),
        (2, b"", "cryptographic"),
        (2, b"\0" * 64, "cryptographic"),
        (2, b"\0" * 63, "cryptographic"),
        (0, b'{"alg":"none"}', "cryptographic"),
        (0, b'{"alg":"HS256"}', "cryptographic"),
        (0, b'{"alg":"RS256"}', "cryptographic"),
        (0, b'{"alg":"ES256","kid":"other"}', "no keys found"),
        (0, b'{"alg":"ES256","crit":["x"]}', "critical"),
        (0, b"[]", "broken header"),
        (0, b"{", "broken header"),
    ],
)
def test_whatever_is_changed_makes_a_token_bad(
    signer: TokenSigner, verifier: TokenVerifier, part: int, content: bytes, why: str
) -> None:
    with pytest.raises(TokenError, match=why):
        verifier.verify(tampered(signer.sign({"sub": "x"}), part, content))


@pytest.mark.parametrize("token", ["", "a", "a.b", "a.b.c.d", "ü.ü.ü", "!.!.!", "a b.c.d"])
def test_what_is_no_token_at_all_is_refused(verifier: TokenVerifier, token: str) -> None:
    with pytest.raises(TokenError):
        verifier.verify(token)


def test_another_key_of_the_same_kind_is_another(
    keys: dict[str, bytes], signer: TokenSigner
) -> None:
    other = VerificationKey.of(ec.generate_private_key(ec.SECP256R1()).public_key())
    signer._header = encode_part(b'{"alg":"ES256"}')
    with pytest.raises(TokenError, match="cryptographic"):
        TokenVerifier([other]).verify(signer.sign({}))


@pytest.mark.parametrize(
    ("token", "claims"),
    [
        (f"x.{encode_part(b'{}')}.y", {}),
        (f"x.{encode_part(b'[]')}.y", None),
        (f"x.{encode_part(b'{')}.y", None),
        ("x.*.y", None),
        ("opaque", None),
    ],
)
def test_unverified_claims(token: str, claims: Any) -> None:
    assert unverified_claims(token) == claims


def test_the_documents_of_discovery(keys: dict[str, bytes]) -> None:
    held = [TokenSigner(keys[name], "us").verification_key for name in ("RS256", "ES256")]
    assert json.loads(openid_configuration("https://i", "https://i/jwks", held)) == {
        "issuer": "https://i",
        "jwks_uri": "https://i/jwks",
        "response_types_supported": ["id_token"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": ["ES256", "RS256"],
    }
    first, second = json.loads(jwks(held))["keys"]
    assert list(first) == ["use", "kty", "kid", "alg", "n", "e"]
    assert (first["kty"], first["alg"], first["e"]) == ("RSA", "RS256", "AQAB")
    assert list(second) == ["use", "kty", "kid", "crv", "alg", "x", "y"]
    assert (second["kty"], second["crv"]) == ("EC", "P-256")
    assert len(decode_part(second["x"])) == len(decode_part(second["y"])) == 32


@pytest.mark.parametrize("name", ALGORITHMS)
def test_keys_are_loaded_from_whatever_form(keys: dict[str, bytes], name: str) -> None:
    private = certificates.load_private_key(keys[name], "x")
    public = private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    expected = VerificationKey.of(private.public_key()).key_id
    for form in (keys[name], public, certificates.key_pem(private)):
        (found,) = load_verification_keys(form, "x")
        assert (found.key_id, found.algorithm) == (expected, name)


def test_a_file_may_hold_several_keys_and_certificates(keys: dict[str, bytes]) -> None:
    ca = certificates.create_ca("ca", 1_800_000_000)
    parameters = b"-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n"
    loaded = load_verification_keys(
        parameters + keys["ES256"] + keys["RS256"] + ca.certificate, "x"
    )
    assert [key.algorithm for key in loaded] == ["ES256", "RS256", "ES256"]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"nothing",
        b"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n",
        ed25519.Ed25519PrivateKey.generate()
        .public_key()
        .public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo),
        ec.generate_private_key(ec.SECP256K1())
        .public_key()
        .public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo),
    ],
)
def test_files_without_a_usable_key_are_refused(content: bytes) -> None:
    with pytest.raises(CredentialError):
        load_verification_keys(content, "sa.pub")


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_tokens_are_those_of_another_library(keys: dict[str, bytes], algorithm: str) -> None:
    """joserfc verifies our tokens with our published keys, and we verify its tokens."""
    signer = TokenSigner(keys[algorithm], "us")
    published = KeySet.import_key_set(json.loads(jwks([signer.verification_key])))
    token = signer.sign({"sub": "someone", "n": [1, {"x": "é"}]})
    found = jws.deserialize_compact(token, published, algorithms=[algorithm])
    assert found.headers() == {"alg": algorithm, "kid": signer.verification_key.key_id}
    assert json.loads(found.payload) == {"iss": "us", "sub": "someone", "n": [1, {"x": "é"}]}

    kind = RSAKey if algorithm == "RS256" else ECKey
    theirs = jws.serialize_compact(
        {"alg": algorithm, "typ": "JWT"},
        b'{"sub":"another"}',
        kind.import_key(keys[algorithm].decode()),
        algorithms=[algorithm],
    )
    assert TokenVerifier([signer.verification_key]).verify(theirs) == {"sub": "another"}
