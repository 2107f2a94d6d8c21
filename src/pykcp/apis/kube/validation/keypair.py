"""Whether a certificate and a key belong together, in the words of Go's crypto/tls.

Only warnings come of it, so an answer in other words for exotic input does no harm.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable

_PEM = re.compile(
    rb"(?:^|\n)-----BEGIN ([^\n-]*)-----\r?\n(.*?)\n-----END \1-----", re.DOTALL
)  # fmt: skip
_CERTIFICATE = "CERTIFICATE"


def key_pair_error(certificate_pem: bytes, key_pem: bytes) -> str | None:
    """What is wrong with the pair; None if it can serve TLS."""
    certificates, skipped = _blocks(certificate_pem, _is_certificate)
    if not certificates:
        return _no_certificate(skipped)
    keys, skipped = _blocks(key_pem, _is_key)
    if not keys:
        return _no_key(skipped)
    return _mismatch(certificates[0], keys[0])


def _is_certificate(kind: str) -> bool:
    return kind == _CERTIFICATE


def _is_key(kind: str) -> bool:
    return kind == "PRIVATE KEY" or kind.endswith(" PRIVATE KEY")


def _blocks(pem: bytes, wanted: Callable[[str], bool]) -> tuple[list[bytes], list[str]]:
    """Decoded blocks of the wanted kind, and the kinds that were passed over before the first."""
    found, skipped = [], []
    for match in _PEM.finditer(pem):
        kind = match[1].decode(errors="replace")
        body = b"".join(line for line in match[2].split(b"\n") if b":" not in line)
        try:
            decoded = base64.b64decode(body, validate=False)
        except binascii.Error:
            continue
        if wanted(kind):
            found.append(decoded)
        elif not found:
            skipped.append(kind)
    return found, skipped


def _no_certificate(skipped: list[str]) -> str:
    if not skipped:
        return "tls: failed to find any PEM data in certificate input"
    if len(skipped) == 1 and skipped[0].endswith("PRIVATE KEY"):
        return (
            "tls: failed to find certificate PEM data in certificate input, but did find a "
            "private key; PEM inputs may have been switched"
        )
    return (
        'tls: failed to find "CERTIFICATE" PEM block in certificate input after skipping '
        f"PEM blocks of the following types: [{' '.join(skipped)}]"
    )


def _no_key(skipped: list[str]) -> str:
    if not skipped:
        return "tls: failed to find any PEM data in key input"
    if skipped == [_CERTIFICATE]:
        return "tls: found a certificate rather than a key in the PEM for the private key"
    return (
        'tls: failed to find PEM block with type ending in "PRIVATE KEY" in key input after '
        f"skipping PEM blocks of the following types: [{' '.join(skipped)}]"
    )


def _mismatch(certificate: bytes, key: bytes) -> str | None:
    from cryptography import x509
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.serialization import load_der_private_key

    try:
        public = x509.load_der_x509_certificate(certificate).public_key()
    except ValueError:
        return "x509: malformed certificate"
    try:
        private = load_der_private_key(key, password=None)
    except (ValueError, TypeError):
        return "tls: failed to parse private key"
    own = private.public_key()
    if type(own) is not type(public):
        return "tls: private key type does not match public key type"
    form = (serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    if own.public_bytes(*form) != public.public_bytes(*form):
        return "tls: private key does not match public key"
    return None
