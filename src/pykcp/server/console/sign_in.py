"""Sign-in with OpenID Connect: the code flow with PKCE, as far as a browser cannot do it.

The page makes the secrets of the flow, sends its user to the issuer and receives the code. It may
talk to its own server only, so the server tells it the issuer's address and exchanges the code
for the ID token. The server keeps nothing of it.
"""

from __future__ import annotations

import asyncio
import base64
import pathlib
import time
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import msgspec
import orjson

from pykcp.auth.authn.config_file import config_from_file
from pykcp.auth.authn.oidc_issuer import proxy_for
from pykcp.auth.settings import SignInSettings
from pykcp.auth.tokens import OPENID_CONFIGURATION_PATH
from pykcp.clients.errors import SendFailed
from pykcp.clients.operator import OperatorAnswer, OperatorSession
from pykcp.machinery.status import BadRequest, NotFound, ServiceUnavailable
from pykcp.wire.tls_trust import verifying_context

_SECONDS = 15.0
_MAX_ANSWER = 1 << 20
_FRESH = 300.0
"""Seconds for which the issuer's addresses are kept."""
_AT_A_TIME = 8
"""Requests to the issuer: anyone may cause them."""
_MAX_WORD = 4096


@dataclass(frozen=True, slots=True)
class ConsoleClient:
    """The console as a client of the issuer."""

    client_id: str = ""
    """"": the audience that tokens must have."""
    secret_file: str = ""
    """"": a public client."""
    scopes: tuple[str, ...] = ("openid", "profile", "email")


class _Endpoints(msgspec.Struct):
    """What is read of the issuer's discovery document."""

    authorization_endpoint: str = ""
    token_endpoint: str = ""


class _Exchange(msgspec.Struct, forbid_unknown_fields=True):
    """What the page sends."""

    code: str
    verifier: str
    redirect: str = msgspec.field(name="redirectURI")


class IssuerSignIn:
    def __init__(self, settings: SignInSettings, client: ConsoleClient) -> None:
        self._issuer, self._audience, self._authority = _first_issuer(settings)
        self._client = client
        self._session: OperatorSession | None = None
        self._known: tuple[float, _Endpoints] | None = None
        self._turns = asyncio.Semaphore(_AT_A_TIME)

    @property
    def is_configured(self) -> bool:
        return bool(self._issuer)

    async def describe(self) -> dict[str, Any]:
        """Where the page sends its user, and as which client."""
        endpoints = await self._endpoints()
        return {
            "authorizationEndpoint": endpoints.authorization_endpoint,
            "clientID": self._client.client_id or self._audience,
            "scopes": " ".join(self._client.scopes),
        }

    async def exchange(self, body: bytes) -> dict[str, Any]:
        """The ID token for a code."""
        try:
            asked = msgspec.json.decode(body, type=_Exchange)
        except msgspec.MsgspecError as error:
            raise BadRequest(
                f"the request must have code, verifier and redirectURI: {error}"
            ) from error
        if max(map(len, (asked.code, asked.verifier, asked.redirect))) > _MAX_WORD:
            raise BadRequest("code, verifier and redirectURI are too long")
        endpoints = await self._endpoints()
        answer = await self._send("POST", endpoints.token_endpoint, *self._token_request(asked))
        return _read_tokens(answer)

    def _token_request(self, asked: _Exchange) -> tuple[dict[str, str], bytes]:
        client = self._client.client_id or self._audience
        form = {
            "grant_type": "authorization_code",
            "code": asked.code,
            "code_verifier": asked.verifier,
            "redirect_uri": asked.redirect,
            "client_id": client,
        }
        headers = {
            "Accept": "application/json",
            "Content-Type": "application/x-www-form-urlencoded",
        }
        if self._client.secret_file:
            secret = pathlib.Path(self._client.secret_file).read_text().strip()
            pair = f"{quote(client, safe='')}:{quote(secret, safe='')}"
            headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        return headers, urlencode(form).encode()

    async def _endpoints(self) -> _Endpoints:
        if not self._issuer:
            raise NotFound("no OpenID Connect issuer is configured")
        now = time.monotonic()
        if self._known is not None and now - self._known[0] < _FRESH:
            return self._known[1]
        url = self._issuer.rstrip("/") + OPENID_CONFIGURATION_PATH
        answer = await self._send("GET", url, {"Accept": "application/json"}, None)
        try:
            if answer.status != 200 or answer.body is None:
                raise ServiceUnavailable(f"{url}: status {answer.status}")
            found = msgspec.json.decode(answer.body, type=_Endpoints)
        except msgspec.MsgspecError as error:
            raise ServiceUnavailable(f"{url}: not a discovery document") from error
        for one in (found.authorization_endpoint, found.token_endpoint):
            if urlsplit(one).scheme != "https":
                raise ServiceUnavailable(f"{url}: an endpoint is not an https URL")
        self._known = (now, found)
        return found

    async def _send(
        self, method: str, url: str, headers: dict[str, str], body: bytes | None
    ) -> OperatorAnswer:
        async with self._turns:
            if self._session is None:
                tls = verifying_context(self._authority) if self._authority else None
                self._session = OperatorSession(tls, _SECONDS, _AT_A_TIME)
            try:
                return await self._session.send(
                    method, url, headers, body, limit=_MAX_ANSWER, proxy=proxy_for(url) or ""
                )
            except (SendFailed, TimeoutError) as error:
                host = urlsplit(url).netloc
                raise ServiceUnavailable(f"the issuer {host} does not answer") from error

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()


def _first_issuer(settings: SignInSettings) -> tuple[str, str, str]:
    """URL, audience and authority (PEM) of the issuer that users sign in with; "" if none."""
    if settings.oidc_issuer_url:
        authority = ""
        if settings.oidc_ca_file:
            authority = pathlib.Path(settings.oidc_ca_file).read_text()
        return settings.oidc_issuer_url, settings.oidc_client_id, authority
    if settings.authentication_config:
        for jwt in config_from_file(settings.authentication_config).jwt:
            issuer = jwt.issuer
            return issuer.url, issuer.audiences[0], issuer.certificate_authority
    return "", "", ""


def _read_tokens(answer: OperatorAnswer) -> dict[str, Any]:
    try:
        content = orjson.loads(answer.body or b"")
    except orjson.JSONDecodeError:
        content = None
    if not isinstance(content, dict):
        raise ServiceUnavailable(f"the issuer answered with status {answer.status}")
    token = content.get("id_token")
    if answer.status != 200 or not isinstance(token, str):
        why = content.get("error_description") or content.get("error") or "no ID token"
        raise BadRequest(f"the issuer rejected the sign-in: {why}")
    return {"token": token}
