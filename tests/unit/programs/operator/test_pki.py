"""The tree of certificates, their renewal, and authorities and keys that are replaced."""

from __future__ import annotations

import base64
import pathlib
from dataclasses import replace
from datetime import UTC, datetime

import orjson
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from tests.unit.programs.operator.objects import (
    NOW,
    again,
    configured,
    front_proxy,
    kubeconfig,
    made,
    only,
    root_shard,
    shard,
)

from pykcp.auth.authn.interface import CredentialRejected
from pykcp.auth.authn.x509 import CertificateVerifier
from pykcp.programs.operator.configuration.stage import Configuration
from pykcp.programs.operator.pki.engine import RENEW
from pykcp.programs.operator.pki.issue import issue
from pykcp.programs.operator.pki.requests import CertificateRequest
from pykcp.programs.operator.platform import HostPlatform, KubernetesPlatform
from pykcp.programs.operator.records import ConfigRecord, Records
from pykcp.types import Object

DAY = 86400.0
KUBERNETES = KubernetesPlatform()
HOST = HostPlatform("/root-directory")
ALL = (root_shard(), shard(), front_proxy(auth={"serviceAccount": {"enabled": True}}), kubeconfig())


def _leaf(out: Configuration, name: str) -> x509.Certificate:
    record = out.records.secret(name)
    assert record is not None, name
    return x509.load_pem_x509_certificate(record.data["tls.crt"])


def _names(leaf: x509.Certificate) -> list[str]:
    found = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return [*found.get_values_for_type(x509.DNSName), *map(str, found.get_values_for_type(x509.IPAddress))]  # fmt: skip


def _of(leaf: x509.Certificate, oid: x509.ObjectIdentifier) -> list[str]:
    return [str(one.value) for one in leaf.subject.get_attributes_for_oid(oid)]


def _marked(out: Configuration, name: str) -> Records:
    """The records of a run with one that a user asks to be renewed."""
    return Records(
        replace(one, annotations={**one.annotations, RENEW: "now"}) if one.name == name else one
        for one in out.records
    )


@pytest.mark.parametrize(
    ("name", "issuer", "user", "groups"),
    [
        ("root-client", "root-client-ca", "root", ["system:masters"]),
        ("alpha-client", "root-client-ca", "shard-alpha", ["system:masters"]),
        ("root-kcp-operator", "root-client-ca", "system:kcp-operator", ["system:kcp:admin"]),
        (
            "root-logical-cluster-admin",
            "root-client-ca",
            "logical-cluster-admin",
            ["system:kcp:logical-cluster-admin"],
        ),
        (
            "alpha-external-logical-cluster-admin",
            "root-client-ca",
            "external-logical-cluster-admin-shard-alpha",
            ["system:kcp:external-logical-cluster-admin"],
        ),
        ("root-frontproxy-kubeconfig", "root-client-ca", "kcp-front-proxy", ["system:masters"]),
        ("root-frontproxy-requestheader", "root-requestheader-client-ca", "kcp-front-proxy", []),
        ("root-proxy-kubeconfig", "root-client-ca", "kcp-root-shard-proxy", ["system:masters"]),
        ("root-proxy-requestheader", "root-requestheader-client-ca", "kcp-root-shard-proxy", []),
        ("alpha-mounts-proxy", "root-requestheader-client-ca", "kcp-mounts-proxy", []),
        (
            "kubeconfig-cert-admin",
            "root-client-ca",
            "kcp-admin",
            ["system:kcp:admin", "kubeconfig:admin"],
        ),
    ],
)
def test_clients_are_named_as_kcp_knows_them(
    name: str, issuer: str, user: str, groups: list[str]
) -> None:
    out = configured(*ALL, platform=KUBERNETES)
    leaf = _leaf(out, name)
    leaf.verify_directly_issued_by(_leaf(out, issuer))
    assert _of(leaf, NameOID.COMMON_NAME) == [user]
    assert _of(leaf, NameOID.ORGANIZATION_NAME) == groups
    usage = leaf.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(usage) == [ExtendedKeyUsageOID.CLIENT_AUTH]


def test_authorities_hang_below_the_root_and_last_ten_years() -> None:
    out = configured(*ALL, platform=KUBERNETES)
    top = _leaf(out, "root-ca")
    for name in ("server-ca", "client-ca", "requestheader-client-ca", "service-account-ca"):
        authority = _leaf(out, f"root-{name}")
        authority.verify_directly_issued_by(top)
        assert _of(authority, NameOID.COMMON_NAME) == [f"root-{name}"]
    assert (top.not_valid_after_utc - datetime.fromtimestamp(NOW, UTC)).days == 3650
    secret = out.records.secret("root-server-ca")
    assert secret is not None
    assert secret.data["ca.crt"] == out.records.secret("root-ca").data["tls.crt"]  # type: ignore[union-attr]
    assert secret.labels["operator.kcp.io/rootshard"] == "root"


@pytest.mark.parametrize(
    ("name", "hosts"),
    [
        ("root-server", {"root-kcp.kcp.svc.example.org", "api.example.com"}),
        ("alpha-server", {"localhost", "alpha-shard-kcp.kcp.svc.example.org"}),
        (
            "root-frontproxy-server",
            {
                "frontproxy-front-proxy",
                "frontproxy-front-proxy.kcp",
                # Not cluster.local: that of the installation.
                "frontproxy-front-proxy.kcp.svc.example.org",
                "api.example.com",
                "private.example.com",
            },
        ),
    ],
)
def test_servers_have_the_names_they_are_reached_by(name: str, hosts: set[str]) -> None:
    external = {
        "hostname": "api.example.com",
        "port": 443,
        "privateHostname": "private.example.com",
    }
    objects = (
        root_shard(clusterDomain="example.org", external=external),
        shard(clusterDomain="example.org"),
        front_proxy(),
    )
    assert hosts <= set(_names(_leaf(configured(*objects, platform=KUBERNETES), name)))


def test_on_a_host_servers_have_its_addresses() -> None:
    names = _names(_leaf(configured(*ALL, platform=HOST), "alpha-server"))
    assert {"localhost", "127.0.0.1", "::1"} <= set(names)


def test_templates_change_certificates() -> None:
    template = {
        "spec": {
            "dnsNames": ["shard.example.com"],
            "ipAddresses": ["10.0.0.1"],
            "duration": "48h",
            "privateKey": {"algorithm": "RSA", "size": 2048, "encoding": "PKCS8"},
            "subject": {"organizations": ["Example"], "countries": ["DE"]},
            "secretTemplate": {"labels": {"team": "a"}},
        },
        "metadata": {"labels": {"operator.kcp.io/shard": "mine"}},
    }
    out = configured(root_shard(), shard(certificateTemplates={"server": template}))
    leaf = _leaf(out, "alpha-server")
    assert {"shard.example.com", "10.0.0.1", "localhost"} <= set(_names(leaf))
    assert leaf.not_valid_after_utc.timestamp() == NOW + 48 * 3600
    assert isinstance(leaf.public_key(), rsa.RSAPublicKey)
    assert _of(leaf, NameOID.ORGANIZATION_NAME) == ["Example"]
    record = out.records.secret("alpha-server")
    assert record is not None
    assert record.data["tls.key"].startswith(b"-----BEGIN PRIVATE KEY-----")
    assert record.labels["team"] == "a"
    assert record.labels["operator.kcp.io/shard"] == "alpha"  # the operator's own label wins


def test_a_leaf_is_renewed_before_its_end_and_nothing_else() -> None:
    spec = {"server": {"spec": {"duration": "24h", "renewBefore": "4h"}}}
    objects = (root_shard(), shard(certificateTemplates=spec))
    out = configured(*objects, platform=HOST)
    assert out.next_time < NOW + DAY
    early = again(out, *objects, now=NOW + 3600, platform=HOST)
    assert early.records.changed == {}
    due = again(out, *objects, now=out.next_time, platform=HOST)
    assert {name for _, name in due.records.changed} == {"alpha-server"}
    before, after = only(out, "alpha-shard-kcp"), only(due, "alpha-shard-kcp")
    assert before.revision != after.revision
    # The program reads the files again by itself.
    assert before.restart_revision == after.restart_revision
    assert due.next_time > out.next_time


def test_a_leaf_is_renewed_when_asked_for_and_once() -> None:
    out = configured(*ALL, platform=HOST)
    asked = configured(*ALL, platform=HOST, records=_marked(out, "alpha-server"), now=NOW + 60)
    assert {name for _, name in asked.records.changed} == {"alpha-server"}
    assert again(asked, *ALL, now=NOW + 120, platform=HOST).records.changed == {}


def _verifies(bundle: bytes, leaf: x509.Certificate, now: float) -> bool:
    from cryptography.hazmat.primitives.serialization import Encoding

    try:
        CertificateVerifier(bundle).verify(leaf.public_bytes(Encoding.DER), now)
    except CredentialRejected:
        return False
    return True


def _clients(out: Configuration) -> bytes:
    record = out.records.secret("root-trust")
    assert record is not None
    return record.data["client-ca.crt"]


def test_an_authority_is_replaced_in_three_phases() -> None:
    """At no time is a certificate in use that is not trusted by what was published before."""
    first = configured(*ALL, platform=HOST)
    old_leaf, old_ca = _leaf(first, "alpha-client"), _leaf(first, "root-client-ca")
    asked = _marked(first, "root-client-ca")
    trusting = configured(*ALL, platform=HOST, records=asked, now=NOW + 10)
    assert _leaf(trusting, "alpha-client") == old_leaf
    assert _clients(trusting).count(b"BEGIN") == 2
    assert trusting.next_time == NOW + 10 + HOST.settle_seconds
    waiting = again(trusting, *ALL, now=NOW + 12, platform=HOST)
    assert waiting.records.changed == {}
    issuing = again(trusting, *ALL, now=trusting.next_time, platform=HOST)
    new_leaf = _leaf(issuing, "alpha-client")
    assert new_leaf != old_leaf
    assert _leaf(issuing, "root-client-ca") != old_ca
    assert _verifies(_clients(trusting), new_leaf, trusting.next_time)
    assert _verifies(_clients(issuing), old_leaf, trusting.next_time)
    # Users hold certificates of the old authority: it goes when the last of them has ended.
    late = NOW + 366 * DAY
    kept = again(issuing, *ALL, now=late - 30 * DAY, platform=HOST)
    assert _verifies(_clients(kept), old_leaf, NOW)
    done = again(issuing, *ALL, now=late + DAY, platform=HOST)
    assert not _verifies(_clients(done), old_leaf, NOW)
    assert _clients(done).count(b"BEGIN") == 1


def test_an_authority_is_replaced_in_time_by_itself() -> None:
    out = configured(*ALL, platform=HOST)
    nearly = NOW + (3650 - 29) * DAY
    due = again(out, *ALL, now=nearly, platform=HOST)
    for _ in range(6):  # the root first, then those below it
        due = again(due, *ALL, now=due.next_time, platform=HOST)
        if due.next_time > nearly + 10 * DAY:
            break
    assert due.problems == {}
    for name in ("root-ca", "root-server-ca", "root-client-ca", "alpha-server"):
        assert _leaf(due, name).not_valid_after_utc.timestamp() > NOW + 3650 * DAY, name


def test_what_hangs_below_a_new_root_keeps_its_key() -> None:
    out = configured(*ALL, platform=HOST)
    trusting = configured(*ALL, platform=HOST, records=_marked(out, "root-ca"), now=NOW + 10)
    issuing = again(trusting, *ALL, now=trusting.next_time, platform=HOST)
    before, after = _leaf(out, "root-server-ca"), _leaf(issuing, "root-server-ca")
    assert before.public_key() == after.public_key()
    after.verify_directly_issued_by(_leaf(issuing, "root-ca"))
    assert _leaf(issuing, "alpha-server") == _leaf(out, "alpha-server")


def test_keys_of_service_accounts_retire_instead_of_vanishing() -> None:
    out = configured(*ALL, platform=HOST)

    def keys(one: Configuration) -> bytes:
        workload = only(one, "frontproxy-front-proxy")
        path = next(word for word in workload.arguments if "service-account-key-file" in word)
        file = workload.file(path.partition("=")[2])
        assert file is not None
        return file.content

    def signing(one: Configuration) -> bytes:
        return one.records.secret("alpha-service-account").data["tls.key"]  # type: ignore[union-attr]

    assert keys(out).count(b"PUBLIC KEY-----\n-") + 1 == 2  # root and alpha
    asked = _marked(out, "alpha-service-account")
    published = configured(*ALL, platform=HOST, records=asked, now=NOW + 10)
    assert signing(published) == signing(out)  # the next key is known before it signs
    assert keys(published).count(b"BEGIN PUBLIC KEY") == 3
    signs = again(published, *ALL, now=published.next_time, platform=HOST)
    assert signing(signs) != signing(out)
    assert keys(signs).count(b"BEGIN PUBLIC KEY") == 3  # the old one is still accepted
    assert only(signs, "frontproxy-front-proxy").restart_revision == only(out, "frontproxy-front-proxy").restart_revision  # fmt: skip
    gone = again(signs, *ALL, now=published.next_time + 366 * DAY, platform=HOST)
    retired = orjson.loads(gone.records.secret("alpha-service-account").data["retired.json"])  # type: ignore[union-attr]
    assert retired == []


def test_bundles_for_clients_never_contain_the_root() -> None:
    """A certificate for one purpose would count for another: they all hang below that root."""
    out = configured(*ALL, platform=HOST)
    for key in ("client-ca.crt", "requestheader-client-ca.crt"):
        bundle = out.records.secret("root-trust").data[key]  # type: ignore[union-attr]
        assert _leaf(out, "root-ca") not in x509.load_pem_x509_certificates(bundle)
    proxy = _leaf(out, "root-frontproxy-requestheader")
    assert not _verifies(_clients(out), proxy, NOW)


def test_a_kubeconfig_verifies_servers_with_openssl(tmp_path: pathlib.Path) -> None:
    """OpenSSL wants the self-signed root unless it is told otherwise."""
    text = configured(*ALL, platform=HOST).records.secret("admin").data["kubeconfig"]  # type: ignore[union-attr]
    found = orjson.loads(text)
    bundle = base64.b64decode(found["clusters"][0]["cluster"]["certificate-authority-data"])
    subjects = [one for one in x509.load_pem_x509_certificates(bundle) if one.issuer == one.subject]
    assert [_of(one, NameOID.COMMON_NAME) for one in subjects] == [["root-ca"]]
    assert [one["name"] for one in found["contexts"]] == ["default", "base"]
    assert found["clusters"][0]["cluster"]["server"] == "https://api.example.com:6443/clusters/root"


def test_a_given_authority_may_have_any_name() -> None:
    given = configured(root_shard()).records.secret("root-ca")
    assert given is not None
    company = ConfigRecord("company-authority", given.data)
    ref = {"caSecretRef": {"name": "company-authority"}}
    out = configured(
        root_shard(certificates=ref),
        shard(),
        made("CacheServer", "cache", certificates=ref),
        records=Records([company]),
        platform=KUBERNETES,
    )
    assert out.problems == {}
    assert out.records.secret("root-ca") is None
    _leaf(out, "root-server-ca").verify_directly_issued_by(_leaf(out, "company-authority"))
    _leaf(out, "cache-server").verify_directly_issued_by(_leaf(out, "company-authority"))
    assert ("Secret", "company-authority") not in out.records.changed


def test_keys_are_elliptic_unless_asked_otherwise() -> None:
    out = configured(*ALL)
    assert isinstance(_leaf(out, "root-server").public_key(), ec.EllipticCurvePublicKey)


def _short_clients() -> tuple[Object, ...]:
    """An authority of 90 days, and a user whose certificate is to last a year."""
    templates = {"client-ca": {"spec": {"duration": "2160h"}}}
    return root_shard(certificateTemplates=templates), front_proxy(), kubeconfig()


@pytest.mark.parametrize("days", [0, 1, 29, 59])
def test_a_certificate_that_ends_with_its_authority_is_kept(days: int) -> None:
    first = configured(*_short_clients(), platform=KUBERNETES)
    ends = _leaf(first, "kubeconfig-cert-admin").not_valid_after_utc
    assert ends == _leaf(first, "root-client-ca").not_valid_after_utc
    now = NOW + days * DAY
    second = again(first, *_short_clients(), now=now, platform=KUBERNETES)
    assert second.records.changed == {}
    assert second.next_time > now
    (issued,) = second.made["Kubeconfig", "admin"].certificates
    assert ends.timestamp() - 34 * DAY < issued.renewal < ends.timestamp() - 7 * DAY


def test_a_certificate_that_ended_with_its_authority_is_issued_by_the_next_one() -> None:
    out = configured(*_short_clients(), platform=KUBERNETES)
    first = _leaf(out, "kubeconfig-cert-admin")
    now, passes = NOW + 61 * DAY, 0
    while out.next_time < NOW + 90 * DAY or passes == 0:
        out = again(out, *_short_clients(), now=now, platform=KUBERNETES)
        now, passes = max(out.next_time, now + 1), passes + 1
        assert passes < 100  # not once a second until the end
        if _leaf(out, "kubeconfig-cert-admin") != first:
            break
    second = _leaf(out, "kubeconfig-cert-admin")
    assert second.not_valid_after_utc > first.not_valid_after_utc
    second.verify_directly_issued_by(_leaf(out, "root-client-ca"))


@pytest.mark.parametrize("days", [0, 300, 364])
def test_certificates_of_a_given_authority_that_ends_soon_are_not_issued_in_a_loop(
    days: int,
) -> None:
    """Nothing would last longer than the authority, whatever is issued."""
    company = issue(CertificateRequest("company", is_authority=True, duration=365 * DAY), None, NOW)
    given = ConfigRecord(
        "company",
        {"tls.crt": company.certificate, "tls.key": company.key, "ca.crt": company.authority},
    )
    objects = (root_shard(certificates={"caSecretRef": {"name": "company"}}), front_proxy())
    first = configured(*objects, records=Records([given]), platform=KUBERNETES)
    assert first.problems == {}
    second = again(first, *objects, now=NOW + days * DAY, platform=KUBERNETES)
    assert second.records.changed == {}
