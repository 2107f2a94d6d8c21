"""Certificates and the files they live in."""

from __future__ import annotations

import ssl
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from pykcp.auth import certificates
from pykcp.auth.files import CredentialError

NOW = 1_800_000_000.0
YEAR = 365 * 86400.0


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def leaf_hosts(directory: Path) -> list[str]:
    pem = (directory / "apiserver.crt").read_bytes()
    return certificates.certificate_hosts(certificates.load_certificates(pem, "x")[0])


def test_a_first_start_makes_what_a_listener_needs(tmp_path: Path) -> None:
    root = tmp_path / ".kcp"
    hosts = certificates.serving_hosts("example.test", "10.0.0.1", "0.0.0.0", "[::]", "")
    files = certificates.ensure_serving(root, hosts, NOW)
    assert sorted(path.name for path in root.iterdir()) == [
        "apiserver.crt", "apiserver.key", "serving-ca.crt", "serving-ca.key",
    ]  # fmt: skip
    assert mode(root) == 0o700
    assert mode(files.key_file) == mode(root / "serving-ca.key") == 0o600
    assert mode(files.certificate_file) == 0o644
    served = leaf_hosts(root)
    assert {"example.test", "localhost", "10.0.0.1", "127.0.0.1", "::1"} <= set(served)
    assert "0.0.0.0" not in served
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(files.certificate_file, files.key_file)


def test_the_chain_verifies_against_the_authority(tmp_path: Path) -> None:
    files = certificates.ensure_serving(tmp_path, ["localhost"], NOW)
    leaf, ca = certificates.load_certificates(files.certificate_file.read_bytes(), "x")
    leaf.verify_directly_issued_by(ca)
    assert certificates.load_certificates(files.ca, "x") == [ca]


def test_a_second_start_changes_nothing(tmp_path: Path) -> None:
    certificates.ensure_serving(tmp_path, ["localhost", "::1"], NOW)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    certificates.ensure_serving(tmp_path, ["localhost", "0:0:0:0:0:0:0:1"], NOW + 300 * 86400)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize(
    ("hosts", "later"),
    [(["localhost", "new.test"], 0.0), (["localhost"], YEAR - 29 * 86400), (["localhost"], YEAR)],
)
def test_the_serving_certificate_is_renewed_and_the_authority_kept(
    tmp_path: Path, hosts: list[str], later: float
) -> None:
    first = certificates.ensure_serving(tmp_path, ["localhost"], NOW)
    old = first.certificate_file.read_bytes()
    second = certificates.ensure_serving(tmp_path, hosts, NOW + later)
    assert second.certificate_file.read_bytes() != old
    assert second.ca == first.ca
    assert leaf_hosts(tmp_path) == hosts


def test_a_serving_certificate_of_another_authority_is_replaced(tmp_path: Path) -> None:
    other = certificates.create_ca("kcp-serving-ca", NOW)
    foreign = certificates.issue_serving(other, ["localhost"], NOW)
    (tmp_path / "apiserver.crt").write_bytes(foreign.certificate)
    (tmp_path / "apiserver.key").write_bytes(foreign.key)
    files = certificates.ensure_serving(tmp_path, ["localhost"], NOW)
    assert files.certificate_file.read_bytes() != foreign.certificate


@pytest.mark.parametrize("has_authority", [False, True])
def test_a_serving_certificate_of_the_operators_is_used(
    tmp_path: Path, has_authority: bool
) -> None:
    if has_authority:
        certificates.ensure_ca(tmp_path, "serving-ca", NOW)
    given = certificates.issue_serving(certificates.create_ca("ours", NOW), ["example.com"], NOW)
    (tmp_path / "apiserver.crt").write_bytes(given.certificate)
    (tmp_path / "apiserver.key").write_bytes(given.key)
    files = certificates.ensure_serving(tmp_path, ["localhost"], NOW)
    assert files.certificate_file.read_bytes() == given.certificate
    assert files.ca == given.certificate


def test_an_expired_authority_is_refused_and_named(tmp_path: Path) -> None:
    certificates.ensure_ca(tmp_path, "serving-ca", NOW)
    with pytest.raises(CredentialError, match=r"serving-ca\.crt expired on 2037"):
        certificates.ensure_ca(tmp_path, "serving-ca", NOW + 11 * YEAR)


@pytest.mark.parametrize("gone", ["apiserver.crt", "apiserver.key"])
def test_half_a_pair_is_refused_and_named(tmp_path: Path, gone: str) -> None:
    certificates.ensure_serving(tmp_path, ["localhost"], NOW)
    (tmp_path / gone).unlink()
    with pytest.raises(CredentialError, match=f"{gone} does not: restore it or remove both"):
        certificates.ensure_serving(tmp_path, ["localhost"], NOW)


def test_a_key_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    certificates.ensure_serving(tmp_path, ["localhost"], NOW)
    (tmp_path / "apiserver.key").write_bytes((tmp_path / "serving-ca.key").read_bytes())
    with pytest.raises(CredentialError, match=r"apiserver\.key is not the key of"):
        certificates.ensure_serving(tmp_path, ["localhost"], NOW)


def test_garbage_is_refused_and_named(tmp_path: Path) -> None:
    for name in ("client-ca.crt", "client-ca.key"):
        (tmp_path / name).write_text("not PEM")
    with pytest.raises(CredentialError, match="usable certificate"):
        certificates.ensure_ca(tmp_path, "client-ca", NOW)


def test_the_client_authority_signs_with_rsa(tmp_path: Path) -> None:
    pair = certificates.ensure_client_ca(tmp_path, NOW)
    key = certificates.load_private_key(pair.key, "x")
    assert isinstance(key, rsa.RSAPrivateKey)
    assert mode(tmp_path / "client-ca.key") == 0o600
    assert certificates.ensure_client_ca(tmp_path, NOW) == pair


def test_client_certificates_carry_the_user(client_ca: certificates.KeyPair) -> None:
    pair = certificates.issue_client(client_ca, "alice", ["a", "b"], NOW, timedelta(hours=2))
    certificate = certificates.load_certificates(pair.certificate, "x")[0]
    assert certificate.subject.rfc4514_string() == "CN=alice,O=b,O=a"
    assert certificate.not_valid_after_utc == datetime.fromtimestamp(NOW, UTC) + timedelta(hours=2)


def test_the_signing_key_is_made_once_in_a_form_all_tools_read(tmp_path: Path) -> None:
    path = tmp_path / "sa.key"
    pem = certificates.ensure_signing_key(path)
    assert pem.startswith(b"-----BEGIN EC PRIVATE KEY-----")
    assert isinstance(certificates.load_private_key(pem, "x"), ec.EllipticCurvePrivateKey)
    assert mode(path) == 0o600
    assert certificates.ensure_signing_key(path) == pem


def test_a_signing_key_of_ones_own_is_taken_or_refused(tmp_path: Path) -> None:
    path = tmp_path / "sa.key"
    path.write_text("nonsense")
    with pytest.raises(CredentialError, match=r"sa\.key holds no usable private key"):
        certificates.ensure_signing_key(path)


def test_an_unwritable_place_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CredentialError, match=r"cannot make .*/file: "):
        certificates.ensure_signing_key(tmp_path / "file" / "sa.key")
