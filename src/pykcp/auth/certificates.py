"""Certificate authorities, serving and client certificates, and the files that hold them.

Start-up time chooses the keys: EC P-256 takes a millisecond, RSA a tenth of a second and
more. Everything is EC but the client CA, because tools that mint client certificates (kcp's
own test-suite among them) ask for a SHA256-RSA signature and cannot get one from an EC key.

The serving CA keeps its key, so that a new serving certificate (expired, or another host
name) is still trusted by kubeconfigs that were handed out before.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from pykcp.auth.files import CredentialError, read, write_private, write_public

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec, rsa

    PrivateKey = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey

SERVING_CA = "serving-ca"
CLIENT_CA = "client-ca"
REQUEST_HEADER_CA = "requestheader-ca"
SERVING = "apiserver"
SERVICE_ACCOUNT_KEY = "sa.key"

CA_LIFETIME = timedelta(days=3650)
LEAF_LIFETIME = timedelta(days=365)
RENEW_BEFORE = timedelta(days=30)
_BACKDATE = timedelta(hours=1)
"""Certificates begin in the past, for clients whose clock is behind."""

_ALWAYS_SERVED = (
    "localhost", "127.0.0.1", "::1", "kubernetes", "kubernetes.default",
    "kubernetes.default.svc", "kubernetes.default.svc.cluster.local",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A certificate (or chain, leaf first) and its private key, both PEM."""

    certificate: bytes
    key: bytes


@dataclass(frozen=True, slots=True)
class ServingFiles:
    """What a listener loads, and what its clients must trust."""

    certificate_file: Path
    key_file: Path
    ca: bytes


# --- making -------------------------------------------------------------------


def create_ca(common_name: str, now: float, *, algorithm: str = "ec") -> KeyPair:
    """A self-signed authority. `algorithm` is `ec` or `rsa`."""
    from cryptography import x509

    key = _generate_key(algorithm)
    start = _moment(now) - _BACKDATE
    subject = _name(common_name)
    builder = _builder(subject, subject, key, start, start + CA_LIFETIME)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    builder = builder.add_extension(_key_usage(ca=True), critical=True)
    return KeyPair(_certificate_pem(_sign(builder, key)), key_pem(key))


def issue_serving(ca: KeyPair, hosts: Sequence[str], now: float) -> KeyPair:
    """A server's certificate for these names and addresses, with its issuer appended."""
    from cryptography import x509
    from cryptography.x509.oid import ExtendedKeyUsageOID

    issuer, issuer_key = _load_pair(ca)
    key = _generate_key("ec")
    start = _moment(now) - _BACKDATE
    end = min(start + LEAF_LIFETIME, issuer.not_valid_after_utc)
    builder = _builder(_name(f"{hosts[0]}@{int(now)}"), issuer.subject, key, start, end)
    builder = _leaf_extensions(builder, issuer, ExtendedKeyUsageOID.SERVER_AUTH)
    names = x509.SubjectAlternativeName([_general_name(host) for host in hosts])
    builder = builder.add_extension(names, critical=False)
    leaf = _certificate_pem(_sign(builder, issuer_key))
    return KeyPair(leaf + ca.certificate, key_pem(key))


def issue_client(
    ca: KeyPair,
    user: str,
    groups: Sequence[str],
    now: float,
    lifetime: timedelta = LEAF_LIFETIME,
) -> KeyPair:
    """A client's certificate: the user is its common name, the groups its organisations."""
    from cryptography.x509.oid import ExtendedKeyUsageOID

    issuer, issuer_key = _load_pair(ca)
    key = _generate_key("ec")
    start = _moment(now) - _BACKDATE
    end = _moment(now) + lifetime
    builder = _builder(_name(user, groups), issuer.subject, key, start, end)
    builder = _leaf_extensions(builder, issuer, ExtendedKeyUsageOID.CLIENT_AUTH)
    return KeyPair(_certificate_pem(_sign(builder, issuer_key)), key_pem(key))


def serving_hosts(*wanted: str) -> tuple[str, ...]:
    """Names and addresses for a serving certificate: those wanted, then the usual ones.

    Unspecified addresses (`0.0.0.0`, `::`) are where a server listens, not where it is found.
    """
    named = [host.strip("[]") for host in wanted if host]
    return tuple(dict.fromkeys((*filter(_is_findable, named), *_ALWAYS_SERVED)))


def _is_findable(host: str) -> bool:
    address = _address(host)
    return address is None or not address.is_unspecified


# --- files --------------------------------------------------------------------


def ensure_ca(
    directory: Path, name: str, now: float, *, algorithm: str = "ec", common_name: str = ""
) -> KeyPair:
    """The authority in `<name>.crt` and `<name>.key`, created if there is none."""
    pair = _read_pair(directory, name)
    if pair is not None:
        _refuse_expired(directory / f"{name}.crt", pair, now)
        return pair
    pair = create_ca(common_name or _ca_name(name), now, algorithm=algorithm)
    _write_pair(directory, name, pair)
    return pair


def _ca_name(name: str) -> str:
    return f"kcp-{name}"


def ensure_client_ca(directory: Path, now: float) -> KeyPair:
    """`client-ca.crt` and `client-ca.key`; RSA, for tools that sign with it (see above)."""
    return ensure_ca(directory, CLIENT_CA, now, algorithm="rsa")


def ensure_serving(directory: Path, hosts: Sequence[str], now: float) -> ServingFiles:
    """`apiserver.crt` and `apiserver.key`, renewed when due or when they lack a host.

    Files that the operator put there are used as they are, and clients trust that certificate.
    """
    certificate_file, key_file = directory / f"{SERVING}.crt", directory / f"{SERVING}.key"
    pair = _read_pair(directory, SERVING)
    if pair is not None and not _is_generated(directory, pair):
        return ServingFiles(certificate_file, key_file, pair.certificate)
    ca = ensure_ca(directory, SERVING_CA, now)
    if pair is None or not _still_serves(pair, ca, hosts, now):
        _write_pair(directory, SERVING, issue_serving(ca, hosts, now))
    return ServingFiles(certificate_file, key_file, ca.certificate)


def _is_generated(directory: Path, pair: KeyPair) -> bool:
    """Whether a serving certificate was issued here, by this authority or one that is gone."""
    leaf = load_certificates(pair.certificate, SERVING)[0]
    authority = _read_pair(directory, SERVING_CA)
    if authority is None:
        return leaf.issuer.rfc4514_string() == f"CN={_ca_name(SERVING_CA)}"
    issuer = load_certificates(authority.certificate, SERVING_CA)[0]
    return leaf.issuer == issuer.subject


def ensure_signing_key(path: Path) -> bytes:
    """The private key that signs service-account tokens (PEM), created if absent."""
    if path.exists():
        content = read(path)
        load_private_key(content, str(path))
        return content
    content = key_pem(_generate_key("ec"))
    write_private(path, content)
    return content


def _read_pair(directory: Path, name: str) -> KeyPair | None:
    certificate_file, key_file = directory / f"{name}.crt", directory / f"{name}.key"
    present = [path.exists() for path in (certificate_file, key_file)]
    if not any(present):
        return None
    if not all(present):
        here, gone = (certificate_file, key_file) if present[0] else (key_file, certificate_file)
        raise CredentialError(f"{here} exists but {gone} does not: restore it or remove both")
    pair = KeyPair(read(certificate_file), read(key_file))
    try:
        certificate, key = _load_pair(pair)
    except ValueError as error:
        raise CredentialError(f"cannot use {certificate_file} and its key: {error}") from error
    if certificate.public_key() != key.public_key():
        raise CredentialError(f"{key_file} is not the key of {certificate_file}")
    return pair


def _write_pair(directory: Path, name: str, pair: KeyPair) -> None:
    write_private(directory / f"{name}.key", pair.key)
    write_public(directory / f"{name}.crt", pair.certificate)


def _refuse_expired(path: Path, pair: KeyPair, now: float) -> None:
    # A new CA would silently break all clients that trust the old one.
    end = load_certificates(pair.certificate, str(path))[0].not_valid_after_utc
    if end <= _moment(now):
        raise CredentialError(f"{path} expired on {end:%Y-%m-%d}: replace it, or remove it")


def _still_serves(pair: KeyPair, ca: KeyPair, hosts: Sequence[str], now: float) -> bool:
    issuer = load_certificates(ca.certificate, SERVING_CA)[0]
    leaf = load_certificates(pair.certificate, SERVING)[0]
    if leaf.not_valid_after_utc - RENEW_BEFORE <= _moment(now):
        return False
    try:
        leaf.verify_directly_issued_by(issuer)
    except Exception:
        return False
    return {_normal(host) for host in hosts} <= set(certificate_hosts(leaf))


def certificate_hosts(certificate: x509.Certificate) -> list[str]:
    """The names and addresses a certificate is for."""
    from cryptography import x509

    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return []
    addresses = [str(address) for address in names.get_values_for_type(x509.IPAddress)]
    return [*names.get_values_for_type(x509.DNSName), *addresses]


# --- loading ------------------------------------------------------------------


def load_certificates(pem: bytes, source: str) -> list[x509.Certificate]:
    """All certificates of a PEM bundle; at least one."""
    from cryptography import x509

    try:
        return x509.load_pem_x509_certificates(pem)
    except ValueError as error:
        raise CredentialError(f"{source} holds no usable certificate: {error}") from error


def load_private_key(pem: bytes, source: str) -> PrivateKey:
    """An RSA or EC private key in any of the usual PEM forms, not encrypted."""
    from cryptography.hazmat.primitives.asymmetric import ec, rsa
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        # Proving an RSA key sound takes 50 ms, and the files are the operator's own.
        key = load_pem_private_key(pem, None, unsafe_skip_rsa_key_validation=True)
    except (ValueError, TypeError) as error:
        raise CredentialError(f"{source} holds no usable private key: {error}") from error
    if not isinstance(key, (ec.EllipticCurvePrivateKey, rsa.RSAPrivateKey)):
        raise CredentialError(f"{source}: only RSA and ECDSA keys are supported")
    return key


def key_pem(key: PrivateKey) -> bytes:
    """In the traditional form (`EC PRIVATE KEY`), which every tool of the field reads."""
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        NoEncryption,
        PrivateFormat,
    )

    return key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())


def _load_pair(pair: KeyPair) -> tuple[x509.Certificate, PrivateKey]:
    certificate = load_certificates(pair.certificate, "certificate")[0]
    return certificate, load_private_key(pair.key, "key")


# --- pieces -------------------------------------------------------------------


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(int(seconds), UTC)


def _generate_key(algorithm: str) -> PrivateKey:
    from cryptography.hazmat.primitives.asymmetric import ec, rsa

    if algorithm == "rsa":
        return rsa.generate_private_key(public_exponent=65537, key_size=2048)
    return ec.generate_private_key(ec.SECP256R1())


def _name(common_name: str, organisations: Iterable[str] = ()) -> x509.Name:
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    groups = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in organisations]
    return x509.Name([*groups, x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: PrivateKey, start: datetime, end: datetime
) -> x509.CertificateBuilder:
    from cryptography import x509

    builder = x509.CertificateBuilder(issuer, subject, key.public_key())
    builder = builder.serial_number(x509.random_serial_number())
    builder = builder.not_valid_before(start).not_valid_after(end)
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    return builder.add_extension(identifier, critical=False)


def _leaf_extensions(
    builder: x509.CertificateBuilder, issuer: x509.Certificate, usage: x509.ObjectIdentifier
) -> x509.CertificateBuilder:
    from cryptography import x509

    builder = builder.add_extension(_key_usage(ca=False), critical=True)
    builder = builder.add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
    builder = builder.add_extension(
        x509.BasicConstraints(ca=False, path_length=None), critical=True
    )
    identifier = issuer.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    authority = x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier)
    return builder.add_extension(authority, critical=False)


def _key_usage(*, ca: bool) -> x509.KeyUsage:
    from cryptography import x509

    return x509.KeyUsage(
        digital_signature=True,
        key_encipherment=True,
        key_cert_sign=ca,
        crl_sign=False,
        content_commitment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _sign(builder: x509.CertificateBuilder, key: PrivateKey) -> x509.Certificate:
    from cryptography.hazmat.primitives.hashes import SHA256

    return builder.sign(key, SHA256())


def _certificate_pem(certificate: x509.Certificate) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding

    return certificate.public_bytes(Encoding.PEM)


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _normal(host: str) -> str:
    address = _address(host)
    return host if address is None else str(address)


def _general_name(host: str) -> x509.GeneralName:
    from cryptography import x509

    address = _address(host)
    return x509.DNSName(host) if address is None else x509.IPAddress(address)
