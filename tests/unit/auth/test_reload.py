"""Authorities, keys and certificates are read again after their files were replaced."""

from __future__ import annotations

import pathlib

import pytest

from pykcp.auth.authn.interface import CredentialRejected
from pykcp.auth.authn.x509 import CertificateVerifier
from pykcp.auth.certificates import KeyPair, create_ca, issue_client, issue_serving, key_pem
from pykcp.auth.tokens import TokenError, TokenSigner, TokenVerifier
from pykcp.clients import followed_files
from pykcp.clients.http.trust import Trust

NOW = 1_800_000_000.0


def _der(pair: KeyPair) -> bytes:
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import Encoding

    return x509.load_pem_x509_certificate(pair.certificate).public_bytes(Encoding.DER)


def _replace(path: pathlib.Path, content: bytes) -> None:
    beside = path.with_suffix(".new")
    beside.write_bytes(content)
    beside.replace(path)


def _key() -> bytes:
    from cryptography.hazmat.primitives.asymmetric import ec

    return key_pem(ec.generate_private_key(ec.SECP256R1()))


@pytest.fixture(autouse=True)
def _looks_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(followed_files, "LOOK_SECONDS", 0.0)


def test_an_authority_is_added_and_removed(tmp_path: pathlib.Path) -> None:
    old, new = create_ca("old", NOW), create_ca("new", NOW)
    by_old, by_new = (_der(issue_client(ca, "user", [], NOW)) for ca in (old, new))
    path = tmp_path / "ca.crt"
    path.write_bytes(old.certificate)
    verifier = CertificateVerifier.of_file(str(path))
    assert verifier.verify(by_old, NOW).common_name == "user"
    with pytest.raises(CredentialRejected):
        verifier.verify(by_new, NOW)
    _replace(path, old.certificate + new.certificate)
    assert verifier.verify(by_new, NOW).common_name == "user"
    assert verifier.verify(by_old, NOW).common_name == "user"
    _replace(path, new.certificate)
    with pytest.raises(CredentialRejected):
        verifier.verify(by_old, NOW)


def test_a_bundle_that_cannot_be_read_leaves_the_old_one(tmp_path: pathlib.Path) -> None:
    ca = create_ca("ca", NOW)
    path = tmp_path / "ca.crt"
    path.write_bytes(ca.certificate)
    verifier = CertificateVerifier.of_file(str(path))
    _replace(path, b"-----BEGIN CERT")
    der = _der(issue_client(ca, "user", [], NOW))
    assert verifier.verify(der, NOW).common_name == "user"
    path.unlink()
    assert verifier.verify(der, NOW + 1).common_name == "user"


def test_tokens_of_a_retired_key_are_accepted_as_long_as_it_is_listed(
    tmp_path: pathlib.Path,
) -> None:
    first, second = _key(), _key()
    signing, keys = tmp_path / "signing.key", tmp_path / "keys.pem"
    signing.write_bytes(first)
    keys.write_bytes(first)
    signer = TokenSigner(first, "issuer", file=str(signing))
    verifier = TokenVerifier.of_files([str(keys)])
    old = signer.sign({"sub": "a"})
    _replace(keys, first + second)
    _replace(signing, second)
    new = signer.sign({"sub": "b"})
    assert verifier.verify(old)["sub"] == "a"
    assert verifier.verify(new)["sub"] == "b"
    assert len(verifier.keys) == 2
    _replace(keys, second)
    assert verifier.verify(new)["sub"] == "b"
    with pytest.raises(TokenError):
        verifier.verify(old)


def test_a_client_uses_a_renewed_certificate(tmp_path: pathlib.Path) -> None:
    ca = create_ca("ca", NOW)
    files = [tmp_path / name for name in ("ca.crt", "tls.crt", "tls.key")]
    pair = issue_serving(ca, ["localhost"], NOW)
    for path, content in zip(files, (ca.certificate, pair.certificate, pair.key), strict=True):
        path.write_bytes(content)
    trust = Trust.of_files(*map(str, files))
    before = trust.context()
    assert trust.context() is before
    renewed = issue_serving(ca, ["localhost"], NOW)
    _replace(files[1], renewed.certificate)  # and not yet its key
    assert trust.generation == 0
    assert trust.context() is before
    _replace(files[2], renewed.key)
    assert trust.generation == 1
    assert trust.context() is not before
