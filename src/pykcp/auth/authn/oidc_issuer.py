"""A remote issuer: its discovery document and its keys.

Requests do not wait for an issuer that does not answer, except those whose token names an unknown
key, and these only briefly. Keys are fetched again when a token cannot be verified, at most every
REFRESH_PAUSE seconds, and in the background when they are old, so that a withdrawn key stops
working. While the issuer is unreachable, the known keys stay valid.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Any, Protocol
from urllib.parse import urlsplit

import msgspec

from pykcp.aio.owner import spawn_detached
from pykcp.auth.authn.oidc_keys import IssuerKey, KeyProblem, parse_key_set
from pykcp.auth.tokens import OPENID_CONFIGURATION_PATH
from pykcp.clients.errors import SendFailed
from pykcp.clients.operator import OperatorSession
from pykcp.clients.outbound import Outbound, Outgoing, Tenant
from pykcp.clients.trust import BadBundle
from pykcp.machinery.status import go_quote
from pykcp.wire.tls_trust import verifying_context

_log = logging.getLogger(__name__)

FETCH_SECONDS = 30.0
"""For one document; upstream's."""
WAIT_SECONDS = 10.0
"""For which a request waits for keys."""
START_PAUSE = 10.0
"""Between attempts to reach an issuer for the first time; upstream's."""
MAX_PAUSE = 600.0
REFRESH_PAUSE = 5.0
KEYS_MAX_AGE = 300.0
MAX_DOCUMENT = 1 << 20
_HEADERS = {
    "Accept": "application/json",
    "Accept-Encoding": "identity",
    "User-Agent": "kcp",
}


class IssuerError(Exception):
    """The issuer did not give what was asked for. The text holds nothing that it sent."""


class Fetcher(Protocol):
    """How documents of an issuer are fetched."""

    @property
    def pause_growth(self) -> float:
        """By how much the pause grows after each attempt to reach the issuer."""

    async def get(self, url: str) -> bytes:
        """A document, at most MAX_DOCUMENT long. Raises IssuerError."""

    async def close(self) -> None: ...


class OperatorFetcher:
    """Fetches from an issuer that the operator chose: as upstream does, also through a proxy."""

    pause_growth = 1.0

    def __init__(self, certificate_authority: str) -> None:
        self._authority = certificate_authority
        self._session: OperatorSession | None = None

    async def get(self, url: str) -> bytes:
        try:
            if self._session is None:
                tls = verifying_context(self._authority)
                self._session = OperatorSession(tls, FETCH_SECONDS, connections=4)
            answer = await self._session.send(
                "GET", url, limit=MAX_DOCUMENT, follows_redirects=True, proxy=proxy_for(url) or ""
            )
        except TimeoutError:
            raise IssuerError(f"{url}: no answer within {FETCH_SECONDS:g}s") from None
        except (SendFailed, OSError, ValueError) as error:
            raise IssuerError(f"{url}: {error}") from error
        if any(urlsplit(hop).scheme != "https" for hop in answer.urls):
            raise IssuerError(f"{url}: redirected away from https")
        if answer.status != 200:
            raise IssuerError(f"{url}: status {answer.status}")
        if answer.body is None:
            raise IssuerError(f"{url}: answer is larger than {MAX_DOCUMENT} bytes")
        return answer.body

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None


class TenantFetcher:
    """Fetches from an issuer that a tenant chose; one of many, which may never have existed."""

    pause_growth = 2.0

    def __init__(self, outbound: Outbound, tenant: Tenant, certificate_authority: str) -> None:
        self._outbound, self._tenant = outbound, tenant
        self._authority = certificate_authority.encode()

    async def get(self, url: str) -> bytes:
        try:
            tls = await self._outbound.bundles.context(self._authority, self._tenant.cluster)
            answer = await self._outbound.send(
                Outgoing(url, self._tenant, tls, FETCH_SECONDS, MAX_DOCUMENT, headers=_HEADERS)
            )
        except (SendFailed, BadBundle) as error:
            raise IssuerError(f"{url}: {error}") from error
        if answer.status != 200:
            raise IssuerError(f"{url}: status {answer.status}")
        return answer.body

    async def close(self) -> None:
        """Its connections are shared."""


class _Discovery(msgspec.Struct):
    """What is read of a discovery document; the rest is skipped undecoded."""

    issuer: Any = None
    jwks_uri: Any = None


class RemoteIssuer:
    """Keeps the keys of one issuer. `start` it within a running loop, `close` it at the end."""

    def __init__(
        self,
        url: str,
        discovery_url: str = "",
        certificate_authority: str = "",
        clock: Callable[[], float] = time.monotonic,
        fetcher: Fetcher | None = None,
    ) -> None:
        """`fetcher`: for an issuer that a tenant chose; others are the operator's."""
        self.url = url
        self._discovery_url = discovery_url or url.removesuffix("/") + OPENID_CONFIGURATION_PATH
        self._authority = certificate_authority
        self._clock = clock
        self._fetcher = fetcher or OperatorFetcher(certificate_authority)
        self._keys_url = ""
        self._starting: asyncio.Task[None] | None = None
        self._refreshing: asyncio.Task[None] | None = None
        self._attempted = self._fetched = float("-inf")
        self._ready = asyncio.Event()
        self._generation = 0
        self._told = ""
        self.keys: list[IssuerKey] = []

    @property
    def identity(self) -> tuple[str, str, str]:
        """What makes it the same issuer after a reload."""
        return (self.url, self._discovery_url, self._authority)

    @property
    def is_ready(self) -> bool:
        """Whether its discovery document was read."""
        return self._ready.is_set()

    async def wait_until_ready(self) -> None:
        await self._ready.wait()

    def start(self) -> None:
        if self._starting is None:
            self._starting = spawn_detached(self._reach(), f"oidc {self.url}")

    async def close(self) -> None:
        tasks = [task for task in (self._starting, self._refreshing) if task is not None]
        for task in tasks:
            task.cancel()
        await self._fetcher.close()  # first: it aborts what tasks would only begin to close
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _reach(self) -> None:
        pause = START_PAUSE
        while not self.is_ready:
            # As a task that is known: tokens that come before the keys wait for them.
            self._refreshing = self._new_refresh()
            await asyncio.wait([self._refreshing])
            if not self.is_ready:
                await asyncio.sleep(pause)
                pause = min(pause * self._fetcher.pause_growth, MAX_PAUSE)

    def refresh_if_old(self) -> None:
        """Fetch the keys again in the background if it is time."""
        if self._clock() - self._fetched > KEYS_MAX_AGE:
            self._start_refresh()

    async def refresh_unknown(self) -> bool:
        """Fetch the keys because a token could not be verified; False if that must wait."""
        task = self._start_refresh()
        if task is None:
            return False
        before = self._generation
        await asyncio.wait([task], timeout=WAIT_SECONDS)
        return self._generation != before

    def _start_refresh(self) -> asyncio.Task[None] | None:
        if self._refreshing is not None and not self._refreshing.done():
            return self._refreshing
        if self._clock() - self._attempted < REFRESH_PAUSE:
            return None
        self._refreshing = self._new_refresh()
        return self._refreshing

    def _new_refresh(self) -> asyncio.Task[None]:
        return spawn_detached(self._refresh(), f"oidc keys {self.url}")

    async def _refresh(self) -> None:
        """Only raises when cancelled; errors are logged."""
        self._attempted = self._clock()
        try:
            if not self._keys_url:
                self._keys_url = await self._discover()
                self._ready.set()
            self.keys = parse_key_set(await self._fetcher.get(self._keys_url))
        except (IssuerError, KeyProblem) as error:
            self._keys_url = ""  # the issuer may have moved its keys
            self._tell(str(error))
            return
        self._fetched = self._clock()
        self._generation += 1
        self._told = ""

    def _tell(self, problem: str) -> None:
        """Once, however often it is tried."""
        if problem != self._told:
            _log.error("oidc authenticator: issuer %s: %s", go_quote(self.url), problem)
        self._told = problem

    async def _discover(self) -> str:
        """The address of the keys."""
        document = await self._fetcher.get(self._discovery_url)
        try:
            found = msgspec.json.decode(document, type=_Discovery)
        except msgspec.ValidationError:
            found = _Discovery()  # JSON, but not an object
        except (msgspec.DecodeError, RecursionError):
            raise IssuerError("oidc: failed to decode provider discovery object") from None
        issuer, keys_url = found.issuer, found.jwks_uri
        if issuer != self.url:
            raise IssuerError(
                "oidc: issuer did not match the issuer returned by provider, expected "
                f"{go_quote(self.url)} got {go_quote(str(issuer)[:200])}"
            )
        if not isinstance(keys_url, str) or not keys_url:
            raise IssuerError("provider did not return JWKS URL")
        if urlsplit(keys_url).scheme != "https":
            raise IssuerError("oidc: the provider's JWKS URL is not https")
        return keys_url


def proxy_for(url: str) -> str | None:
    """The proxy that the environment names for it (HTTPS_PROXY, NO_PROXY)."""
    import urllib.request

    host = urlsplit(url).hostname or ""
    if urllib.request.proxy_bypass(host):
        return None
    return urllib.request.getproxies().get("https")
