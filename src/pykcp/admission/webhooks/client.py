"""Calling webhooks over HTTPS, by `clients.outbound`.

Errors say what a Go client would say, since that is what people search for. What a server
answered that is no review is not repeated: the tenant who chose the server may not be
allowed to read from it.
"""

from __future__ import annotations

import posixpath
from collections.abc import Awaitable, Callable
from typing import Protocol
from urllib.parse import quote, unquote_to_bytes, urlsplit

from pykcp.admission.webhooks.review import BadAnswer, decode
from pykcp.admission.webhooks.webhook import Service
from pykcp.clients.errors import SendFailed
from pykcp.clients.outbound import Outbound, OutboundResponse, Outgoing, Tenant
from pykcp.clients.trust import BadBundle
from pykcp.machinery.status import go_quote
from pykcp.observe.tracing import HEADER, calling
from pykcp.types import Object

MAX_ANSWER = 8 * 1024 * 1024
"""A patch of the size of the largest object, in base64, and room beside it."""
_HEADERS = {
    "Content-Type": "application/json",
    "Accept": "application/json, */*",
    "Accept-Encoding": "identity",
    "User-Agent": "kube-apiserver-admission",
}


class WebhookTarget(Protocol):
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
    403: "unknown",
    404: "the server could not find the requested resource",
    405: "the server does not allow this method on the requested resource",
    406: "unknown",
    409: "the server reported a conflict",
    415: "unknown",
    422: "the server rejected our request due to an error in our request",
    429: "the server has received too many requests and has asked us to try again later",
    503: "the server is currently unable to handle the request",
    504: "the server was unable to return a response in the time allotted, "
    "but may still be processing the request",
}


class WebhookCallFailed(Exception):
    """There is no answer; the text says why."""


class AdmissionWebhookClient:
    def __init__(self, outbound: Outbound, resolve: ServiceResolver | None = None) -> None:
        self._outbound, self._resolve = outbound, resolve

    async def call(
        self, webhook: WebhookTarget, body: tuple[bytes, ...], version: str, tenant: Tenant
    ) -> Object:
        """The review that the webhook answers with, in this version; CallFailed if it does not."""
        answer = await self.answer(webhook, body, tenant, MAX_ANSWER)
        try:
            return decode(
                answer.body, version, status=answer.status, content_type=answer.content_type
            )
        except BadAnswer as error:
            raise WebhookCallFailed(str(error)) from error

    async def answer(
        self, webhook: WebhookTarget, body: tuple[bytes, ...], tenant: Tenant, max_answer: int
    ) -> OutboundResponse:
        """An answer that is a success; CallFailed if none is."""
        shown, url, server_name = await self._place(webhook)
        try:
            with calling("webhook", **{"server.address": shown}) as trace:
                answer = await self._outbound.send(
                    Outgoing(
                        url,
                        tenant,
                        await self._outbound.bundles.context(webhook.ca_bundle, tenant.cluster),
                        webhook.timeout,
                        max_answer,
                        "POST",
                        {**_HEADERS, HEADER: trace} if trace else _HEADERS,
                        body,
                        server_name,
                    )
                )
        except (SendFailed, BadBundle) as error:
            raise WebhookCallFailed(f'Post "{shown}": {error}') from error
        if not 200 <= answer.status <= 206:
            raise WebhookCallFailed(_refusal(answer.status))
        return answer

    async def _place(self, webhook: WebhookTarget) -> tuple[str, str, str | None]:
        """The URL as messages show it, the one to call, and the name its certificate must have."""
        query = f"?timeout={webhook.timeout}s"
        service = webhook.service
        if service is None:
            url = _called_url(webhook.url) + query
            return url, url, None
        path = _called_path(service.path.encode())
        name = f"{service.name}.{service.namespace}.svc"
        shown = f"https://{name}:{service.port}{path}{query}"
        if self._resolve is None:
            raise WebhookCallFailed(f'Post "{shown}": service {go_quote(service.name)} not found')
        return shown, f"{await self._resolve(service)}{path}{query}", name


def _called_url(url: str) -> str:
    """The URL that upstream calls: without credentials, query and fragment, its path decoded first."""
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise WebhookCallFailed(f"Unparsable URL: {error}") from error
    host = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{host}{_called_path(unquote_to_bytes(parts.path))}"


def _called_path(path: bytes) -> str:
    """A path as Go's client sends it: `//a/./b/` is `/a/b`, and only what must be is escaped."""
    return quote(posixpath.normpath(b"/" + path.lstrip(b"/")), safe="/$&+,:;=@")


def _refusal(status: int) -> str:
    """What a client says of an answer that is no success, and of whose body it says nothing."""
    if status in _MESSAGES:
        return _MESSAGES[status]
    if status >= 500:
        return 'an error on the server ("unknown") has prevented the request from succeeding'
    return f"the server responded with the status code {status} but did not return more information"
