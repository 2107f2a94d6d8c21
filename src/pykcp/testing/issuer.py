"""An OpenID Connect issuer for tests: discovery, keys, and tokens of any quality."""

from __future__ import annotations

import base64
import json
import time
from typing import Any

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

from pykcp.testing.https import Answer, HTTPSServer, Received

DISCOVERY = "/.well-known/openid-configuration"
KEYS = "/keys"
AUDIENCE = "my-client"

_CURVES = {"ES256": ec.SECP256R1(), "ES384": ec.SECP384R1(), "ES512": ec.SECP521R1()}
_CURVE_NAMES = {"ES256": "P-256", "ES384": "P-384", "ES512": "P-521"}


def encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


class SigningKey:
    """A key of one algorithm, made for tests."""

    def __init__(self, key_id: str, algorithm: str) -> None:
        self.key_id, self.algorithm = key_id, algorithm
        self.key: Any
        if algorithm in _CURVES:
            self.key = ec.generate_private_key(_CURVES[algorithm])
        elif algorithm == "EdDSA":
            self.key = ed25519.Ed25519PrivateKey.generate()
        else:
            self.key = rsa.generate_private_key(65537, 2048)

    def sign(self, data: bytes) -> bytes:
        if self.algorithm == "EdDSA":
            return bytes(self.key.sign(data))
        size = self.algorithm[2:]
        chosen = {"256": hashes.SHA256(), "384": hashes.SHA384(), "512": hashes.SHA512()}[size]
        if self.algorithm.startswith("RS"):
            return bytes(self.key.sign(data, padding.PKCS1v15(), chosen))
        if self.algorithm.startswith("PS"):
            scheme = padding.PSS(padding.MGF1(chosen), padding.PSS.DIGEST_LENGTH)
            return bytes(self.key.sign(data, scheme, chosen))
        r, s = decode_dss_signature(self.key.sign(data, ec.ECDSA(chosen)))
        width = (self.key.curve.key_size + 7) // 8
        return r.to_bytes(width, "big") + s.to_bytes(width, "big")

    def to_jwk(self) -> dict[str, str]:
        public = self.key.public_key()
        head = {"use": "sig", "kid": self.key_id, "alg": self.algorithm}
        if self.algorithm == "EdDSA":
            return head | {"kty": "OKP", "crv": "Ed25519", "x": encode(public.public_bytes_raw())}
        numbers = public.public_numbers()
        if self.algorithm in _CURVES:
            width = (public.curve.key_size + 7) // 8
            x, y = (encode(n.to_bytes(width, "big")) for n in (numbers.x, numbers.y))
            return head | {"kty": "EC", "crv": _CURVE_NAMES[self.algorithm], "x": x, "y": y}
        width = (numbers.n.bit_length() + 7) // 8
        n, e = encode(numbers.n.to_bytes(width, "big")), encode(numbers.e.to_bytes(3, "big"))
        return head | {"kty": "RSA", "n": n, "e": e}


class TestIssuer:
    """An issuer on an HTTPS server of its own."""

    __test__ = False  # not a test, whatever pytest thinks of the name

    def __init__(self, *algorithms: str) -> None:
        self.server = HTTPSServer()
        self.url = self.server.url
        self.keys = {a: SigningKey(f"key-{a}", a) for a in algorithms or ("ES256",)}
        self.server.on(DISCOVERY, self._discovery)
        self.server.on(KEYS, self._key_set)

    @property
    def ca(self) -> str:
        return self.server.ca

    def close(self) -> None:
        self.server.close()

    def _discovery(self, _: Received) -> Answer:
        return {"issuer": self.url, "jwks_uri": self.url + KEYS}

    def _key_set(self, _: Received) -> Answer:
        return {"keys": [key.to_jwk() for key in self.keys.values()]}

    def claims(self, **changes: Any) -> dict[str, Any]:
        """Ordinary claims; None leaves one out."""
        now = int(time.time())
        found = {
            "iss": self.url,
            "aud": AUDIENCE,
            "sub": "alice",
            "iat": now,
            "exp": now + 600,
            **changes,
        }
        return {name: value for name, value in found.items() if value is not None}

    def token(self, key: SigningKey | None = None, **changes: Any) -> str:
        """A good token, but for the changes to its claims or its key."""
        signer = key or next(iter(self.keys.values()))
        return sign(signer, self.claims(**changes))


def sign(key: SigningKey, claims: Any, **header: Any) -> str:
    """A token with any claims; `header` changes what its header says."""
    head = {"alg": key.algorithm, "kid": key.key_id, "typ": "JWT", **header}
    parts = [encode(json.dumps(part).encode()) for part in (head, claims)]
    signed = ".".join(parts)
    return f"{signed}.{encode(key.sign(signed.encode()))}"
