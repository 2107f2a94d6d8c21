"""Signed tokens (JWT), and the OpenID documents with which other servers verify them.

Built on `cryptography` alone: docs/design/libraries.md compares it with JWT libraries. The
algorithm is determined by the key and never by the token.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from pykcp.auth.certificates import load_private_key
from pykcp.auth.files import CredentialError, read
from pykcp.clients.followed_files import FollowedFiles

if TYPE_CHECKING:
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec, rsa

    PublicKey = ec.EllipticCurvePublicKey | rsa.RSAPublicKey

_log = logging.getLogger(__name__)

OPENID_CONFIGURATION_PATH = "/.well-known/openid-configuration"
JWKS_PATH = "/openid/v1/jwks"
JWKS_MEDIA_TYPE = "application/jwk-set+json"
METADATA_MAX_AGE = 3600
"""Seconds for which clients may keep the two documents (`Cache-Control`)."""

MAX_TOKEN = 256 * 1024
"""Characters of the longest token that is looked at."""

Claims = dict[str, Any]


class TokenError(Exception):
    """Not a JWT, or not issued by this server."""


def encode_part(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def decode_part(text: str) -> bytes:
    try:
        padding = "=" * (-len(text) % 4)
        return base64.b64decode(text + padding, altchars=b"-_", validate=True)
    except (binascii.Error, ValueError) as error:
        raise TokenError("token is not base64url") from error


def unverified_claims(token: str) -> Claims | None:
    """What a token claims, for choosing who shall verify it; None if it is no JWT."""
    parts = token.split(".", 3)
    if len(parts) != 3 or len(token) > MAX_TOKEN:
        return None
    try:
        claims = orjson.loads(decode_part(parts[1]))
    except (TokenError, orjson.JSONDecodeError):
        return None
    return claims if isinstance(claims, dict) else None


# --- keys ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class VerificationKey:
    """A public key, how it is called, and what it verifies."""

    key_id: str
    algorithm: str
    key: PublicKey

    @classmethod
    def of(cls, key: PublicKey) -> VerificationKey:
        from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

        der = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        return cls(encode_part(hashlib.sha256(der).digest()), _algorithm(key), key)

    def verifies(self, signature: bytes, signed: bytes) -> bool:
        from cryptography.exceptions import InvalidSignature

        try:
            _verify(self.key, self.algorithm, signature, signed)
        except InvalidSignature:
            return False
        return True

    def to_jwk(self) -> dict[str, str]:
        from cryptography.hazmat.primitives.asymmetric import rsa

        head = {"use": "sig", "kty": "RSA", "kid": self.key_id}
        if isinstance(self.key, rsa.RSAPublicKey):
            numbers = self.key.public_numbers()
            more = {"alg": self.algorithm, "n": _integer(numbers.n), "e": _integer(numbers.e)}
            return head | more
        point = self.key.public_numbers()
        size = (self.key.curve.key_size + 7) // 8
        curve = {"ES256": "P-256", "ES384": "P-384", "ES512": "P-521"}[self.algorithm]
        more = {"crv": curve, "alg": self.algorithm}
        more |= {"x": _integer(point.x, size), "y": _integer(point.y, size)}
        return head | {"kty": "EC"} | more


def load_verification_keys(pem: bytes, source: str) -> list[VerificationKey]:
    """Public keys, private keys or certificates, any number of them in one file."""
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    found: list[VerificationKey] = []
    for block in _pem_blocks(pem):
        try:
            if b"PRIVATE KEY" in block:
                key: Any = load_private_key(block, source).public_key()
            elif b"BEGIN CERTIFICATE" in block:
                key = x509.load_pem_x509_certificate(block).public_key()
            else:
                key = load_pem_public_key(block)
            found.append(VerificationKey.of(key))
        except ValueError as error:
            raise CredentialError(f"{source} holds an unusable key: {error}") from error
    if not found:
        raise CredentialError(f"{source} holds no public or private key")
    return found


def _pem_blocks(pem: bytes) -> Iterable[bytes]:
    begin = b"-----BEGIN "
    for block in pem.split(begin)[1:]:
        if not block.startswith(b"EC PARAMETERS"):  # openssl puts them in front of EC keys
            yield begin + block


# --- signing and verifying ----------------------------------------------------


class TokenSigner:
    """Issues tokens in the name of one issuer."""

    def __init__(
        self, key_pem: bytes, issuer: str, source: str = "signing key", file: str = ""
    ) -> None:
        """`file`: where the key is read again when it was replaced."""
        self.issuer = issuer
        self._file, self._followed = file, FollowedFiles([file]) if file else None
        self._use(key_pem, source)

    def _use(self, key_pem: bytes, source: str) -> None:
        self._key = load_private_key(key_pem, source)
        self.verification_key = VerificationKey.of(self._key.public_key())
        header = {"alg": self.verification_key.algorithm, "kid": self.verification_key.key_id}
        self._header = encode_part(orjson.dumps(header))

    def _follow(self, followed: FollowedFiles) -> None:
        try:
            self._use(read(Path(self._file)), self._file)
        except CredentialError as error:  # half-written: the old one stays
            _log.warning("signing key not reloaded: %s", error)
        else:
            followed.were_read()
            _log.info("signing key %s reloaded", self._file)

    def sign(self, claims: Mapping[str, Any]) -> str:
        """A token with these claims, issued by us whatever they say."""
        followed = self._followed
        if followed is not None and followed.have_changed(time.monotonic()):
            self._follow(followed)
        body = orjson.dumps({**claims, "iss": self.issuer}, option=orjson.OPT_SORT_KEYS)
        signed = f"{self._header}.{encode_part(body)}"
        signature = _sign(self._key, self.verification_key.algorithm, signed.encode())
        return f"{signed}.{encode_part(signature)}"


class TokenVerifier:
    """Verifies tokens against a set of keys."""

    def __init__(self, keys: Sequence[VerificationKey]) -> None:
        self._files: tuple[str, ...] = ()
        self._followed: FollowedFiles | None = None
        self._use(keys)

    def _use(self, keys: Sequence[VerificationKey]) -> None:
        self._keys = tuple(keys)
        self._by_id: dict[str, list[VerificationKey]] = {}
        for key in keys:
            self._by_id.setdefault(key.key_id, []).append(key)

    @classmethod
    def of_files(cls, files: Sequence[str]) -> TokenVerifier:
        """One that reads its keys again when a file was replaced. Raises CredentialError."""
        made = cls(_keys_in(files))
        made._files, made._followed = tuple(files), FollowedFiles(files)
        return made

    @property
    def keys(self) -> tuple[VerificationKey, ...]:
        followed = self._followed
        if followed is not None and followed.have_changed(time.monotonic()):
            try:
                self._use(_keys_in(self._files))
            except CredentialError as error:  # half-written: the old ones stay
                _log.warning("keys of service accounts not reloaded: %s", error)
            else:
                followed.were_read()
                _log.info("keys of service accounts reloaded, there are %d", len(self._keys))
        return self._keys

    def verify(self, token: str) -> Claims:
        """The claims of a token one of our keys signed. Raises TokenError."""
        known = self.keys
        parts = token.split(".")
        if len(parts) != 3:
            raise TokenError("token is not a JWS in compact form")
        header = _json_object(parts[0], "header")
        if "crit" in header:
            raise TokenError("token has critical headers")
        key_id = header.get("kid")
        keys = self._by_id.get(key_id, []) if key_id else list(known)
        if not keys:
            raise TokenError("invalid signature, no keys found")
        signature, signed = decode_part(parts[2]), f"{parts[0]}.{parts[1]}".encode()
        for key in keys:
            if header.get("alg") == key.algorithm and key.verifies(signature, signed):
                return _json_object(parts[1], "claims")
        raise TokenError("go-jose/go-jose: error in cryptographic primitive")  # what clients know


def _keys_in(files: Sequence[str]) -> list[VerificationKey]:
    """The keys of all files, each once."""
    found = [key for file in files for key in load_verification_keys(read(Path(file)), file)]
    return list({key.key_id: key for key in found}.values())


def _json_object(part: str, what: str) -> Claims:
    try:
        decoded = orjson.loads(decode_part(part))
    except orjson.JSONDecodeError as error:
        raise TokenError(f"token has a broken {what}") from error
    if not isinstance(decoded, dict):
        raise TokenError(f"token has a broken {what}")
    return decoded


# --- OpenID discovery ---------------------------------------------------------


def openid_configuration(issuer: str, jwks_uri: str, keys: Sequence[VerificationKey]) -> bytes:
    """The discovery document of our issuer."""
    return orjson.dumps(
        {
            "issuer": issuer,
            "jwks_uri": jwks_uri,
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": sorted({key.algorithm for key in keys}),
        }
    )


def jwks(keys: Sequence[VerificationKey]) -> bytes:
    """The public keys, for verification of tokens by other parties."""
    return orjson.dumps({"keys": [key.to_jwk() for key in keys]})


# --- primitives ---------------------------------------------------------------


def _algorithm(key: object) -> str:
    from cryptography.hazmat.primitives.asymmetric import ec, rsa

    if isinstance(key, rsa.RSAPublicKey):
        return "RS256"
    curves = {"secp256r1": "ES256", "secp384r1": "ES384", "secp521r1": "ES512"}
    algorithm = curves.get(key.curve.name) if isinstance(key, ec.EllipticCurvePublicKey) else None
    if algorithm is None:
        raise CredentialError("unknown key, must be RSA or on the curves P-256, P-384 or P-521")
    return algorithm


def _hash(algorithm: str) -> hashes.HashAlgorithm:
    from cryptography.hazmat.primitives import hashes

    if algorithm == "ES384":
        return hashes.SHA384()
    return hashes.SHA512() if algorithm == "ES512" else hashes.SHA256()


def _sign(key: Any, algorithm: str, data: bytes) -> bytes:
    from cryptography.hazmat.primitives.asymmetric import ec, padding
    from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

    if algorithm == "RS256":
        signature: bytes = key.sign(data, padding.PKCS1v15(), _hash(algorithm))
        return signature
    r, s = decode_dss_signature(key.sign(data, ec.ECDSA(_hash(algorithm))))
    size = (key.curve.key_size + 7) // 8
    return r.to_bytes(size, "big") + s.to_bytes(size, "big")


def _verify(key: Any, algorithm: str, signature: bytes, data: bytes) -> None:
    """Raises InvalidSignature."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric import ec, padding
    from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

    if algorithm == "RS256":
        key.verify(signature, data, padding.PKCS1v15(), _hash(algorithm))
        return
    size = (key.curve.key_size + 7) // 8
    if len(signature) != 2 * size:
        raise InvalidSignature
    r, s = (int.from_bytes(half, "big") for half in (signature[:size], signature[size:]))
    key.verify(encode_dss_signature(r, s), data, ec.ECDSA(_hash(algorithm)))


def _integer(value: int, size: int = 0) -> str:
    return encode_part(value.to_bytes(size or (value.bit_length() + 7) // 8, "big"))
