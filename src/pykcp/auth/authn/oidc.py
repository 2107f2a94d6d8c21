"""Tokens of OpenID Connect issuers.

`JwtAuthenticator` verifies the tokens of one issuer, `JwtTokens` selects the authenticator by the
token's issuer. Checks and messages are upstream's (go-oidc): form, algorithm, signature, issuer,
audience, expiry, not-before; then the claims are mapped to a user (`oidc_claims`).
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from math import isfinite
from typing import Any

import orjson

from pykcp.auth.authn.config_validation import CompiledJwt
from pykcp.auth.authn.interface import Authenticated, CredentialRejected, common_audiences
from pykcp.auth.authn.oidc_claims import json_word, user_from
from pykcp.auth.authn.oidc_issuer import RemoteIssuer
from pykcp.auth.authn.oidc_keys import ALGORITHMS, find_signer
from pykcp.auth.tokens import Claims, TokenError, decode_part, unverified_claims
from pykcp.machinery.status import go_quote

NOT_BEFORE_LEEWAY = 60.0
_NEVER = "0001-01-01 00:00:00 +0000 UTC"
_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_GOOGLE = "https://accounts.google.com"
_GOOGLE_SHORT = "accounts.google.com"
_BAD_SIGNATURE = "failed to verify signature: failed to verify id token signature"


class JwtAuthenticator:
    """Verifies tokens of one issuer."""

    def __init__(
        self,
        compiled: CompiledJwt,
        issuer: RemoteIssuer,
        algorithms: Sequence[str] = ALGORITHMS,
    ) -> None:
        self._compiled = compiled
        self.issuer = issuer
        self._url = compiled.config.issuer.url
        self._audiences = compiled.config.issuer.audiences
        self._algorithms = tuple(algorithms)

    async def authenticate(self, token: str, now: float) -> Authenticated:
        """Who holds a token that says it is of this issuer. Raises Rejected."""
        if not self.issuer.is_ready:
            raise CredentialRejected("oidc: authenticator not initialized")
        try:
            claims = await self._verified(token)
            expires = self._check(claims, now)
        except TokenError as error:
            raise CredentialRejected(f"oidc: verify token: {error}") from error
        try:
            return Authenticated(user_from(self._compiled, claims), expires=expires)
        except RecursionError:
            raise CredentialRejected("oidc: parse claims: nested too deeply") from None

    async def _verified(self, token: str) -> Claims:
        """The claims, once the signature is good. Raises TokenError."""
        parts = token.split(".")
        if len(parts) != 3:
            raise TokenError("oidc: malformed jwt")
        header = _json_object(parts[0])
        algorithm, key_id = header.get("alg"), header.get("kid")
        if not isinstance(algorithm, str) or algorithm not in self._algorithms:
            shown = " ".join(go_quote(one) for one in self._algorithms)
            raise TokenError(
                "oidc: id token signed with unsupported algorithm, "
                f"expected [{shown}] got {go_quote(str(algorithm)[:40])}"
            )
        if "crit" in header or "b64" in header:
            raise TokenError(_BAD_SIGNATURE)
        key_id = key_id if isinstance(key_id, str) else ""
        signature, signed = _decoded(parts[2]), f"{parts[0]}.{parts[1]}".encode()
        if not find_signer(self.issuer.keys, key_id, algorithm, signature, signed):
            is_newer = await self.issuer.refresh_unknown()
            keys = self.issuer.keys if is_newer else ()
            if not find_signer(keys, key_id, algorithm, signature, signed):
                raise TokenError(_BAD_SIGNATURE)
        self.issuer.refresh_if_old()
        return _json_object(parts[1])

    def _check(self, claims: Claims, now: float) -> float:
        """When the token ends. Raises TokenError."""
        expires, not_before, held = _typed(claims)
        issuer = claims.get("iss")
        if issuer != self._url and not (self._url == _GOOGLE and issuer == _GOOGLE_SHORT):
            raise TokenError(
                "oidc: id token issued by a different provider, "
                f"expected {go_quote(self._url)} got {go_quote(str(issuer)[:200])}"
            )
        self._check_audience(held)
        if expires is None or expires < now:
            end = _NEVER if expires is None else _shown(expires)
            raise TokenError(f"oidc: token is expired (Token Expiry: {end})")
        if not_before is not None and now + NOT_BEFORE_LEEWAY < not_before:
            raise TokenError(
                f"oidc: current time {_shown(now)} before the nbf (not before) time: "
                f"{_shown(not_before)}"
            )
        return expires

    def _check_audience(self, held: Sequence[str]) -> None:
        if any(one in self._audiences for one in held):
            return
        got = _quoted(held[:20])
        if len(self._audiences) == 1:
            raise TokenError(f"oidc: expected audience {go_quote(self._audiences[0])} got {got}")
        raise TokenError(f"oidc: expected audience in {_quoted(sorted(self._audiences))} got {got}")


class JwtTokens:
    """The authenticator of all configured issuers; they can be replaced at any time."""

    def __init__(self, api_audiences: Sequence[str]) -> None:
        self._api_audiences = tuple(api_audiences)
        self._by_issuer: dict[str, JwtAuthenticator] = {}

    def replace(self, authenticators: Sequence[JwtAuthenticator]) -> None:
        self._by_issuer = {one.issuer.url: one for one in authenticators}

    def issuers(self) -> list[RemoteIssuer]:
        return [one.issuer for one in self._by_issuer.values()]

    async def authenticate(
        self, token: str, audiences: Sequence[str], cluster: str, now: float
    ) -> Authenticated | None:
        del cluster  # they are known everywhere
        if not self._by_issuer or "=" in token:  # a compact JWT has no padding
            return None
        claimed = unverified_claims(token)
        issuer = claimed.get("iss") if claimed is not None else None
        if issuer == _GOOGLE_SHORT:
            issuer = _GOOGLE
        authenticator = self._by_issuer.get(issuer) if isinstance(issuer, str) else None
        if authenticator is None:
            return None
        common = common_audiences(self._api_audiences, audiences)
        if common is None:
            return None
        found = await authenticator.authenticate(token, now)
        return Authenticated(found.user, common, found.expires)


def _decoded(part: str) -> bytes:
    try:
        return decode_part(part)
    except TokenError:
        raise TokenError("oidc: malformed jwt: illegal base64 data") from None


def _json_object(part: str) -> Claims:
    try:
        decoded = orjson.loads(_decoded(part))
    except orjson.JSONDecodeError:
        raise TokenError("oidc: malformed jwt: not JSON") from None
    if not isinstance(decoded, dict):
        raise TokenError("oidc: malformed jwt: not an object")
    return decoded


def _typed(claims: Claims) -> tuple[float | None, float | None, list[str]]:
    """End, beginning and audiences; all registered claims must have their types."""
    for name in ("iss", "sub", "nonce", "at_hash"):
        if not isinstance(claims.get(name), str | None):
            raise _mistyped(name, claims[name], "string")
    _check_sources(claims)
    expires, not_before, _ = (_moment(claims, name) for name in ("exp", "nbf", "iat"))
    audiences: Any = claims.get("aud")
    if audiences is None or isinstance(audiences, str):
        return expires, not_before, [audiences] if audiences is not None else []
    if not isinstance(audiences, list):
        raise _mistyped("aud", audiences, "[]string")
    for one in audiences:
        if not isinstance(one, str):
            raise _mistyped("aud", one, "string")
    return expires, not_before, audiences


def _check_sources(claims: Claims) -> None:
    """Distributed claims must have a source, even if they are not used."""
    names, sources = claims.get("_claim_names") or {}, claims.get("_claim_sources") or {}
    for name, value in (("_claim_names", names), ("_claim_sources", sources)):
        if not isinstance(value, dict):
            wanted = "string" if value is names else "oidc.claimSource"
            raise _mistyped(name, value, f"map[string]{wanted}")
    for source in names.values():
        if not isinstance(source, str):
            raise _mistyped("_claim_names", source, "string")
        if not source:
            raise TokenError("oidc: failed to obtain source from claim name")
        if source not in sources:
            raise TokenError("oidc: source does not exist")


def _moment(claims: Claims, name: str) -> float | None:
    """A number, or a text that is one, as Go's json.Number has it."""
    value: Any = claims.get(name)
    if value is None:
        return None
    if isinstance(value, str) and _NUMBER.fullmatch(value):
        value = float(value)
    if isinstance(value, str):
        shown = go_quote(orjson.dumps(value).decode())
        why = f"json: invalid number literal, trying to unmarshal {shown} into Number"
        raise TokenError(f"oidc: failed to unmarshal claims: {why}")
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not isfinite(value):
        raise _mistyped(name, value, "json.Number")
    return float(value)


def _mistyped(name: str, value: Any, wanted: str) -> TokenError:
    return TokenError(
        f"oidc: failed to unmarshal claims: json: cannot unmarshal {json_word(value)} "
        f"into Go struct field idToken.{name} of type {wanted}"
    )


def _shown(moment: float) -> str:
    """As Go prints times."""
    try:
        return time.strftime("%Y-%m-%d %H:%M:%S +0000 UTC", time.gmtime(moment))
    except (ValueError, OverflowError, OSError):
        return f"{moment:g}"


def _quoted(values: Sequence[str]) -> str:
    return "[" + " ".join(go_quote(value) for value in values) + "]"
