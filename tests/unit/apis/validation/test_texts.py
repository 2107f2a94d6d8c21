"""URLs, PEM texts and JSON as Go takes them apart, with its complaints."""

from datetime import UTC, datetime

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
)
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st

from pykcp.apis.kube.validation import gojson, gourl, pem


@pytest.mark.parametrize(
    ("text", "scheme", "user", "host", "query", "fragment"),
    [
        ("https://a/b", "https", None, "a", "", ""),
        ("HTTPS://a:8443", "https", None, "a:8443", "", ""),
        ("https://u:p@a?x=1#f", "https", "u:p", "a", "x=1", "f"),
        ("https:///x", "https", None, "", "", ""),
        ("mailto:x", "mailto", None, "", "", ""),
        ("/just/a/path", "", None, "", "", ""),
        ("https://[::1]:443/x", "https", None, "[::1]:443", "", ""),
    ],
)
def test_urls(
    text: str, scheme: str, user: str | None, host: str, query: str, fragment: str
) -> None:
    url = gourl.parse(text)
    assert (url.scheme, url.user, url.host) == (scheme, user, host)
    assert (url.query, url.fragment) == (query, fragment)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("::", 'parse "::": missing protocol scheme'),
        ("a:b:c/d", None),
        ("1a:b", 'parse "1a:b": first path segment in URL cannot contain colon'),
        ("https://a:x/", 'parse "https://a:x/": invalid port ":x" after host'),
        ("https://a b/", 'parse "https://a b/": invalid character " " in host name'),
        ("https://a/%zz", 'parse "https://a/%zz": invalid URL escape "%zz"'),
        ("https://[::1", "parse \"https://[::1\": missing ']' in host"),
        ("a\tb", 'parse "a\\tb": net/url: invalid control character in URL'),
    ],
)
def test_urls_refused(text: str, message: str | None) -> None:
    if message is None:
        gourl.parse(text)
        return
    with pytest.raises(gourl.GoURLError) as raised:
        gourl.parse(text)
    assert str(raised.value) == message


def key_and_certificate() -> tuple[bytes, bytes]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "x")])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(datetime(2024, 1, 1, tzinfo=UTC))
        .not_valid_after(datetime(2034, 1, 1, tzinfo=UTC))
        .sign(key, hashes.SHA256())
    )
    text = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return text, certificate.public_bytes(Encoding.PEM)


def request_for(key: ec.EllipticCurvePrivateKey) -> bytes:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "x")])
    request = x509.CertificateSigningRequestBuilder().subject_name(name)
    return request.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM)


def test_key_pairs() -> None:
    key, certificate = key_and_certificate()
    other, _ = key_and_certificate()
    assert pem.key_pair_error(certificate, key) is None
    assert pem.key_pair_error(b"junk\n" + certificate, b"junk\n" + key) is None
    assert pem.key_pair_error(certificate, other) == "tls: private key does not match public key"
    assert pem.key_pair_error(b"", key) == "tls: failed to find any PEM data in certificate input"
    assert pem.key_pair_error(certificate, b"") == "tls: failed to find any PEM data in key input"
    assert "PEM inputs may have been switched" in str(pem.key_pair_error(key, certificate))
    assert pem.key_pair_error(certificate, certificate) == (
        "tls: found a certificate rather than a key in the PEM for the private key"
    )


def test_certificates_and_bundles() -> None:
    key, certificate = key_and_certificate()
    assert pem.certificates_error(b"") is None
    assert pem.certificates_error(certificate * 2) is None
    assert pem.certificates_error(b"x") == "must contain at least one CERTIFICATE PEM block"
    assert pem.certificates_error(key) == (
        'only CERTIFICATE PEM blocks are allowed, found "PRIVATE KEY"'
    )
    assert pem.ca_bundle_error(certificate) is None
    assert pem.ca_bundle_error(b"garbage") == (
        "unable to load root certificates: unable to parse bytes as PEM block"
    )


def test_signing_requests() -> None:
    request = request_for(ec.generate_private_key(ec.SECP256R1()))
    assert pem.request_error(request) is None
    assert pem.request_error(b"x") == "PEM block type must be CERTIFICATE REQUEST"


@given(st.binary(max_size=30))
def test_any_bytes_are_judged(text: bytes) -> None:
    assert isinstance(gojson.object_error(text), str | None)
    assert pem.blocks(text) == []


@given(st.dictionaries(st.text(), st.integers() | st.booleans() | st.none() | st.text()))
def test_objects_are_objects(value: dict[str, object]) -> None:
    import json

    assert gojson.object_error(json.dumps(value).encode()) is None
