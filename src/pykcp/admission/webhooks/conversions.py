"""Conversion webhooks are called as admission webhooks are: by the same client."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pykcp.clients.outbound import Outbound, Tenant
from pykcp.registry.conversion.review import ConversionCallFailed, ConversionEndpoint

if TYPE_CHECKING:
    from pykcp.admission.webhooks.client import AdmissionWebhookClient, ServiceResolver
    from pykcp.admission.webhooks.webhook import Service

MIN_ANSWER = 4 * 1024 * 1024
"""An answer may have twice the size of the question, and this in any case."""


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

    async def __call__(self, endpoint: ConversionEndpoint, body: bytes, cluster: str) -> bytes:
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
        if not answer.body:
            raise ConversionCallFailed(
                f"0-length response with status code: {answer.status} "
                f"and content type: {answer.content_type}"
            )
        return answer.body
