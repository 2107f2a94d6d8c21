"""Users named by a trusted proxy in request headers.

The headers are accepted only if the proxy presents a client certificate that the request-header
CA has signed, with an allowed common name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias
from urllib.parse import unquote

from pykcp.auth.authn.interface import Authenticated, CredentialRejected
from pykcp.auth.authn.x509 import CertificateVerifier
from pykcp.auth.user import User, authenticated
from pykcp.wire.exchange import Header, IncomingRequest


@dataclass(frozen=True, slots=True)
class HeaderNames:
    """Which headers carry the identity (`--requestheader-*`)."""

    username: tuple[str, ...] = ("x-remote-user",)
    uid: tuple[str, ...] = ("x-remote-uid",)
    group: tuple[str, ...] = ("x-remote-group",)
    extra_prefix: tuple[str, ...] = ("x-remote-extra-",)

    @classmethod
    def parse(
        cls,
        username: Sequence[str],
        uid: Sequence[str],
        group: Sequence[str],
        extra_prefix: Sequence[str],
    ) -> HeaderNames:
        """From flags, in any case. Raises ValueError."""
        return cls(*(_normalised(names) for names in (username, uid, group, extra_prefix)))


def _normalised(names: Sequence[str]) -> tuple[str, ...]:
    trimmed = tuple(name.strip().lower() for name in names)
    if "" in trimmed:
        raise ValueError('empty header ""')
    return trimmed


Identity: TypeAlias = tuple[Header, ...]
"""The headers of a request that name a user, as they are."""


class RequestHeaders:
    def __init__(
        self,
        verifier: CertificateVerifier,
        allowed_names: Sequence[str] = (),
        headers: HeaderNames | None = None,
    ) -> None:
        self._verifier = verifier
        self._allowed = frozenset(allowed_names)
        self._headers = names = headers or HeaderNames()
        self._prefixes = (*names.username, *names.uid, *names.group, *names.extra_prefix)

    def is_trusted(self, der: bytes, now: float) -> bool:
        """Whether the peer is a proxy, whatever it says in this request."""
        try:
            self._check_peer(der, now)
        except CredentialRejected:
            return False
        return True

    def identity(self, request: IncomingRequest) -> Identity:
        """Equal for requests that name the same user."""
        prefixes = self._prefixes
        return tuple(header for header in request.headers if header[0].startswith(prefixes))

    def names_user(self, request: IncomingRequest) -> bool:
        return bool(_first(request, self._headers.username))

    def authenticate(
        self, request: IncomingRequest, der: bytes, now: float
    ) -> Authenticated | None:
        """Whom the proxy speaks for; None if it does not say. Raises Rejected."""
        self._check_peer(der, now)
        name = _first(request, self._headers.username)
        if not name:
            return None
        uid = _first(request, self._headers.uid)
        groups = [v for header in self._headers.group for v in request.header_all(header) if v]
        extra = _extra(request.headers, self._headers.extra_prefix)
        return Authenticated(authenticated(User(name, uid, tuple(groups), extra)))

    def _check_peer(self, der: bytes, now: float) -> None:
        certificate = self._verifier.verify(der, now)
        if self._allowed and certificate.common_name not in self._allowed:
            raise CredentialRejected(
                f"x509: subject with cn={certificate.common_name} is not in the allowed list"
            )


def _first(request: IncomingRequest, names: Sequence[str]) -> str:
    for name in names:
        value = request.header(name)
        if value:
            return value
    return ""


def _extra(headers: Sequence[Header], prefixes: Sequence[str]) -> dict[str, tuple[str, ...]]:
    found: dict[str, list[str]] = {}
    for prefix in prefixes:
        for name, value in headers:
            if name.startswith(prefix):
                found.setdefault(extra_key(name[len(prefix) :]), []).append(value)
    return {key: tuple(values) for key, values in found.items()}


def extra_key(encoded: str) -> str:
    """An extra key out of a header name: lower case, percent-encoding undone if it is valid."""
    encoded = encoded.lower()
    if "%" not in encoded:
        return encoded
    for index, character in enumerate(encoded):
        if character == "%" and not _is_hex_pair(encoded[index + 1 : index + 3]):
            return encoded
    return unquote(encoded)


def _is_hex_pair(text: str) -> bool:
    return len(text) == 2 and all(character in "0123456789abcdef" for character in text)
