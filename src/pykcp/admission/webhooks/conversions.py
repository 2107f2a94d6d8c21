"""Conversion webhooks are called as admission webhooks are: by the same client."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import orjson

from pykcp.aio.turns import heavy_turn
from pykcp.clients.outbound import Outbound, OutboundResponse, Tenant
from pykcp.registry.conversion.review import ConversionCallFailed, ConversionEndpoint
from pykcp.types import Object

if TYPE_CHECKING:
    from pykcp.admission.webhooks.client import AdmissionWebhookClient, ServiceResolver
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
        self._client: AdmissionWebhookClient | None = None

    async def __call__(self, endpoint: ConversionEndpoint, body: bytes, cluster: str) -> Object:
        from pykcp.admission.webhooks import client as http
        from pykcp.admission.webhooks.webhook import Service

        if self._client is None:
            self._client = http.AdmissionWebhookClient(self._outbound, self._resolve)
        service = endpoint.service
        found = None
        if service is not None:
            found = Service(service.namespace, service.name, service.path, service.port)
        target = _Target(endpoint.url, found, endpoint.ca_bundle, endpoint.timeout)
        payer = cluster or endpoint.url
        limit = max(MIN_ANSWER, 2 * len(body))
        try:
            answer = await self._client.answer(target, (body,), Tenant(payer), limit)
        except http.WebhookCallFailed as error:
            raise ConversionCallFailed(str(error)) from error
        if len(answer.body) < _HEAVY:
            return _decode(answer)
        async with heavy_turn(payer):
            return _decode(answer)


def _decode(answer: OutboundResponse) -> Object:
    """The review in an answer, in the words of a Go client if there is none."""
    text = answer.body
    if not text:
        raise ConversionCallFailed(
            f"0-length response with status code: {answer.status} "
            f"and content type: {answer.content_type}"
        )
    if text.count(b"[") + text.count(b"{") > MAX_CONTAINERS:
        raise ConversionCallFailed(f"the answer has more than {MAX_CONTAINERS} objects and arrays")
    try:
        review = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise ConversionCallFailed(
            f"couldn't get version/kind; json parse error: {error}"
        ) from error
    if not isinstance(review, dict):
        raise ConversionCallFailed("couldn't get version/kind; json parse error: not an object")
    return review
