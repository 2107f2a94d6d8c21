"""The chain of authenticators, in upstream's order; the first success decides.

Admin tokens, proxy headers, client certificates, bearer tokens (token file, service accounts,
OIDC, webhooks), anonymous. A rejected credential does not prevent another one from succeeding,
but the request is not treated as anonymous then: it is answered with 401.

Results are cached twice: on the connection, for the next request with the same `Authorization`
header, and by the token's hash, for other connections. Neither outlives the credential, nor
TOKEN_TTL for tokens, whose object may be deleted in the meantime.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from pykcp.auth.authn.anonymous import Anonymous
from pykcp.auth.authn.bearer import bearer_token, websocket_token
from pykcp.auth.authn.interface import (
    Annotations,
    Authenticated,
    CredentialRejected,
    TokenAuthenticator,
)
from pykcp.auth.authn.request_header import Identity, RequestHeaders
from pykcp.auth.authn.x509 import ClientCertificates
from pykcp.auth.errors import aggregate
from pykcp.auth.tokens import MAX_TOKEN
from pykcp.auth.user import User, authenticated
from pykcp.caching import BoundedCache
from pykcp.machinery.status import Unauthorized, go_quote
from pykcp.wire.exchange import IncomingRequest, PeerInfo

_log = logging.getLogger(__name__)

TOKEN_TTL = 10.0
"""Seconds for which a token is taken at its word; upstream's."""
_TELL_SECONDS = 1.0
_MEMO, _REFUSAL, _PROXIED = "auth.user", "auth.refusal", "auth.proxied"
_MOST_PROXIED = 256
"""Users of a proxy that are remembered on one of its connections."""
_INVALID_TOKEN = "invalid bearer token"  # noqa: S105 - a message


class _Memo(NamedTuple):
    authorization: str | None
    until: float
    chain: Authentication
    user: User
    annotations: Annotations = ()


class _ProxiedUsers(NamedTuple):
    """Of a trusted proxy's connection, by the headers that name them."""

    until: float
    chain: Authentication
    users: dict[Identity, User]


class _Refusal(NamedTuple):
    """Of a client certificate."""

    text: str
    until: float
    certificates: ClientCertificates


@dataclass(slots=True)
class _Attempt:
    """One request on its way through the union."""

    cluster: str
    now: float
    audiences: Sequence[str]
    refusals: list[str] = field(default_factory=list)
    annotations: Annotations = ()
    """Of what was refused."""


class Authentication:
    """Says who sent a request."""

    def __init__(
        self,
        *,
        clock: Callable[[], float],
        admin: TokenAuthenticator | None = None,
        proxy: RequestHeaders | None = None,
        certificates: ClientCertificates | None = None,
        tokens: Sequence[TokenAuthenticator] = (),
        anonymous: Anonymous | None = None,
        api_audiences: Sequence[str] = (),
        remember: int = 8192,
    ) -> None:
        self._clock = clock
        self._admin = () if admin is None else (admin,)
        self._proxy, self._certificates = proxy, certificates
        self._tokens, self._anonymous = tuple(tokens), anonymous
        self.api_audiences = tuple(api_audiences)
        self._known: BoundedCache[bytes, Authenticated] = BoundedCache("authentication", remember)
        self._told, self._told_at = "", 0.0

    def peek(self, request: IncomingRequest) -> User | None:
        """Who it is, if this connection has proved it before; None: call `authenticate`."""
        memo: _Memo | None = request.peer.memo.get(_MEMO)
        if memo is None:
            return self._peek_proxied(request)
        if (
            memo.authorization != request.header("authorization")
            or memo.chain is not self
            or memo.until <= self._clock()
        ):
            return None
        return memo.user

    def annotations(self, request: IncomingRequest) -> Annotations:
        """What the audit event says of the credential by which `peek` knows the user."""
        memo: _Memo | None = request.peer.memo.get(_MEMO)
        return () if memo is None else memo.annotations

    def _peek_proxied(self, request: IncomingRequest) -> User | None:
        memo: _ProxiedUsers | None = request.peer.memo.get(_PROXIED)
        if memo is None or memo.chain is not self or memo.until <= self._clock():
            return None
        if self._proxy is None or request.header("authorization") is not None:
            return None
        return memo.users.get(self._proxy.identity(request))

    def is_cheap(self, request: IncomingRequest) -> bool:
        """Whether `authenticate` will only look up what is known: it cannot be used for floods."""
        if self.is_proxied(request):
            return True
        token = bearer_token(request.header("authorization"))
        if token is None:
            return False
        known = self._known.get(hashlib.sha256(token.encode()).digest())
        return known is not None and self._clock() < known.expires

    async def authenticate(
        self, request: IncomingRequest, cluster: str = "", path: str | None = None
    ) -> Authenticated:
        """Who it is. `path` is the request's without its cluster. Raises Unauthorized."""
        attempt = _Attempt(cluster, self._clock(), self.api_audiences)
        token = bearer_token(request.header("authorization"))
        if token is not None and len(token) > MAX_TOKEN:
            attempt.refusals.append(_INVALID_TOKEN)
            token = None
        found = None
        if token is not None and self._admin:
            found = await _first_success(self._admin, token, attempt)
        if found is None:
            found = self._by_peer(request, attempt)
        if found is None and token is not None:
            found = await self._by_token(token, attempt)
        if found is not None:
            self._remember(request, found, attempt.now)
            return found
        return await self._without_header(request, path, attempt)

    async def review_token(
        self, token: str, audiences: Sequence[str], cluster: str
    ) -> Authenticated:
        """Who holds a token, for a TokenReview. Raises Rejected with all reasons."""
        if len(token) > MAX_TOKEN:
            raise CredentialRejected(_INVALID_TOKEN)
        attempt = _Attempt(cluster, self._clock(), audiences or self.api_audiences)
        for group in filter(None, (self._admin, self._tokens)):
            found = await _first_success(group, token, attempt)
            if found is not None:
                return found
        text = aggregate(attempt.refusals or [_INVALID_TOKEN])
        raise CredentialRejected(text, attempt.annotations)

    def is_proxied(self, request: IncomingRequest) -> bool:
        """Whether a trusted proxy sent it, whose user headers are accepted."""
        der, proxy = request.peer.certificate, self._proxy
        return der is not None and proxy is not None and proxy.is_trusted(der, self._clock())

    def forget(self) -> None:
        """Prove tokens again (a key or a token file was replaced)."""
        self._known.clear()

    def _by_peer(self, request: IncomingRequest, attempt: _Attempt) -> Authenticated | None:
        der = request.peer.certificate
        found: Authenticated | None = None
        if der is not None and self._proxy is not None:
            try:
                found = self._proxy.authenticate(request, der, attempt.now)
            except CredentialRejected as error:
                attempt.refusals.append(str(error))
        if der is not None and found is None and self._certificates is not None:
            try:
                found = self._by_certificate(self._certificates, request.peer, der, attempt.now)
            except CredentialRejected as error:
                attempt.refusals.append(str(error))
        return found

    def _by_certificate(
        self, certificates: ClientCertificates, peer: PeerInfo, der: bytes, now: float
    ) -> Authenticated | None:
        """A refusal is remembered on the connection: finding it out may take some time."""
        known: _Refusal | None = peer.memo.get(_REFUSAL)
        if known is not None and known.certificates is certificates and now < known.until:
            raise CredentialRejected(known.text)
        try:
            return certificates.authenticate(der, now, peer.intermediates)
        except CredentialRejected as error:
            peer.memo[_REFUSAL] = _Refusal(str(error), now + TOKEN_TTL, certificates)
            raise

    async def _by_token(self, token: str, attempt: _Attempt) -> Authenticated | None:
        if not self._tokens:
            return None
        digest = hashlib.sha256(token.encode()).digest()
        known = self._known.get(digest)
        if known is not None and attempt.now < known.expires:
            return known
        found = await _first_success(self._tokens, token, attempt)
        if found is None or not found.is_portable:
            return found
        found = replace(found, expires=min(found.expires, attempt.now + TOKEN_TTL))
        self._known.put(digest, found)
        return found

    async def _without_header(
        self, request: IncomingRequest, path: str | None, attempt: _Attempt
    ) -> Authenticated:
        """The user of a WebSocket's token, or the anonymous user."""
        try:
            token = websocket_token(request)
        except CredentialRejected as error:
            attempt.refusals.append(str(error))
            token = None
        found = None if token is None else await self._by_token(token, attempt)
        if found is not None:
            return found
        user = None
        if not attempt.refusals and self._anonymous is not None:
            user = self._anonymous.authenticate(request.path if path is None else path)
        if user is None:
            cause = None
            if attempt.refusals:
                cause = CredentialRejected(aggregate(attempt.refusals), attempt.annotations)
            self._tell(cause, attempt.now)
            raise Unauthorized from cause
        return Authenticated(user)

    def _tell(self, cause: CredentialRejected | None, now: float) -> None:
        """Log the reason of a failed authentication, with a rate limit."""
        text = "" if cause is None else str(cause)
        if text and (text != self._told or now - self._told_at >= _TELL_SECONDS):
            _log.warning("Unable to authenticate the request: %s", go_quote(text))
            self._told, self._told_at = text, now

    def _remember(self, request: IncomingRequest, found: Authenticated, now: float) -> None:
        """On the connection, unless the next request with these credentials may differ."""
        peer = request.peer
        if not found.is_portable or found.warnings:
            return
        der, proxy = peer.certificate, self._proxy
        if der is not None and proxy is not None and proxy.is_trusted(der, now):
            self._remember_proxied(request, proxy, found.user, now)
            return  # the next request may name another user
        peer.memo[_MEMO] = _Memo(
            request.header("authorization"), found.expires, self, found.user, found.annotations
        )

    def _remember_proxied(
        self, request: IncomingRequest, proxy: RequestHeaders, user: User, now: float
    ) -> None:
        """If the proxy's headers alone say who it is."""
        if request.header("authorization") is not None or not proxy.names_user(request):
            return
        memo: _ProxiedUsers | None = request.peer.memo.get(_PROXIED)
        if memo is None or memo.chain is not self or memo.until <= now:
            memo = request.peer.memo[_PROXIED] = _ProxiedUsers(now + TOKEN_TTL, self, {})
        if len(memo.users) < _MOST_PROXIED:
            memo.users[proxy.identity(request)] = user


async def _first_success(
    group: Sequence[TokenAuthenticator], token: str, attempt: _Attempt
) -> Authenticated | None:
    errors: list[str] = []
    for authenticator in group:
        try:
            found = await authenticator.authenticate(
                token, attempt.audiences, attempt.cluster, attempt.now
            )
        except CredentialRejected as error:
            errors.append(str(error))
            attempt.annotations += error.annotations
            continue
        if found is not None:
            return replace(found, user=authenticated(found.user))
    attempt.refusals.append(aggregate(errors) if errors else _INVALID_TOKEN)
    return None
