"""Calling webhooks over HTTPS.

One session for the process; connections are kept and shared by webhooks that trust the same
CA. Errors say what a Go client would say, since that is what people search for.
"""

from __future__ import annotations

import asyncio
import errno
import ssl
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Protocol
from urllib.parse import urlsplit

import aiohttp
import orjson

from pykcp.admission.webhooks.review import BadAnswer, decode, patch_bytes
from pykcp.admission.webhooks.webhook import Service
from pykcp.machinery.status import go_quote
from pykcp.types import Object

_KEEP_CONTEXTS = 200
_MAX_ANSWER = 16 * 1024 * 1024
_MAX_SHOWN = 2048


class Target(Protocol):
    """What a client must know of a webhook."""

    @property
    def url(self) -> str: ...

    @property
    def service(self) -> Service | None: ...

    @property
    def ca_bundle(self) -> bytes: ...

    @property
    def timeout(self) -> int: ...


ServiceResolver = Callable[[Service], Awaitable[str]]
"""The base URL (`https://host:port`) of a Service; raises CallFailed."""

_MESSAGES = {
    400: "the server rejected our request for an unknown reason",
    401: "the server has asked for the client to provide credentials",
    404: "the server could not find the requested resource",
    405: "the server does not allow this method on the requested resource",
    409: "the server reported a conflict",
    422: "the server rejected our request due to an error in our request",
    429: "the server has received too many requests and has asked us to try again later",
    503: "the server is currently unable to handle the request",
    504: "the server was unable to return a response in the time allotted, "
    "but may still be processing the request",
}


class CallFailed(Exception):
    """There is no answer; the text says why."""


class WebhookClient:
    def __init__(self, resolve: ServiceResolver | None = None) -> None:
        self._resolve = resolve
        self._session: aiohttp.ClientSession | None = None
        self._contexts: OrderedDict[bytes, ssl.SSLContext] = OrderedDict()

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def call(self, webhook: Target, body: bytes, version: str) -> Object:
        """The review that the webhook answers with, in this version; CallFailed if it does not."""
        status, content_type, text = await self.answer(webhook, body)
        try:
            review = decode(text, version, status=status, content_type=content_type)
            patch_bytes(review.get("response") or {})
        except BadAnswer as error:
            raise CallFailed(str(error)) from error
        return review

    async def answer(self, webhook: Target, body: bytes) -> tuple[int, str, bytes]:
        """Status, content type and body of an answer that is a success; CallFailed if none is."""
        shown, url, server_name = await self._place(webhook)
        post = f'Post "{shown}"'
        try:
            async with asyncio.timeout(webhook.timeout):
                status, content_type, text = await self._post(webhook, url, server_name, body)
        except TimeoutError as error:
            raise CallFailed(f"{post}: context deadline exceeded") from error
        except aiohttp.ClientConnectorDNSError as error:
            host = urlsplit(url).hostname
            raise CallFailed(f"{post}: dial tcp: lookup {host}: no such host") from error
        except aiohttp.ClientConnectorCertificateError as error:
            raise CallFailed(f"{post}: {_certificate_problem(error)}") from error
        except aiohttp.ClientConnectorError as error:
            raise CallFailed(f"{post}: {_dial_problem(error, url)}") from error
        except aiohttp.ServerDisconnectedError as error:
            raise CallFailed(f"{post}: EOF") from error
        except (aiohttp.ClientError, OSError, ssl.SSLError, ValueError) as error:
            raise CallFailed(f"{post}: {error}") from error
        if not 200 <= status <= 206:
            raise CallFailed(_refusal(status, content_type, text))
        return status, content_type, text

    async def _place(self, webhook: Target) -> tuple[str, str, str | None]:
        """The URL as messages show it, the one to call, and the name its certificate must have."""
        query = f"?timeout={webhook.timeout}s"
        service = webhook.service
        if service is None:
            parts = urlsplit(webhook.url)
            url = f"{parts.scheme}://{parts.netloc}{parts.path}{query}"
            return url, url, None
        path = service.path if service.path.startswith("/") else f"/{service.path}"
        name = f"{service.name}.{service.namespace}.svc"
        shown = f"https://{name}:{service.port}{path}{query}"
        if self._resolve is None:
            raise CallFailed(f'Post "{shown}": service {go_quote(service.name)} not found')
        return shown, f"{await self._resolve(service)}{path}{query}", name

    async def _post(
        self, webhook: Target, url: str, server_name: str | None, body: bytes
    ) -> tuple[int, str, bytes]:
        """Status, content type and body of the answer."""
        session = self._session
        if session is None:
            session = self._session = _new_session()
        async with session.post(
            url,
            data=body,
            headers={"Content-Type": "application/json", "Accept": "application/json, */*"},
            ssl=self._context(webhook.ca_bundle),
            server_hostname=server_name,
            allow_redirects=False,
        ) as response:
            content_type = response.headers.get("Content-Type") or "application/json"
            return response.status, content_type, await _read(response)

    def _context(self, ca_bundle: bytes) -> ssl.SSLContext:
        context = self._contexts.get(ca_bundle)
        if context is None:
            context = ssl.create_default_context(cadata=ca_bundle.decode() if ca_bundle else None)
            self._contexts[ca_bundle] = context
            if len(self._contexts) > _KEEP_CONTEXTS:
                self._contexts.popitem(last=False)
        else:
            self._contexts.move_to_end(ca_bundle)
        return context


def _new_session() -> aiohttp.ClientSession:
    """Without cookies and compression; time is limited by each webhook's own timeout."""
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=512, limit_per_host=128, keepalive_timeout=90),
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=None),
        trust_env=False,
        headers={"User-Agent": "kube-apiserver-admission"},
    )


async def _read(response: aiohttp.ClientResponse) -> bytes:
    """The body, up to a limit: a webhook must not fill our memory."""
    found = bytearray()
    async for chunk in response.content.iter_chunked(1 << 16):
        found += chunk
        if len(found) > _MAX_ANSWER:
            raise CallFailed(f"the answer is longer than {_MAX_ANSWER} bytes")
    return bytes(found)


def _refusal(status: int, content_type: str, body: bytes) -> str:
    """What a client says of an answer that is no success: a Status' message, if it is one."""
    try:
        found = orjson.loads(body)
    except orjson.JSONDecodeError:
        found = None
    if isinstance(found, dict) and found.get("kind") == "Status" and found.get("message"):
        return str(found["message"])
    text = "unknown"
    if content_type.startswith("text/"):
        text = body[:_MAX_SHOWN].decode(errors="replace").strip()
    if status in (403, 406, 415):
        return text
    if status in _MESSAGES:
        return _MESSAGES[status]
    if status >= 500:
        return (
            f"an error on the server ({go_quote(text)}) has prevented the request from succeeding"
        )
    return f"the server responded with the status code {status} but did not return more information"


def _dial_problem(error: aiohttp.ClientConnectorError, url: str) -> str:
    parts = urlsplit(url)
    address = f"{parts.hostname}:{parts.port or (80 if parts.scheme == 'http' else 443)}"
    code = error.os_error.errno
    if code == errno.ECONNREFUSED:
        return f"dial tcp {address}: connect: connection refused"
    if code in (errno.EHOSTUNREACH, errno.ENETUNREACH):
        word = "no route to host" if code == errno.EHOSTUNREACH else "network is unreachable"
        return f"dial tcp {address}: connect: {word}"
    return f"dial tcp {address}: {error.os_error}"


def _certificate_problem(error: aiohttp.ClientConnectorCertificateError) -> str:
    cause = error.certificate_error
    said = getattr(cause, "verify_message", "") or str(cause)
    lowered = said.lower()
    if "issuer" in lowered or "self-signed" in lowered or "self signed" in lowered:
        why = "certificate signed by unknown authority"
    elif "expired" in lowered:
        why = "certificate has expired or is not yet valid"
    else:
        why = said
    return f"tls: failed to verify certificate: x509: {why}"
