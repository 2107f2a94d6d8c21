"""A real HTTPS server in a thread, answering as a test says: for webhooks and issuers."""

from __future__ import annotations

import asyncio
import gc
import inspect
import json
import pathlib
import ssl
import tempfile
import threading
import time
import warnings
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from pykcp.auth.certificates import KeyPair, create_ca, issue_serving


@dataclass(frozen=True, slots=True)
class Received:
    """A request that came in."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    client: str
    """The common name of the client's certificate; "" without one."""
    query: str = ""

    @property
    def json(self) -> Any:
        return json.loads(self.body)


Answer = web.StreamResponse | dict[str, Any] | bytes
Respond = Callable[[Received], Answer | Awaitable[Answer]]


class HTTPSServer:
    """Serves `https://127.0.0.1:<port>`; `on(path, respond)` says what is answered where.

    A dict is answered as JSON, bytes as they are; a coroutine function may take its time.
    """

    def __init__(self, client_ca: KeyPair | None = None) -> None:
        """With a `client_ca` clients must show a certificate of it."""
        now = time.time()
        self._authority = create_ca("test-https", now)
        self._serving = issue_serving(self._authority, ["127.0.0.1", "localhost"], now)
        self._client_ca = client_ca
        self._responders: dict[str, Respond] = {}
        self.received: list[Received] = []
        self.port = 0
        self._loop = asyncio.new_event_loop()
        self._is_up = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        if not self._is_up.wait(10):
            raise RuntimeError("the test's HTTPS server did not start")

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    @property
    def ca(self) -> str:
        """The authority to trust, as PEM."""
        return self._authority.certificate.decode()

    @property
    def leaf(self) -> str:
        """The serving certificate itself, as PEM."""
        end = "-----END CERTIFICATE-----"
        return self._serving.certificate.decode().partition(end)[0] + end + "\n"

    def on(self, path: str, respond: Respond) -> str:
        """The URL at which `respond` answers."""
        self._responders[path] = respond
        return self.url + path

    def count(self, path: str) -> int:
        """How many requests came for a path."""
        return sum(1 for one in self.received if one.path == path)

    def close(self) -> None:
        """Once is enough, twice does no harm."""
        if self._loop.is_closed():
            return
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop)
        self._thread.join(10)
        if self._thread.is_alive():  # a request that is still being answered
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(10)
        self._loop.close()
        # Connections whose end this side has not seen are closed by garbage collection: here, where
        # that is expected, rather than with a warning in whatever test is running then.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            gc.collect()

    def _run(self) -> None:
        self._loop.run_until_complete(self._serve())
        self._loop.run_forever()

    async def _serve(self) -> None:
        application = web.Application(client_max_size=1 << 24)
        application.router.add_route("*", "/{path:.*}", self._answer)
        self._runner = web.AppRunner(application, shutdown_timeout=0)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=self._context())
        await site.start()
        self.port = self._runner.addresses[0][1]
        self._is_up.set()

    def _context(self) -> ssl.SSLContext:
        serving = self._serving
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        with tempfile.TemporaryDirectory() as folder:
            certificate, key = pathlib.Path(folder, "crt"), pathlib.Path(folder, "key")
            certificate.write_bytes(serving.certificate)
            key.write_bytes(serving.key)
            context.load_cert_chain(certificate, key)
        if self._client_ca is not None:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(cadata=self._client_ca.certificate.decode())
        return context

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        received = Received(
            request.method,
            request.path,
            {name.lower(): value for name, value in request.headers.items()},
            await request.read(),
            _common_name(request),
            request.query_string,
        )
        self.received.append(received)
        respond = self._responders.get(request.path)
        if respond is None:
            return web.Response(status=404)
        answer = respond(received)
        if inspect.isawaitable(answer):
            answer = await answer
        if isinstance(answer, web.StreamResponse):
            return answer
        if isinstance(answer, bytes):
            return web.Response(body=answer, content_type="application/json")
        return web.json_response(answer)

    async def _stop(self) -> None:
        for site in list(self._runner.sites):
            await site.stop()
        await asyncio.sleep(0)  # what was accepted begins, so that it can be ended
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()  # answers that take for ever
        await self._runner.cleanup()
        # Connections whose handshake goes on are not the runner's yet; nobody else closes them.
        for transport in list(getattr(self._loop, "_transports", {}).values()):
            transport.abort()
        await asyncio.sleep(0)
        self._loop.stop()


def _common_name(request: web.Request) -> str:
    transport = request.transport
    shown = transport.get_extra_info("peercert") if transport is not None else None
    for part in (shown or {}).get("subject", ()):
        for key, value in part:
            if key == "commonName":
                return str(value)
    return ""
