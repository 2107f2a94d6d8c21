"""Requests to one server with the credentials of a kubeconfig: JSON in, JSON out."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

import orjson

from pykcp.client.credentials import ClientCredentials
from pykcp.clients.errors import SendFailed
from pykcp.clients.http.client import HttpClient
from pykcp.clients.http.interface import Server
from pykcp.clients.http.response import HttpResponse
from pykcp.clients.http.trust import Trust
from pykcp.clients.kubeconfig import KubeconfigServer, make_context
from pykcp.clients.remote.client import pause_before_repeat
from pykcp.clients.remote.errors import error_of
from pykcp.clients.remote.paths import with_query
from pykcp.machinery.status import ServiceUnavailable
from pykcp.types import Object

JSON = "application/json"
Query = Mapping[str, str | int | None]
_MOST_BYTES = 1 << 30
_REPEATS = 10


class Transport:
    """The connections to one server. They open with the first request."""

    def __init__(self, endpoint: KubeconfigServer, manager: str, url: str = "") -> None:
        """`url`: another server that accepts the same credentials."""
        self.manager = manager
        self._credentials = ClientCredentials(endpoint)
        parts = urlsplit(url or endpoint.url)
        self.url = f"{parts.scheme}://{parts.netloc}"
        self._http = self._connections()
        self._replaced: list[HttpClient] = []
        """Connections with a certificate that a plugin has replaced since."""

    @property
    def given(self) -> KubeconfigServer:
        """The server as the kubeconfig describes it."""
        return self._credentials.given

    def _connections(self) -> HttpClient:
        """They show the certificate that is in use at present."""
        endpoint, parts = self._credentials.endpoint, urlsplit(self.url)
        is_tls = parts.scheme == "https"
        self._certificate = endpoint.certificate
        return HttpClient(
            Server(
                parts.scheme,
                parts.hostname or "",
                parts.port or (443 if is_tls else 80),
                Trust(lambda: make_context(endpoint), endpoint.files) if is_tls else None,
                endpoint.server_name,
            )
        )

    async def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        form: str = JSON,
        accept: str = JSON,
        query: Query | None = None,
    ) -> Object:
        """The JSON of a successful answer; StatusError otherwise.

        An answer 429 or 503 that says when to come back is waited for: the server has not acted.
        """
        target = with_query(path, query or {})
        data = b"" if body is None else orjson.dumps(body)
        for attempt in range(_REPEATS + 1):
            response = await self._request(method, target, data, form, accept)
            answer = await self._read(response)
            if response.status < 400:
                found: Object = orjson.loads(answer)
                return found
            pause = pause_before_repeat(response)
            if pause is None or attempt == _REPEATS:
                raise error_of(response.status, answer)
            await asyncio.sleep(pause)
        raise AssertionError

    async def lines(
        self, path: str, query: Query, on_answer: Callable[[], None] | None = None
    ) -> AsyncIterator[bytes]:
        """The lines of an answer as they arrive. Raises StatusError.

        `on_answer` is called when the request is accepted: the first line may be a minute away.
        """
        response = await self._request("GET", with_query(path, query))
        try:
            if response.status >= 400:
                raise error_of(response.status, await self._read(response))
            if on_answer is not None:
                on_answer()
            rest = b""
            async for chunk in response.chunks():
                *complete, rest = (rest + chunk).split(b"\n")
                for line in complete:
                    if line:
                        yield line
        except SendFailed as error:
            raise _unreachable(error) from error
        finally:
            response.close()

    async def _request(
        self, method: str, target: str, body: bytes = b"", form: str = JSON, accept: str = JSON
    ) -> HttpResponse:
        headers = [("accept", accept), ("user-agent", f"pykcp-client/{self.manager}")]
        if body:
            headers.append(("content-type", form))
        authorization = await self._credentials.authorization()
        if authorization:
            headers.append(("authorization", authorization))
        if self._certificate != self._credentials.endpoint.certificate:
            self._replace_connections()
        try:
            return await self._http.request(method, target, headers, body)
        except SendFailed as error:
            raise _unreachable(error) from error

    def _replace_connections(self) -> None:
        """A plugin gave another certificate. What is under way ends with the one it began with."""
        for old in [old for old in self._replaced if old.is_idle]:
            old.close()
            self._replaced.remove(old)
        self._replaced.append(self._http)
        self._http = self._connections()

    async def _read(self, response: HttpResponse) -> bytes:
        try:
            return await response.read(_MOST_BYTES)
        except SendFailed as error:
            raise _unreachable(error) from error

    def close(self) -> None:
        for http in (self._http, *self._replaced):
            http.close()


def _unreachable(error: SendFailed) -> ServiceUnavailable:
    return ServiceUnavailable(f"the server cannot be reached: {error}")
