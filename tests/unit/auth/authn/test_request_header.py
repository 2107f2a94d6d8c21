"""Headers of a trusted proxy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pykcp.auth import certificates
from pykcp.auth.authn.interface import CredentialRejected
from pykcp.auth.authn.request_header import HeaderNames, RequestHeaders, extra_key
from pykcp.auth.authn.x509 import CertificateVerifier
from pykcp.auth.certificates import KeyPair
from pykcp.auth.user import User

NOW = 1_800_000_000.0


@pytest.fixture
def proxy_der(client_ca: KeyPair, to_der: Callable[[KeyPair], bytes]) -> bytes:
    return to_der(certificates.issue_client(client_ca, "front-proxy", [], NOW))


def headers_of(
    client_ca: KeyPair, *allowed: str, names: HeaderNames | None = None
) -> RequestHeaders:
    return RequestHeaders(CertificateVerifier(client_ca.certificate), allowed, names)


@pytest.mark.parametrize(
    ("headers", "user"),
    [
        ([], None),
        ([("X-Remote-Group", "g")], None),
        ([("X-Remote-User", "")], None),
        ([("X-Remote-User", "u")], User("u", groups=("system:authenticated",))),
        (
            [("X-Remote-User", "u"), ("X-Remote-Uid", "7"), ("X-Remote-Group", "a"),
             ("X-Remote-Group", ""), ("X-Remote-Group", "b")],
            User("u", "7", ("a", "b", "system:authenticated")),
        ),
        (
            [("X-Remote-User", "u"), ("X-Remote-Group", "system:authenticated")],
            User("u", groups=("system:authenticated",)),
        ),
        (
            [("X-Remote-User", "u"), ("X-Remote-Extra-Scopes", "x"), ("X-Remote-Extra-Scopes", "y"),
             ("X-Remote-Extra-Acme.com%2fproject", "p")],
            User("u", groups=("system:authenticated",),
                 extra={"scopes": ("x", "y"), "acme.com/project": ("p",)}),
        ),
        ([("X-Remote-User", "system:anonymous")], User("system:anonymous")),
    ],
)  # fmt: skip
def test_whom_the_proxy_speaks_for(
    client_ca: KeyPair, proxy_der: bytes, make_request: Any, headers: Any, user: User | None
) -> None:
    found = headers_of(client_ca).authenticate(make_request(*headers), proxy_der, NOW)
    assert (None if found is None else found.user) == user


def test_other_header_names_can_be_configured(
    client_ca: KeyPair, proxy_der: bytes, make_request: Any
) -> None:
    names = HeaderNames.parse(["X-A", " X-User "], [], ["X-G"], ["X-E-"])
    request = make_request(("x-user", "u"), ("x-g", "g"), ("x-e-k", "v"), ("x-remote-user", "no"))
    found = headers_of(client_ca, names=names).authenticate(request, proxy_der, NOW)
    assert found is not None
    assert found.user == User("u", groups=("g", "system:authenticated"), extra={"k": ("v",)})


def test_empty_header_names_are_refused() -> None:
    with pytest.raises(ValueError, match="empty header"):
        HeaderNames.parse(["x", " "], [], [], [])


@pytest.mark.parametrize(
    ("allowed", "good"), [((), True), (("front-proxy",), True), (("x",), False)]
)
def test_only_allowed_proxies_are_believed(
    client_ca: KeyPair, proxy_der: bytes, make_request: Any, allowed: Any, good: bool
) -> None:
    proxy = headers_of(client_ca, *allowed)
    assert proxy.is_trusted(proxy_der, NOW) is good
    request = make_request(("x-remote-user", "root"))
    if good:
        assert proxy.authenticate(request, proxy_der, NOW) is not None
    else:
        with pytest.raises(CredentialRejected, match="cn=front-proxy is not in the allowed list"):
            proxy.authenticate(request, proxy_der, NOW)


def test_a_certificate_of_another_authority_is_not_a_proxys(
    client_ca: KeyPair, to_der: Callable[[KeyPair], bytes], make_request: Any
) -> None:
    other = certificates.create_ca("other", NOW)
    der = to_der(certificates.issue_client(other, "front-proxy", [], NOW))
    with pytest.raises(CredentialRejected):
        headers_of(client_ca).authenticate(make_request(("x-remote-user", "root")), der, NOW)


@pytest.mark.parametrize(
    ("encoded", "key"),
    [
        ("Plain", "plain"),
        ("a%2Fb", "a/b"),
        ("a%zz", "a%zz"),
        ("a%2", "a%2"),
        ("%E2%82%AC", "€"),
    ],
)
def test_extra_keys_are_unescaped_if_they_can_be(encoded: str, key: str) -> None:
    assert extra_key(encoded) == key
