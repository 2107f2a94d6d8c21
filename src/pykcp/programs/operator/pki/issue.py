"""Makes keys and signs certificates."""

from __future__ import annotations

import ipaddress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from pykcp.auth.certificates import load_certificates
from pykcp.auth.files import CredentialError
from pykcp.programs.operator.pki.requests import (
    CLIENT_AUTH,
    SERVER_AUTH,
    CertificateRequest,
    KeyForm,
)

if TYPE_CHECKING:
    from cryptography import x509

_BACKDATE = timedelta(minutes=5)
"""Certificates begin in the past, for servers whose clock is behind."""
_RSA_SIZE = 2048


class SignedPair(NamedTuple):
    """A certificate with what leads to its root, and its key; all PEM."""

    certificate: bytes
    """The leaf first, then intermediates, without a self-signed root."""
    key: bytes
    authority: bytes
    """The self-signed root, or the highest certificate that is known."""


class SigningAuthority(NamedTuple):
    """What signs: the PEM of an authority's Secret."""

    certificate: bytes
    key: bytes
    authority: bytes = b""

    def leaf(self) -> x509.Certificate:
        return load_certificates(self.certificate, "authority")[0]


def issue(
    request: CertificateRequest,
    signer: SigningAuthority | None,
    now: float,
    key: bytes | None = None,
) -> SignedPair:
    """A certificate by this authority, or one that signs itself; `key`: one to keep."""
    from cryptography import x509

    private = load_key(key, request.name) if key else make_key(request.key)
    issuer = signer.leaf() if signer is not None else None
    subject = _subject(request)
    start = datetime.fromtimestamp(int(now), UTC)
    end = end_of(request, signer, now)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer.subject if issuer is not None else subject)
        .public_key(private.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(start - _BACKDATE)
        .not_valid_after(end)
    )
    for extension, critical in _extensions(request, private.public_key(), issuer):
        builder = builder.add_extension(extension, critical=critical)
    signing = load_key(signer.key, request.issuer) if signer is not None else private
    made = certificate_pem(builder.sign(signing, _hash(signing)))
    written = key or key_text(private, request.key)
    if signer is None:
        return SignedPair(made, written, made)
    above = b"".join(certificate_pem(one) for one in _without_roots(signer.certificate))
    return SignedPair(made + above, written, signer.authority or _highest(signer.certificate))


def end_of(request: CertificateRequest, signer: SigningAuthority | None, now: float) -> datetime:
    """When a certificate that is issued now ends: not after the authority."""
    end = datetime.fromtimestamp(int(now), UTC) + timedelta(seconds=request.duration)
    return end if signer is None else min(end, signer.leaf().not_valid_after_utc)


def lifetime(certificate: x509.Certificate) -> float:
    """For how many seconds a certificate that was made here was issued."""
    return (certificate.not_valid_after_utc - certificate.not_valid_before_utc - _BACKDATE).total_seconds()  # fmt: skip


def _without_roots(chain: bytes) -> list[x509.Certificate]:
    return [one for one in load_certificates(chain, "chain") if one.issuer != one.subject]


def _highest(chain: bytes) -> bytes:
    return certificate_pem(load_certificates(chain, "chain")[-1])


def is_self_signed(pem: bytes) -> bool:
    first = load_certificates(pem, "certificate")[0]
    return first.issuer == first.subject


def first_certificate(pem: bytes) -> bytes:
    """The first certificate of a bundle, PEM."""
    return certificate_pem(load_certificates(pem, "certificate")[0])


def make_key(form: KeyForm) -> Any:
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

    if form.algorithm == "RSA":
        return rsa.generate_private_key(public_exponent=65537, key_size=form.size or _RSA_SIZE)
    if form.algorithm == "Ed25519":
        return ed25519.Ed25519PrivateKey.generate()
    curves = {384: ec.SECP384R1(), 521: ec.SECP521R1()}
    return ec.generate_private_key(curves.get(form.size, ec.SECP256R1()))


def load_key(pem: bytes, source: str) -> Any:
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        return load_pem_private_key(pem, None, unsafe_skip_rsa_key_validation=True)
    except (ValueError, TypeError) as error:
        raise CredentialError(f"{source} holds no usable private key: {error}") from error


def key_text(key: Any, form: KeyForm) -> bytes:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    is_new = form.encoding == "PKCS8" or isinstance(key, Ed25519PrivateKey)
    chosen = PrivateFormat.PKCS8 if is_new else PrivateFormat.TraditionalOpenSSL
    return bytes(key.private_bytes(Encoding.PEM, chosen, NoEncryption()))


def public_key(pem: bytes) -> bytes:
    """The public key of a certificate, PEM."""
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    key = load_certificates(pem, "certificate")[0].public_key()
    return key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def _subject(request: CertificateRequest) -> x509.Name:
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    parts = [(NameOID.ORGANIZATION_NAME, request.organizations)]
    for name, oid in (
        ("countries", NameOID.COUNTRY_NAME),
        ("organizationalUnits", NameOID.ORGANIZATIONAL_UNIT_NAME),
        ("localities", NameOID.LOCALITY_NAME),
        ("provinces", NameOID.STATE_OR_PROVINCE_NAME),
        ("streetAddresses", NameOID.STREET_ADDRESS),
        ("postalCodes", NameOID.POSTAL_CODE),
    ):
        parts.append((oid, request.subject.get(name, ())))
    parts.append((NameOID.SERIAL_NUMBER, (request.serial_number,) if request.serial_number else ()))
    parts.append((NameOID.COMMON_NAME, (request.common_name,) if request.common_name else ()))
    return x509.Name([x509.NameAttribute(oid, value) for oid, values in parts for value in values])


def _extensions(
    request: CertificateRequest, key: Any, issuer: x509.Certificate | None
) -> list[tuple[x509.ExtensionType, bool]]:
    from cryptography import x509
    from cryptography.x509.oid import ExtendedKeyUsageOID

    identifier = x509.SubjectKeyIdentifier.from_public_key(key)
    made: list[tuple[x509.ExtensionType, bool]] = [
        (identifier, False),
        (x509.BasicConstraints(ca=request.is_authority, path_length=None), True),
        (_key_usage(request), True),
    ]
    purposes = {
        SERVER_AUTH: ExtendedKeyUsageOID.SERVER_AUTH,
        CLIENT_AUTH: ExtendedKeyUsageOID.CLIENT_AUTH,
    }
    if usages := [purposes[one] for one in request.usages]:
        made.append((x509.ExtendedKeyUsage(usages), False))
    if names := _names(request):
        # RFC 5280: critical if the subject is empty.
        is_only_name = not (request.common_name or request.organizations)
        made.append((x509.SubjectAlternativeName(names), is_only_name))
    if issuer is not None:
        found = issuer.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
        made.append((x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(found), False))
    return made


def _names(request: CertificateRequest) -> list[x509.GeneralName]:
    from cryptography import x509

    names: list[x509.GeneralName] = [x509.DNSName(name) for name in request.dns_names]
    names += [x509.IPAddress(ipaddress.ip_address(one)) for one in request.addresses]
    return names


def _key_usage(request: CertificateRequest) -> x509.KeyUsage:
    from cryptography import x509

    return x509.KeyUsage(
        digital_signature=True,
        key_encipherment=request.key.algorithm == "RSA" or not request.is_authority,
        key_cert_sign=request.is_authority,
        crl_sign=request.is_authority,
        content_commitment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _hash(key: Any) -> Any:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.hashes import SHA256

    return None if isinstance(key, Ed25519PrivateKey) else SHA256()


def certificate_pem(certificate: x509.Certificate) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding

    return certificate.public_bytes(Encoding.PEM)
