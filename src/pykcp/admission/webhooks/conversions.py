"""Conversion webhooks are called as admission webhooks are: by the same client."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

import orjson

from pykcp.registry.conversion_review import CallFailed, Endpoint
from pykcp.types import Object

if TYPE_CHECKING:
    from pykcp.admission.webhooks.client import ServiceResolver, WebhookClient
    from pykcp.admission.webhooks.webhook import Service


@dataclass(frozen=True, slots=True)
class _Target:
    url: str
    service: Service | None
    ca_bundle: bytes
    timeout: int


class ConversionCalls:
    """Posts conversion reviews; the HTTP client is imported for the first one."""

    def __init__(self, resolve: ServiceResolver | None = None) -> None:
        self._resolve = resolve
        self._client: WebhookClient | None = None

    async def __call__(self, endpoint: Endpoint, body: bytes) -> Object:
        from pykcp.admission.webhooks import client as http
        from pykcp.admission.webhooks.webhook import Service

        if self._client is None:
            self._client = http.WebhookClient(self._resolve)
        service = endpoint.service
        found = None
        if service is not None:
            found = Service(service.namespace, service.name, service.path, service.port)
        target = _Target(endpoint.url, found, endpoint.ca_bundle, endpoint.timeout)
        try:
            answer = await self._client.answer(target, body)
        except http.CallFailed as error:
            raise CallFailed(str(error)) from error
        return _decode(*answer)

    async def run(self) -> None:
        """Ends with the process, and ends the connections to webhooks with it."""
        try:
            await asyncio.Event().wait()
        finally:
            await self.close()

    async def close(self) -> None:
        if self._client is not None:
            await self._client.close()


def _decode(status: int, content_type: str, text: bytes) -> Object:
    """The review in an answer, in the words of a Go client if there is none."""
    if not text:
        raise CallFailed(
            f"0-length response with status code: {status} and content type: {content_type}"
        )
    try:
        review = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise CallFailed(f"couldn't get version/kind; json parse error: {error}") from error
    if not isinstance(review, dict):
        raise CallFailed("couldn't get version/kind; json parse error: not an object")
    return review
