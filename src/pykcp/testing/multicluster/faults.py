"""Proxies that break connections on command: one per link between a client and a server.

`TcpFaults` passes octets on and knows nothing of them: cut, half-open, delay, truncate.
`HttpFaults` answers for the server now and then: 429, 500, 503, 410, slow lists. It terminates TLS
and keeps a record of the requests.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import ssl
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Self

import aiohttp
from aiohttp import web

from pykcp.aio.owner import spawn
from pykcp.auth.certificates import create_ca, issue_serving
from pykcp.testing.faults.looping import LoopThread
from pykcp.testing.kubeconfig import Access

_PIECE = 1 << 16


class TcpFaults:
    """A TCP proxy to a port of this machine."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._looping = LoopThread()
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.is_cut = False
        self.is_silent = False
        """Connections stay open, and nothing passes: half-open."""
        self.delay = 0.0
        self.truncate_after = 0
        """Octets from the server after which a connection ends; 0: never."""
        self.port = self._looping.call(self._listen())

    async def _listen(self) -> int:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.is_cut:
            writer.transport.abort()
            return
        try:
            onward = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:
            writer.transport.abort()
            return
        self._writers |= {writer, onward[1]}
        both = [
            spawn(self._pass(reader, onward[1], is_answer=False), "fault-proxy/request"),
            spawn(self._pass(onward[0], writer, is_answer=True), "fault-proxy/answer"),
        ]
        self._tasks |= set(both)
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        for one in (writer, onward[1]):
            one.transport.abort()
            self._writers.discard(one)
        for task in both:
            task.cancel()
            self._tasks.discard(task)

    async def _pass(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, is_answer: bool
    ) -> None:
        passed = 0
        with contextlib.suppress(OSError):
            while piece := await reader.read(_PIECE):
                if self.delay:
                    await asyncio.sleep(self.delay)
                while self.is_silent:  # noqa: ASYNC110  # set by another thread
                    await asyncio.sleep(0.05)
                passed += len(piece)
                if is_answer and self.truncate_after and passed > self.truncate_after:
                    return
                writer.write(piece)
                await writer.drain()

    def cut(self) -> None:
        """Break all connections and accept no more."""
        self.is_cut = True
        self._looping.call(self._abort())

    def break_all(self) -> None:
        """Break all connections; new ones work."""
        self._looping.call(self._abort())

    async def _abort(self) -> None:
        for writer in list(self._writers):
            writer.transport.abort()

    def heal(self) -> None:
        self.is_cut = self.is_silent = False
        self.delay, self.truncate_after = 0.0, 0

    def close(self) -> None:
        self._looping.call(self._end())
        self._looping.end()

    async def _end(self) -> None:
        self._server.close()
        await self._abort()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.sleep(0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class SeenRequest(NamedTuple):
    """A request that passed, or was answered by the proxy."""

    at: float
    method: str
    path: str
    query: str
    body: bytes
    status: int

    @property
    def is_write(self) -> bool:
        return self.method not in ("GET", "HEAD", "OPTIONS")

    @property
    def is_list(self) -> bool:
        return self.method == "GET" and "watch=" not in self.query


Verdict = Callable[[web.Request], web.StreamResponse | Awaitable[web.StreamResponse | None] | None]


@dataclass(slots=True)
class HttpFaultSettings:
    """What goes wrong."""

    error_rate: float = 0.0
    error_status: int = 500
    retry_after: str = ""
    watch_gone: bool = False
    """Watches are answered with 410."""
    list_delay: float = 0.0
    verdict: Verdict | None = None
    """Answers a request itself; None lets it pass."""
    random: random.Random = field(default_factory=lambda: random.Random(7))  # noqa: S311


class HttpFaults:
    """An HTTPS proxy to a server; `authority` has to be trusted by its clients."""

    def __init__(self, target: Access) -> None:
        self._target = target
        self._looping = LoopThread()
        self.faults = HttpFaultSettings()
        self.requests: list[SeenRequest] = []
        now = time.time()
        authority = create_ca("test-proxy", now)
        self.authority = authority.certificate.decode()
        self._pair = issue_serving(authority, ["127.0.0.1"], now)
        self.port: int = self._looping.call(self._listen())

    @property
    def access(self) -> Access:
        """How clients reach the server by way of this proxy."""
        target = self._target
        return Access("127.0.0.1", self.port, target.path, self.authority, target.token)

    async def _listen(self) -> int:
        onward = ssl.create_default_context(cadata=self._target.ca)
        connector = aiohttp.TCPConnector(ssl=onward, limit=0)
        self._session = aiohttp.ClientSession(connector=connector, auto_decompress=False)
        own = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        with tempfile.TemporaryDirectory() as folder:
            certificate, key = Path(folder) / "crt", Path(folder) / "key"
            certificate.write_bytes(self._pair.certificate)
            key.write_bytes(self._pair.key)
            own.load_cert_chain(certificate, key)
        application = web.Application(client_max_size=1 << 26)
        application.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=own)
        await site.start()
        port: int = self._runner.addresses[0][1]
        return port

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        at = len(self.requests)
        seen = SeenRequest(
            time.monotonic(), request.method, request.path, request.query_string, body, 0
        )
        self.requests.append(seen)
        answer = await self._fault(request)
        if answer is not None:
            self.requests[at] = seen._replace(status=answer.status)
            return answer
        return await self._pass(request, body, at, seen)

    async def _fault(self, request: web.Request) -> web.StreamResponse | None:
        faults = self.faults
        if faults.verdict is not None:
            found = faults.verdict(request)
            decided = await found if isinstance(found, Awaitable) else found
            if decided is not None:
                return decided
        is_watch = "watch" in request.query
        if faults.watch_gone and is_watch and "sendInitialEvents" not in request.query:
            return status_answer(410, "Expired", "too old resource version")
        if faults.list_delay and request.method == "GET" and not is_watch:
            await asyncio.sleep(faults.list_delay)
        if faults.error_rate and faults.random.random() < faults.error_rate:
            answer = status_answer(faults.error_status, "InternalError", "a fault of the test")
            if faults.retry_after:
                answer.headers["Retry-After"] = faults.retry_after
            return answer
        return None

    async def _pass(
        self, request: web.Request, body: bytes, at: int, seen: SeenRequest
    ) -> web.StreamResponse:
        url = f"https://{self._target.host}:{self._target.port}{request.raw_path}"
        headers = {k: v for k, v in request.headers.items() if k.lower() not in _HOP}
        timeout = aiohttp.ClientTimeout(total=None)
        try:
            async with self._session.request(
                request.method,
                url,
                data=body or None,
                headers=headers,
                timeout=timeout,
                skip_auto_headers=("Accept-Encoding",),  # the client decides whether it takes gzip
            ) as reply:
                self.requests[at] = seen._replace(status=reply.status)
                kept = {k: v for k, v in reply.headers.items() if k.lower() not in _HOP}
                answer = web.StreamResponse(status=reply.status, headers=kept)
                await answer.prepare(request)
                async for piece in reply.content.iter_any():
                    await answer.write(piece)
                await answer.write_eof()
                return answer
        except aiohttp.ClientError as error:
            return status_answer(502, "BadGateway", str(error))

    def close(self) -> None:
        self._looping.call(self._end())
        self._looping.end()

    async def _end(self) -> None:
        await self._session.close()
        # Clients that hold their connections would be waited for at the end of TLS.
        for connection in self._runner.server.connections if self._runner.server else ():
            if connection.transport is not None:
                connection.transport.abort()
        await self._runner.cleanup()
        await asyncio.sleep(0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


_HOP = frozenset(("host", "connection", "transfer-encoding", "content-length", "keep-alive"))


def status_answer(code: int, reason: str, message: str) -> web.Response:
    """A Status as API servers answer it."""
    return web.json_response(
        {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": message,
            "reason": reason,
            "code": code,
        },
        status=code,
    )
