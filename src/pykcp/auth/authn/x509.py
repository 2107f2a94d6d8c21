"""Client certificates: DER to user.

Every certificate of the CA bundle is a trust anchor, as in Go's verification, so a client
whose certificate comes from an intermediate authority is known if that authority is in the
bundle or if the connection hands over what the client sent besides its leaf (`chain`).
Anything critical that is not understood makes a certificate invalid.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pykcp.auth.authn.interface import Authenticated, CredentialRejected
from pykcp.auth.certificates import load_certificates
from pykcp.auth.files import CredentialError, read
from pykcp.auth.user import CREDENTIAL_ID_KEY, User, authenticated
from pykcp.caching import BoundedCache
from pykcp.clients.followed_files import FollowedFiles

if TYPE_CHECKING:
    from cryptography import x509

_log = logging.getLogger(__name__)

_UID_OID = "1.3.6.1.4.1.57683.2"
"""Kubernetes' own attribute for a user's uid in a subject."""
_MAX_CHAIN = 8
_MAX_CHECKS = 10
"""Signatures that are verified by certificates which the client sent: it may send any number of
issuers, each of which might have signed each other."""


@dataclass(frozen=True, slots=True)
class VerifiedCertificate:
    """A certificate that a trusted authority issued for a client."""

    common_name: str
    organisations: tuple[str, ...]
    uid: str
    fingerprint: str
    not_before: float
    not_after: float
    """The earliest end of the certificate and its issuers."""


class CertificateVerifier:
    """Verifies client certificates against one CA bundle, remembering what it has seen."""

    def __init__(self, bundle: bytes, source: str = "client CA", remember: int = 4096) -> None:
        self._bundle, self._source = bundle, source
        self._anchors: dict[bytes, list[x509.Certificate]] | None = None
        self._seen: BoundedCache[bytes, VerifiedCertificate] = BoundedCache(
            "certificates", remember
        )
        self._file = ""
        self._followed: FollowedFiles | None = None

    @classmethod
    def of_file(cls, path: str, source: str = "client CA") -> CertificateVerifier:
        """One that reads its bundle again when the file was replaced. Raises CredentialError."""
        made = cls(read(Path(path)), source)
        made._file, made._followed = path, FollowedFiles([path])
        return made

    def check_bundle(self) -> None:
        """Raise CredentialError now if the bundle is of no use, rather than at first use."""
        self._load_anchors()

    def verify(self, der: bytes, now: float, chain: Sequence[bytes] = ()) -> VerifiedCertificate:
        """Who the certificate is for. Raises Rejected."""
        followed = self._followed
        if followed is not None and followed.have_changed(now):
            self._reload(followed)
        digest = hashlib.sha256(der).digest()
        seen = self._seen.get(digest)
        if seen is not None and seen.not_before <= now <= seen.not_after:
            return seen
        verified = self._examine(der, digest, now, chain)
        if not chain:  # what a chain proved is not proved without it
            self._seen.put(digest, verified)
        return verified

    def _reload(self, followed: FollowedFiles) -> None:
        try:
            bundle = read(Path(self._file))
            anchors = _by_subject(load_certificates(bundle, self._source))
        except CredentialError as error:  # half-written: the old ones stay
            _log.warning("%s not reloaded: %s", self._source, error)
            return
        followed.were_read()
        self._bundle, self._anchors = bundle, anchors
        self._seen.clear()
        _log.info("%s %s reloaded", self._source, self._file)

    def _load_anchors(self) -> dict[bytes, list[x509.Certificate]]:
        if self._anchors is None:
            self._anchors = _by_subject(load_certificates(self._bundle, self._source))
        return self._anchors

    def _examine(
        self, der: bytes, digest: bytes, now: float, chain: Sequence[bytes]
    ) -> VerifiedCertificate:
        from cryptography import x509

        try:
            leaf = x509.load_der_x509_certificate(der)
            intermediates = _by_subject(x509.load_der_x509_certificate(one) for one in chain)
            path = _find_path(leaf, self._load_anchors(), intermediates, now)
            if path is None:
                name = leaf.subject.rfc4514_string()
                raise CredentialRejected(f"certificate signed by unknown authority: {name}")
            verified = _summary(path, digest.hex())
        except ValueError as error:
            raise CredentialRejected(f"malformed certificate: {error}") from error
        if not verified.not_before <= now <= verified.not_after:
            raise CredentialRejected(
                f"certificate of {verified.common_name!r} has expired or is not yet valid"
            )
        return verified


class ClientCertificates:
    """Users by the common name and organisations of their certificate."""

    def __init__(self, verifier: CertificateVerifier) -> None:
        self._verifier = verifier
        self._users: BoundedCache[str, User] = BoundedCache("certificate-users", 4096)

    def authenticate(
        self, der: bytes, now: float, chain: Sequence[bytes] = ()
    ) -> Authenticated | None:
        """None if the certificate has no common name. Raises Rejected."""
        certificate = self._verifier.verify(der, now, chain)
        if not certificate.common_name:
            return None
        user = self._users.get(certificate.fingerprint)
        if user is None:
            credential = f"X509SHA256={certificate.fingerprint}"
            user = authenticated(
                User(
                    certificate.common_name,
                    certificate.uid,
                    certificate.organisations,
                    {CREDENTIAL_ID_KEY: (credential,)},
                )
            )
            self._users.put(certificate.fingerprint, user)
        return Authenticated(user, expires=certificate.not_after)


# --- verification -------------------------------------------------------------


def _by_subject(certificates: Iterable[x509.Certificate]) -> dict[bytes, list[x509.Certificate]]:
    found: dict[bytes, list[x509.Certificate]] = {}
    for certificate in certificates:
        found.setdefault(certificate.subject.public_bytes(), []).append(certificate)
    return found


Certificates = dict[bytes, list["x509.Certificate"]]


def _find_path(
    leaf: x509.Certificate, anchors: Certificates, intermediates: Certificates, now: float
) -> list[x509.Certificate] | None:
    """Leaf to anchor, every link signed, in time and allowed to sign; None if there is none."""
    _check_leaf(leaf)
    checks = 0

    def is_issuer(issuer: x509.Certificate, path: list[x509.Certificate], is_anchor: bool) -> bool:
        nonlocal checks
        checks += not is_anchor
        if checks > _MAX_CHECKS:
            raise CredentialRejected(
                "x509: signature check attempts limit reached while verifying certificate chain"
            )
        return _may_issue(issuer, path, now)

    def extend(path: list[x509.Certificate]) -> list[x509.Certificate] | None:
        issuer_name = path[-1].issuer.public_bytes()
        for is_anchor, candidates in ((True, anchors), (False, intermediates)):
            for issuer in candidates.get(issuer_name, ()):
                if issuer in path or not is_issuer(issuer, path, is_anchor):
                    continue
                if is_anchor:
                    return [*path, issuer]
                longer = extend([*path, issuer]) if len(path) < _MAX_CHAIN else None
                if longer is not None:
                    return longer
        return None

    # A leaf that is itself in the bundle is trusted as it stands, as in Go.
    if leaf in anchors.get(leaf.subject.public_bytes(), ()):
        return [leaf]
    return extend([leaf])


def _check_leaf(leaf: x509.Certificate) -> None:
    from cryptography.x509.oid import ExtensionOID

    known = {
        ExtensionOID.KEY_USAGE, ExtensionOID.EXTENDED_KEY_USAGE, ExtensionOID.BASIC_CONSTRAINTS,
        ExtensionOID.SUBJECT_ALTERNATIVE_NAME, ExtensionOID.CERTIFICATE_POLICIES,
    }  # fmt: skip
    for extension in leaf.extensions:
        if extension.critical and extension.oid not in known:
            raise CredentialRejected(f"unhandled critical extension {extension.oid.dotted_string}")
    if not _allows_clients(leaf):
        raise CredentialRejected("certificate specifies an incompatible key usage")


def _allows_clients(certificate: x509.Certificate) -> bool:
    from cryptography import x509
    from cryptography.x509.oid import ExtendedKeyUsageOID

    try:
        usages = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    except x509.ExtensionNotFound:
        return True  # no restriction at all
    any_of = {ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE}
    return not any_of.isdisjoint(usages)


def _may_issue(issuer: x509.Certificate, path: list[x509.Certificate], now: float) -> bool:
    """Whether `issuer` signed the end of the path and was allowed to."""
    from cryptography import x509
    from cryptography.exceptions import InvalidSignature

    try:
        path[-1].verify_directly_issued_by(issuer)
    except (InvalidSignature, ValueError, TypeError):
        return False
    if not issuer.not_valid_before_utc.timestamp() <= now <= issuer.not_valid_after_utc.timestamp():
        return False
    extensions = issuer.extensions
    for extension in extensions:
        if extension.critical and isinstance(extension.value, x509.NameConstraints):
            return False  # not evaluated here, so not taken on trust
    try:
        constraints = extensions.get_extension_for_class(x509.BasicConstraints).value
    except x509.ExtensionNotFound:
        return False
    if not constraints.ca:
        return False
    if constraints.path_length is not None and len(path) - 1 > constraints.path_length:
        return False
    try:
        usage = extensions.get_extension_for_class(x509.KeyUsage).value
    except x509.ExtensionNotFound:
        return _allows_clients(issuer)
    return usage.key_cert_sign and _allows_clients(issuer)


def _summary(path: list[x509.Certificate], fingerprint: str) -> VerifiedCertificate:
    from cryptography.x509.oid import NameOID

    subject = path[0].subject
    names = [_text(a.value) for a in subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    groups = [_text(a.value) for a in subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)]
    return VerifiedCertificate(
        common_name=names[-1] if names else "",
        organisations=tuple(groups),
        uid=_uid(subject),
        fingerprint=fingerprint,
        not_before=max(one.not_valid_before_utc.timestamp() for one in path),
        not_after=min(one.not_valid_after_utc.timestamp() for one in path),
    )


def _uid(subject: x509.Name) -> str:
    uids = [_text(a.value) for a in subject if a.oid.dotted_string == _UID_OID]
    if not uids:
        return ""
    if len(uids) > 1:
        raise CredentialRejected(f"expected 1 UID, but found multiple: [{' '.join(uids)}]")
    if not uids[0]:
        raise CredentialRejected("UID cannot be an empty string")
    return uids[0]


def _text(value: str | bytes) -> str:
    return value if isinstance(value, str) else value.decode()
