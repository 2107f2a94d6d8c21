"""The public keys of an issuer (a JSON Web Key Set), and signature verification with them. Pure.

The algorithm is named by the token, so each key accepts only algorithms of its own type: an RSA
key never verifies an HMAC, an EC key only signatures of its own curve.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

import orjson

from pykcp.auth.tokens import TokenError, decode_part

if TYPE_CHECKING:
    from cryptography.hazmat.primitives import hashes

ALGORITHMS = (
    "ES256",
    "ES384",
    "ES512",
    "EdDSA",
    "PS256",
    "PS384",
    "PS512",
    "RS256",
    "RS384",
    "RS512",
)
"""Signatures that can be verified; upstream's, and EdDSA."""
_CURVES = {"P-256": "ES256", "P-384": "ES384", "P-521": "ES512"}
_RSA = frozenset(("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"))
_MAX_RSA_BITS = 8192
"""Verifying with a larger key would take milliseconds."""
_MAX_EXPONENT = 2**31 - 1
"""Go's limit; with larger ones verifying takes as long as signing."""
_MAX_KEYS = 64
_MAX_TRIES = 16
"""Keys that are tried on a token which names none."""


class KeyProblem(Exception):
    """Not a key set, or a key of no use to us."""


@dataclass(frozen=True, slots=True)
class IssuerKey:
    key_id: str
    algorithms: frozenset[str]
    key: Any

    def verifies(self, algorithm: str, signature: bytes, signed: bytes) -> bool:
        from cryptography.exceptions import InvalidSignature

        if algorithm not in self.algorithms:
            return False
        try:
            _verify(self.key, algorithm, signature, signed)
        except (InvalidSignature, ValueError):
            return False
        return True


def parse_key_set(document: bytes) -> list[IssuerKey]:
    """The usable keys of a JWKS document; others are left out. Raises KeyProblem."""
    try:
        decoded = orjson.loads(document)
    except orjson.JSONDecodeError:
        raise KeyProblem("not JSON") from None
    entries = decoded.get("keys") if isinstance(decoded, dict) else None
    if not isinstance(entries, list):
        raise KeyProblem("not a JSON Web Key Set")
    found: list[IssuerKey] = []
    for entry in entries[:_MAX_KEYS]:
        try:
            found.append(parse_key(entry))
        except KeyProblem:
            continue  # for encryption, or of a kind that signs nothing we accept
    return found


def parse_key(entry: Any) -> IssuerKey:
    """One JSON Web Key. Raises KeyProblem."""
    if not isinstance(entry, dict):
        raise KeyProblem("not an object")
    kind, key_id = entry.get("kty"), entry.get("kid")
    make = _MAKERS.get(kind) if isinstance(kind, str) else None
    if make is None:
        raise KeyProblem("unknown json web key type")
    try:
        algorithms, key = make(entry)
    except (TokenError, ValueError, TypeError) as error:
        raise KeyProblem(f"unusable {kind} key") from error
    return IssuerKey(key_id if isinstance(key_id, str) else "", algorithms, key)


def find_signer(
    keys: Sequence[IssuerKey], key_id: str, algorithm: str, signature: bytes, signed: bytes
) -> IssuerKey | None:
    """The key that made the signature; a token that names no key is tried with all."""
    named = (key for key in keys if not key_id or key.key_id == key_id)
    able = (key for key in named if algorithm in key.algorithms)
    for key in islice(able, _MAX_TRIES):
        if key.verifies(algorithm, signature, signed):
            return key
    return None


# --- kinds of keys ------------------------------------------------------------


def _number(entry: dict[str, Any], name: str) -> int:
    return int.from_bytes(_part(entry, name), "big")


def _part(entry: dict[str, Any], name: str) -> bytes:
    value = entry.get(name)
    if not isinstance(value, str) or not value:
        raise ValueError(name)
    return decode_part(value)


def _rsa(entry: dict[str, Any]) -> tuple[frozenset[str], Any]:
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicNumbers

    exponent, modulus = _number(entry, "e"), _number(entry, "n")
    if modulus.bit_length() > _MAX_RSA_BITS or exponent > _MAX_EXPONENT:
        raise ValueError("too large")
    return _RSA, RSAPublicNumbers(exponent, modulus).public_key()


def _ec(entry: dict[str, Any]) -> tuple[frozenset[str], Any]:
    from cryptography.hazmat.primitives.asymmetric import ec

    curves: dict[str, ec.EllipticCurve] = {
        "P-256": ec.SECP256R1(),
        "P-384": ec.SECP384R1(),
        "P-521": ec.SECP521R1(),
    }
    name = entry.get("crv")
    if not isinstance(name, str) or name not in curves:
        raise ValueError("crv")
    numbers = ec.EllipticCurvePublicNumbers(_number(entry, "x"), _number(entry, "y"), curves[name])
    return frozenset((_CURVES[name],)), numbers.public_key()


def _okp(entry: dict[str, Any]) -> tuple[frozenset[str], Any]:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    if entry.get("crv") != "Ed25519":
        raise ValueError("crv")
    return frozenset(("EdDSA",)), Ed25519PublicKey.from_public_bytes(_part(entry, "x"))


_MAKERS = {"RSA": _rsa, "EC": _ec, "OKP": _okp}


# --- signatures ---------------------------------------------------------------


def _hash(algorithm: str) -> hashes.HashAlgorithm:
    from cryptography.hazmat.primitives import hashes

    if algorithm.endswith("256"):
        return hashes.SHA256()
    return hashes.SHA384() if algorithm.endswith("384") else hashes.SHA512()


def _verify(key: Any, algorithm: str, signature: bytes, signed: bytes) -> None:
    """Raises InvalidSignature or ValueError."""
    from cryptography.hazmat.primitives.asymmetric import ec, padding
    from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

    if algorithm == "EdDSA":
        key.verify(signature, signed)
        return
    chosen = _hash(algorithm)
    if algorithm.startswith("RS"):
        key.verify(signature, signed, padding.PKCS1v15(), chosen)
    elif algorithm.startswith("PS"):
        # go-jose accepts any length of salt, and so do we
        scheme = padding.PSS(padding.MGF1(chosen), padding.PSS.AUTO)
        key.verify(signature, signed, scheme, chosen)
    else:
        size = (key.curve.key_size + 7) // 8
        if len(signature) != 2 * size:
            raise ValueError("length")
        r, s = (int.from_bytes(half, "big") for half in (signature[:size], signature[size:]))
        key.verify(encode_dss_signature(r, s), signed, ec.ECDSA(chosen))
