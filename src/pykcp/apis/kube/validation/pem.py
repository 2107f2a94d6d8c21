"""Parsing of PEM texts, with the error messages of Go and upstream.

Shared by secrets, signing requests and webhooks' CA bundles. Errors inside the ASN.1 have a
general message: upstream's depend on the invalid byte.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterator
from typing import NamedTuple

from pykcp.machinery.status import go_quote

_BEGIN, _END, _DASHES = b"-----BEGIN ", b"-----END ", b"-----"
_CERTIFICATE = "CERTIFICATE"


class Block(NamedTuple):
    kind: str
    data: bytes
    has_headers: bool


def decoded(text: str | None) -> bytes:
    """The bytes a field of base64 stands for."""
    return base64.b64decode(text or "")


def blocks(text: bytes) -> list[Block]:
    """The blocks that can be decoded, in order; anything between them is passed over."""
    found = []
    for kind, content in _texts(text):
        lines = content.split(b"\n")
        headers = [line for line in lines if b":" in line]
        body = b"".join(line.strip() for line in lines if b":" not in line)
        try:
            data = base64.b64decode(body, validate=True)
        except binascii.Error:
            continue
        found.append(Block(kind.decode(errors="replace"), data, bool(headers)))
    return found


def _texts(text: bytes) -> Iterator[tuple[bytes, bytes]]:
    """What stands between a line that begins a block and the next one that ends any."""
    at = 0
    while (begin := _at_line_start(text, _BEGIN, at)) >= 0:
        line_end = text.find(b"\n", begin)
        if line_end < 0:
            return
        at = line_end + 1
        kind = text[begin + len(_BEGIN) : line_end].rstrip(b" \t\r")
        if not kind.endswith(_DASHES):
            continue
        end = _at_line_start(text, _END, at)
        if end < 0:
            return
        if text.startswith(kind, end + len(_END)):
            yield kind.removesuffix(_DASHES), text[at:end]
        at = end + len(_END)


def _at_line_start(text: bytes, word: bytes, at: int) -> int:
    if text.startswith(word, at) and (at == 0 or text[at - 1 : at] == b"\n"):
        return at
    found = text.find(b"\n" + word, at)
    return found + 1 if found >= 0 else -1


def certificates_error(text: bytes) -> str | None:
    """Why this is not a chain of certificates; empty is fine."""
    if not text:
        return None
    from cryptography import x509

    found = blocks(text)
    for block in found:
        if block.kind != _CERTIFICATE:
            return f"only CERTIFICATE PEM blocks are allowed, found {go_quote(block.kind)}"
        if block.has_headers:
            return "no PEM block headers are permitted"
        if not block.data:
            return "found CERTIFICATE PEM block containing 0 certificates"
        try:
            x509.load_der_x509_certificate(block.data)
        except ValueError:
            return "x509: malformed certificate"
    return None if found else "must contain at least one CERTIFICATE PEM block"


def ca_bundle_error(text: bytes) -> str | None:
    """Why this cannot be used to verify servers (any certificate among the blocks will do)."""
    from cryptography import x509

    usable = False
    for block in blocks(text):
        if block.kind != _CERTIFICATE or block.has_headers:
            continue
        try:
            x509.load_der_x509_certificate(block.data)
        except ValueError:
            return "unable to load root certificates: unable to parse bytes as PEM block"
        usable = True
    return (
        None if usable else "unable to load root certificates: unable to parse bytes as PEM block"
    )


def request_error(text: bytes) -> str | None:
    """Why this is not a certificate request signed with its own key."""
    found = blocks(text)
    if not found or found[0].kind != "CERTIFICATE REQUEST":
        return "PEM block type must be CERTIFICATE REQUEST"
    from cryptography import x509

    try:
        request = x509.load_der_x509_csr(found[0].data)
        valid = request.is_signature_valid
    except ValueError:
        return "asn1: structure error: malformed certificate request"
    return None if valid else "x509: signature verification failed"


def key_pair_error(certificate_pem: bytes, key_pem: bytes) -> str | None:
    """Why these two cannot serve TLS together."""
    certificates, skipped = _pick(certificate_pem, lambda kind: kind == _CERTIFICATE)
    if not certificates:
        return _no_certificate(skipped)
    keys, skipped = _pick(key_pem, _is_key)
    if not keys:
        return _no_key(skipped)
    return _mismatch(certificates[0], keys[0])


def _is_key(kind: str) -> bool:
    return kind == "PRIVATE KEY" or kind.endswith(" PRIVATE KEY")


def _pick(text: bytes, wanted: Callable[[str], bool]) -> tuple[list[bytes], list[str]]:
    found = blocks(text)
    chosen = [block.data for block in found if wanted(block.kind)]
    return chosen, [block.kind for block in found if not wanted(block.kind)]


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
