"""Client certificates: whom they name and when they are refused."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID, ObjectIdentifier

from pykcp.auth import certificates
from pykcp.auth.authn.interface import CredentialRejected
from pykcp.auth.authn.x509 import CertificateVerifier, ClientCertificates
from pykcp.auth.certificates import KeyPair
from pykcp.auth.files import CredentialError

NOW = 1_800_000_000.0
Der = Callable[[KeyPair], bytes]


def authenticator(*authorities: KeyPair) -> ClientCertificates:
    return ClientCertificates(CertificateVerifier(b"".join(one.certificate for one in authorities)))


def test_common_name_and_organisations_become_the_user(client_ca: KeyPair, to_der: Der) -> None:
    pair = certificates.issue_client(client_ca, "alice", ["team-a", "team-b"], NOW)
    found = authenticator(client_ca).authenticate(to_der(pair), NOW)
    assert found is not None
    assert found.user.name == "alice"
    assert found.user.groups == ("team-a", "team-b", "system:authenticated")
    (credential,) = found.user.extra["authentication.kubernetes.io/credential-id"]
    assert credential.startswith("X509SHA256=")
    assert len(credential) == len("X509SHA256=") + 64
    assert found.expires == NOW + 365 * 86400


def test_the_same_certificate_is_the_same_user(client_ca: KeyPair, to_der: Der) -> None:
    der = to_der(certificates.issue_client(client_ca, "alice", [], NOW))
    clients = authenticator(client_ca)
    first, second = clients.authenticate(der, NOW), clients.authenticate(der, NOW + 1)
    assert first is not None
    assert second is not None
    assert first.user is second.user


def test_any_authority_of_the_bundle_will_do(client_ca: KeyPair, to_der: Der) -> None:
    other = certificates.create_ca("other", NOW)
    der = to_der(certificates.issue_client(other, "bob", [], NOW))
    found = authenticator(client_ca, other).authenticate(der, NOW)
    assert found is not None
    assert found.user.name == "bob"


def test_an_authority_with_the_same_name_but_another_key_is_another(
    client_ca: KeyPair, to_der: Der
) -> None:
    impostor = certificates.create_ca("test-client-ca", NOW)
    der = to_der(certificates.issue_client(impostor, "mallory", ["system:masters"], NOW))
    with pytest.raises(CredentialRejected, match="unknown authority"):
        authenticator(client_ca).authenticate(der, NOW)


@pytest.mark.parametrize("later", [-7200.0, 366 * 86400.0])
def test_out_of_time_is_refused_even_if_it_was_seen_in_time(
    client_ca: KeyPair, to_der: Der, later: float
) -> None:
    der = to_der(certificates.issue_client(client_ca, "alice", [], NOW))
    clients = authenticator(client_ca)
    assert clients.authenticate(der, NOW) is not None
    with pytest.raises(CredentialRejected):
        clients.authenticate(der, NOW + later)
    assert clients.authenticate(der, NOW) is not None


def test_a_serving_certificate_is_not_a_clients(client_ca: KeyPair, to_der: Der) -> None:
    der = to_der(certificates.issue_serving(client_ca, ["localhost"], NOW))
    with pytest.raises(CredentialRejected, match="incompatible key usage"):
        authenticator(client_ca).authenticate(der, NOW)


def test_garbage_is_refused(client_ca: KeyPair) -> None:
    with pytest.raises(CredentialRejected, match="malformed"):
        authenticator(client_ca).authenticate(b"garbage", NOW)


def test_a_bundle_of_no_use_is_said_at_once() -> None:
    with pytest.raises(CredentialError, match="client CA holds no usable certificate"):
        CertificateVerifier(b"nothing").check_bundle()


# --- certificates our own code would not make ---------------------------------


class Maker:
    """Certificates to order, signed by a CA of its own."""

    def __init__(self, **ca_options: Any) -> None:
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "maker")])
        options: dict[str, Any] = {
            "ca": True, "path_length": None, "sign": True, "usages": None, "constraints": None,
        }  # fmt: skip
        options.update(ca_options)
        self.ca = self._ca(self.name, self.key, self.name, self.key, **options)

    def _ca(
        self, subject: x509.Name, key: Any, issuer: x509.Name, issuer_key: Any, **options: Any
    ) -> x509.Certificate:
        builder = self._builder(subject, key, issuer)
        basic = x509.BasicConstraints(options["ca"], options["path_length"])
        builder = builder.add_extension(basic, critical=True)
        usage = certificates._key_usage(ca=options["sign"])
        builder = builder.add_extension(usage, critical=True)
        if options["usages"]:
            builder = builder.add_extension(x509.ExtendedKeyUsage(options["usages"]), False)
        if options["constraints"]:
            builder = builder.add_extension(options["constraints"], critical=True)
        return builder.sign(issuer_key, SHA256())

    def _builder(self, subject: x509.Name, key: Any, issuer: x509.Name) -> x509.CertificateBuilder:
        start = datetime.fromtimestamp(NOW, UTC) - timedelta(hours=1)
        builder = x509.CertificateBuilder(issuer, subject, key.public_key(), 1)
        return builder.not_valid_before(start).not_valid_after(start + timedelta(days=30))

    def leaf(
        self, *names: tuple[ObjectIdentifier, str], usages: Any = None, critical: Any = None
    ) -> bytes:
        subject = x509.Name([x509.NameAttribute(oid, value) for oid, value in names])
        key = ec.generate_private_key(ec.SECP256R1())
        builder = self._builder(subject, key, self.name)
        if usages is not None:
            builder = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        if critical is not None:
            builder = builder.add_extension(critical, critical=True)
        return builder.sign(self.key, SHA256()).public_bytes(Encoding.DER)

    def intermediate(self, **options: Any) -> tuple[Maker, bytes]:
        """An authority below this one, and its certificate."""
        child = Maker()
        child.name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "child")])
        defaults: dict[str, Any] = {
            "ca": True, "path_length": None, "sign": True, "usages": None, "constraints": None,
        }  # fmt: skip
        certificate = self._ca(
            child.name, child.key, self.name, self.key, **{**defaults, **options}
        )
        return child, certificate.public_bytes(Encoding.DER)

    def verifier(self) -> CertificateVerifier:
        return CertificateVerifier(self.ca.public_bytes(Encoding.PEM))

    def clients(self) -> ClientCertificates:
        return ClientCertificates(self.verifier())


CN, ORG = NameOID.COMMON_NAME, NameOID.ORGANIZATION_NAME
UID = ObjectIdentifier("1.3.6.1.4.1.57683.2")


@pytest.mark.parametrize("usages", [None, [ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE]])
def test_unrestricted_usage_includes_clients(usages: Any) -> None:
    maker = Maker()
    assert maker.clients().authenticate(maker.leaf((CN, "u"), usages=usages), NOW) is not None


def test_the_last_common_name_counts_and_the_uid_is_read() -> None:
    maker = Maker()
    der = maker.leaf((CN, "first"), (ORG, "g"), (CN, "last"), (UID, "42"))
    found = maker.clients().authenticate(der, NOW)
    assert found is not None
    assert (found.user.name, found.user.uid) == ("last", "42")


def test_a_certificate_without_a_name_is_nobodys() -> None:
    maker = Maker()
    assert maker.clients().authenticate(maker.leaf((ORG, "g")), NOW) is None


def test_two_uids_are_refused() -> None:
    maker = Maker()
    with pytest.raises(CredentialRejected, match=r"expected 1 UID, but found multiple: \[1 2\]"):
        maker.clients().authenticate(maker.leaf((CN, "u"), (UID, "1"), (UID, "2")), NOW)


def test_an_unknown_critical_extension_is_refused() -> None:
    maker = Maker()
    odd = x509.UnrecognizedExtension(ObjectIdentifier("1.2.3.4"), b"\x05\x00")
    with pytest.raises(CredentialRejected, match=r"unhandled critical extension 1\.2\.3\.4"):
        maker.clients().authenticate(maker.leaf((CN, "u"), critical=odd), NOW)


@pytest.mark.parametrize(
    "options",
    [
        {"ca": False},
        {"sign": False},
        {"usages": [ExtendedKeyUsageOID.SERVER_AUTH]},
        {"constraints": x509.NameConstraints([x509.DNSName("x")], None)},
    ],
)
def test_an_authority_that_may_not_sign_clients_is_none(options: dict[str, Any]) -> None:
    maker = Maker(**options)
    with pytest.raises(CredentialRejected, match="unknown authority"):
        maker.clients().authenticate(maker.leaf((CN, "u")), NOW)


def test_an_intermediate_counts_when_it_is_shown() -> None:
    maker = Maker()
    child, certificate = maker.intermediate()
    der = child.leaf((CN, "u"))
    verifier = maker.verifier()
    assert verifier.verify(der, NOW, [certificate]).common_name == "u"
    with pytest.raises(CredentialRejected, match="unknown authority"):
        verifier.verify(der, NOW)  # and only then


def test_the_length_of_a_path_is_respected() -> None:
    maker = Maker(path_length=0)
    child, certificate = maker.intermediate()
    with pytest.raises(CredentialRejected, match="unknown authority"):
        maker.verifier().verify(child.leaf((CN, "u")), NOW, [certificate])


def test_issuers_that_might_have_signed_each_other_are_not_all_tried() -> None:
    """Each of them for each other would be more than anybody lives to see."""
    trusted, stranger = Maker(), Maker()
    stranger.name = x509.Name([x509.NameAttribute(CN, "stranger")])
    options = {"ca": True, "path_length": None, "sign": True, "usages": None, "constraints": None}
    chain = []
    for _ in range(100):
        again = stranger._ca(stranger.name, stranger.key, stranger.name, stranger.key, **options)
        chain.append(again.public_bytes(Encoding.DER))
    assert len(set(chain)) == 100
    with pytest.raises(CredentialRejected, match="signature check attempts limit reached"):
        trusted.verifier().verify(stranger.leaf((CN, "u")), NOW, chain)
