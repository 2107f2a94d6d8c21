"""Conversion webhooks are called as admission webhooks are: by the same client."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import orjson

from pykcp.aio.turns import heavy_turn
from pykcp.clients.outbound import Answer, Outbound, Tenant
from pykcp.registry.conversion.review import CallFailed, Endpoint
from pykcp.types import Object

if TYPE_CHECKING:
    from pykcp.admission.webhooks.client import ServiceResolver, WebhookClient
    from pykcp.admission.webhooks.webhook import Service

MIN_ANSWER = 4 * 1024 * 1024
"""An answer may have twice the size of the question, and this in any case."""
MAX_CONTAINERS = 300_000
"""Objects and arrays in an answer: more take longer to decode than others should wait."""
_HEAVY = 256 * 1024


@dataclass(frozen=True, slots=True)
class _Target:
    url: str
    service: Service | None
    ca_bundle: bytes
    timeout: int


class ConversionCalls:
    """Posts conversion reviews; the HTTP client is imported for the first one."""

    def __init__(self, outbound: Outbound, resolve: ServiceResolver | None = None) -> None:
        self._outbound, self._resolve = outbound, resolve
        self._client: WebhookClient | None = None

    async def __call__(self, endpoint: Endpoint, body: bytes, cluster: str) -> Object:
        from pykcp.admission.webhooks import client as http
        from pykcp.admission.webhooks.webhook import Service

        if self._client is None:
            self._client = http.WebhookClient(self._outbound, self._resolve)
        service = endpoint.service
        found = None
        if service is not None:
            found = Service(service.namespace, service.name, service.path, service.port)
        target = _Target(endpoint.url, found, endpoint.ca_bundle, endpoint.timeout)
        payer = cluster or endpoint.url
        limit = max(MIN_ANSWER, 2 * len(body))
        try:
            answer = await self._client.answer(target, (body,), Tenant(payer), limit)
        except http.CallFailed as error:
            raise CallFailed(str(error)) from error
        if len(answer.body) < _HEAVY:
            return _decode(answer)
        async with heavy_turn(payer):
            return _decode(answer)


def _decode(answer: Answer) -> Object:
    """The review in an answer, in the words of a Go client if there is none."""
    text = answer.body
    if not text:
        raise CallFailed(
            f"0-length response with status code: {answer.status} "
            f"and content type: {answer.content_type}"
        )
    if text.count(b"[") + text.count(b"{") > MAX_CONTAINERS:
        raise CallFailed(f"the answer has more than {MAX_CONTAINERS} objects and arrays")
    try:
        review = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise CallFailed(f"couldn't get version/kind; json parse error: {error}") from error
    if not isinstance(review, dict):
        raise CallFailed("couldn't get version/kind; json parse error: not an object")
    return review
