"""A listener with a small application, its certificates, and clients that speak to it.

Every test here runs on both event loops.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import ipaddress
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import h2.config
import h2.connection
import h2.events
import hpack
import pytest
import uvloop
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from pykcp.wire.exchange import Exchange, IncomingRequest, Stream
from pykcp.wire.http2 import frames
from pykcp.wire.listener import Listener
from pykcp.wire.settings import TLSSettings, WireSettings

PATIENCE = 10.0
"""Seconds after which a test that waits for the server has failed."""


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"uvloop": uvloop.new_event_loop, "asyncio": asyncio.new_event_loop}


# -- certificates ----------------------------------------------------------------------------------


class Authority:
    """A certificate authority for tests."""

    def __init__(self, name: str) -> None:
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self.certificate = self._sign(self.name, self.key.public_key(), is_ca=True)

    def _sign(self, subject: x509.Name, key: Any, is_ca: bool = False) -> x509.Certificate:
        now = dt.datetime.now(dt.UTC)
        names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self.name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - dt.timedelta(hours=1))
            .not_valid_after(now + dt.timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=is_ca, path_length=None), critical=True)
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .sign(self.key, hashes.SHA256())
        )

    def issue(self, directory: Path, name: str) -> bytes:
        """Write `name.crt` and `name.key`; the certificate as DER."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        certificate = self._sign(subject, key.public_key())
        (directory / f"{name}.crt").write_bytes(pem(certificate) + pem(self.certificate))
        (directory / f"{name}.key").write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        return certificate.public_bytes(serialization.Encoding.DER)


def pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


@dataclass
class Certificates:
    directory: Path
    authority: Authority
    client: bytes = b""
    foreign_client: bytes = b""

    @property
    def tls(self) -> TLSSettings:
        return TLSSettings(
            str(self.directory / "server.crt"),
            str(self.directory / "server.key"),
            reload_interval=0.0,
        )

    def client_context(self, client: str | None = None, alpn: str = "h2") -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=str(self.directory / "ca.crt"))
        context.set_alpn_protocols([alpn])
        if client is not None:
            context.load_cert_chain(
                self.directory / f"{client}.crt", self.directory / f"{client}.key"
            )
        return context


@pytest.fixture
def certificates(tmp_path: Path) -> Certificates:
    authority = Authority("test-ca")
    (tmp_path / "ca.crt").write_bytes(pem(authority.certificate))
    authority.issue(tmp_path, "server")
    client = authority.issue(tmp_path, "client")
    foreign = Authority("foreign-ca").issue(tmp_path, "foreign")
    return Certificates(tmp_path, authority, client, foreign)


# -- the application -------------------------------------------------------------------------------

TEXT = (("content-type", "text/plain"),)


@dataclass
class Hello:
    """An application with one path per thing to be tried."""

    requests: list[IncomingRequest] = field(default_factory=list)
    streams: list[Stream] = field(default_factory=list)
    finished: list[str] = field(default_factory=list)
    """What happened to handlers that waited: `done`, `cancelled`, `closed`."""
    happened: asyncio.Event = field(default_factory=asyncio.Event)
    gate: asyncio.Event = field(default_factory=asyncio.Event)

    def wants_streaming(self, request: IncomingRequest) -> bool:
        return request.path.startswith("/stream")

    def identify(self, exchange: Any) -> bool:
        return True

    def handle(self, exchange: Exchange) -> Coroutine[Any, Any, None] | None:
        self.requests.append(exchange.request)
        self.happened.set()
        name = exchange.request.path.strip("/").replace("-", "_") or "hello"
        handler: Any = getattr(self, name, None)
        if handler is None:
            exchange.respond(404, TEXT, b"not found\n")
            return None
        result: Coroutine[Any, Any, None] | None = handler(exchange)
        return result

    def hello(self, exchange: Exchange) -> None:
        exchange.respond(200, TEXT, b"hello\n")

    def echo(self, exchange: Exchange) -> None:
        request = exchange.request
        if request.truncated:
            exchange.respond(413, TEXT, b"too large\n")
        else:
            exchange.respond(200, TEXT, request.body)

    def parts(self, exchange: Exchange) -> None:
        count, size = map(int, exchange.request.query.split(","))
        exchange.respond(200, TEXT, [b"x" * size] * count)

    def boom(self, exchange: Exchange) -> None:
        raise ValueError("boom")

    def forgets(self, exchange: Exchange) -> None:
        pass

    def bad_header(self, exchange: Exchange) -> None:
        exchange.respond(200, (("x", "a\r\nb: c"),), b"")

    def no_content(self, exchange: Exchange) -> None:
        exchange.respond(204, ())

    def closes(self, exchange: Exchange) -> None:
        exchange.respond(200, (("connection", "close"), *TEXT), b"bye\n")

    def peer(self, exchange: Exchange) -> None:
        peer = exchange.request.peer
        peer.memo["count"] = peer.memo.get("count", 0) + 1
        text = f"{peer.protocol} {peer.address} {peer.memo['count']} {peer.certificate is not None}"
        exchange.respond(200, TEXT, text.encode())

    async def async_boom(self, exchange: Exchange) -> None:
        await asyncio.sleep(0)
        raise ValueError("boom")

    async def late_boom(self, exchange: Exchange) -> None:
        exchange.start(200, TEXT).write(b"so far\n")
        await asyncio.sleep(0)
        raise ValueError("boom")

    async def slow(self, exchange: Exchange) -> None:
        await asyncio.sleep(0.01)
        exchange.respond(200, TEXT, b"slow\n")

    async def gated(self, exchange: Exchange) -> None:
        await self.gate.wait()
        exchange.respond(200, TEXT, b"gated\n")

    async def waits(self, exchange: Exchange) -> None:
        """For ever, or until the client goes."""
        self.note("started")
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            self.note("cancelled")
            raise

    def watch(self, exchange: Exchange) -> None:
        """The stream is left to the test."""
        stream = exchange.start(200, TEXT)
        stream.on_close(lambda: self.note("closed"))
        self.streams.append(stream)
        self.happened.set()

    async def floods(self, exchange: Exchange) -> None:
        """As much as the client takes."""
        stream = exchange.start(200, TEXT)
        self.streams.append(stream)
        try:
            while True:
                stream.write(b"x" * 65536)
                await stream.drain()
        except (ConnectionError, asyncio.CancelledError):
            self.note("gone")
            raise

    async def stream(self, exchange: Exchange) -> None:
        size = 0
        try:
            async for chunk in exchange.request.chunks():
                size += len(chunk)
        except (ConnectionError, asyncio.CancelledError):
            self.note("broken off")
            raise
        exchange.respond(200, TEXT, b"%d" % size)

    async def stream_echo(self, exchange: Exchange) -> None:
        """Both ways at once."""
        stream = exchange.start(200, TEXT)
        async for chunk in exchange.request.chunks():
            stream.write(chunk)
            await stream.drain()
        stream.end()

    async def stream_ignored(self, exchange: Exchange) -> None:
        """Answers without reading."""
        await asyncio.sleep(0)
        exchange.respond(403, TEXT, b"no\n")

    async def stream_unread(self, exchange: Exchange) -> None:
        """Never reads, never answers."""
        await self.waits(exchange)

    def note(self, what: str) -> None:
        self.finished.append(what)
        self.happened.set()

    async def wait_for(self, *what: str) -> None:
        """Until these have happened."""
        await self._until(lambda: all(each in self.finished for each in what))

    async def wait_for_streams(self, count: int) -> None:
        await self._until(lambda: len(self.streams) >= count)

    async def wait_for_requests(self, count: int) -> None:
        await self._until(lambda: len(self.requests) >= count)

    async def _until(self, is_so: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not is_so():
                self.happened.clear()
                await self.happened.wait()


@pytest.fixture
async def hello() -> Hello:
    return Hello()


Serve = Callable[..., Awaitable[Listener]]


@pytest.fixture
async def serve(hello: Hello, certificates: Certificates) -> AsyncIterator[Serve]:
    """Start a listener: `await serve(plain=True, idle_timeout=1.0, …)`."""
    listeners: list[Listener] = []

    async def start(
        application: Any = None,
        plain: bool = False,
        tls: TLSSettings | None = None,
        **settings: Any,
    ) -> Listener:
        tls = None if plain else tls or certificates.tls
        listener = Listener(application or hello, WireSettings(**settings), tls=tls)
        listeners.append(await listener.start("127.0.0.1", 0))
        return listener

    yield start
    for listener in listeners:
        await listener.close()
        assert listener.connection_count == 0


# -- clients ---------------------------------------------------------------------------------------


class Octets:
    """A connection on which a test writes and reads what it wants."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    async def read_until(self, separator: bytes) -> bytes:
        async with asyncio.timeout(PATIENCE):
            return await self.reader.readuntil(separator)

    async def read(self, size: int) -> bytes:
        async with asyncio.timeout(PATIENCE):
            return await self.reader.readexactly(size)

    async def read_to_end(self) -> bytes:
        """Everything until the server closes."""
        data = b""
        async with asyncio.timeout(PATIENCE):
            with contextlib.suppress(ConnectionError):
                while piece := await self.reader.read(65536):
                    data += piece
        return data

    async def close(self) -> None:
        self.writer.close()
        with contextlib.suppress(ConnectionError, ssl.SSLError, TimeoutError):
            await asyncio.wait_for(self.writer.wait_closed(), PATIENCE)


class RawHttp2(Octets):
    """HTTP/2 frame by frame."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        super().__init__(reader, writer)
        self.encoder = hpack.Encoder()
        self.decoder = hpack.Decoder()

    async def greet(self, values: dict[int, int] | None = None) -> None:
        self.send(frames.PREFACE + frames.settings(values or {}))
        while await self.next_frame() != (frames.SETTINGS, 1, 0, b""):
            pass

    def request(
        self,
        stream_id: int,
        path: str = "/",
        *fields: tuple[str, str],
        method: str = "GET",
        ends: bool = True,
    ) -> None:
        pseudo = [(":method", method), (":scheme", "https"), (":path", path), (":authority", "h")]
        block = self.encoder.encode([*pseudo, *fields])
        self.send(frames.frame(frames.HEADERS, 5 if ends else 4, stream_id, block))

    async def next_frame(self) -> tuple[int, int, int, bytes]:
        word, flags, stream_id = frames.HEADER.unpack(await self.read(9))
        return word & 0xFF, flags, stream_id, await self.read(word >> 8)

    async def next_of(self, *kinds: int) -> tuple[int, int, int, bytes]:
        """The next frame of one of these kinds; others are skipped."""
        while True:
            found = await self.next_frame()
            if found[0] in kinds:
                return found

    async def answer(self, stream_id: int) -> tuple[int, bytes]:
        """Status and body of one stream; frames of others are skipped."""
        status, body = 0, b""
        while True:
            kind, flags, found, payload = await self.next_frame()
            if kind == frames.HEADERS:
                fields = self.decoder.decode(payload)
                status = int(fields[0][1]) if found == stream_id else status
            elif kind == frames.DATA and found == stream_id:
                body += payload
            elif kind == frames.RST_STREAM and found == stream_id:
                raise ConnectionResetError(frames.U32.unpack(payload)[0])
            elif kind == frames.GOAWAY:
                raise ConnectionAbortedError(frames.TWO_U32.unpack_from(payload))
            if found == stream_id and kind in (0, 1) and flags & 1:
                return status, body

    async def goaway_code(self) -> int:
        """The code with which the server says goodbye; it must then close."""
        _, _, _, payload = await self.next_of(frames.GOAWAY)
        await self.read_to_end()
        code: int = frames.TWO_U32.unpack_from(payload)[1]
        return code


class H2Client(Octets):
    """A client made of the `h2` library."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        super().__init__(reader, writer)
        self.h2 = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding="utf-8"))
        self.h2.initiate_connection()
        self.headers: dict[int, dict[str, str]] = {}
        self.bodies: dict[int, bytearray] = {}
        self.ended: set[int] = set()
        self.resets: dict[int, int] = {}
        self.terminated: h2.events.ConnectionTerminated | None = None

    def start(self, method: str, path: str, headers: Any = (), ends: bool = True) -> int:
        stream_id = self.h2.get_next_available_stream_id()
        fields = [(":method", method), (":scheme", "https"), (":path", path), (":authority", "h")]
        self.h2.send_headers(stream_id, [*fields, *headers], end_stream=ends)
        self.bodies[stream_id] = bytearray()
        self.flush()
        return stream_id

    def flush(self) -> None:
        if data := self.h2.data_to_send():
            self.send(data)

    async def pump(self) -> None:
        """Take in what the server sends next."""
        async with asyncio.timeout(PATIENCE):
            data = await self.reader.read(65536)
        if not data:
            raise ConnectionError("server closed")
        for event in self.h2.receive_data(data):
            if isinstance(event, h2.events.ResponseReceived):
                self.headers[event.stream_id] = dict(event.headers)
            elif isinstance(event, h2.events.DataReceived):
                self.bodies[event.stream_id] += event.data
                self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            elif isinstance(event, h2.events.StreamEnded):
                self.ended.add(event.stream_id)
            elif isinstance(event, h2.events.StreamReset):
                self.resets[event.stream_id] = event.error_code
            elif isinstance(event, h2.events.ConnectionTerminated):
                self.terminated = event
        self.flush()

    async def send_body(self, stream_id: int, body: bytes) -> None:
        while body and stream_id not in self.resets and stream_id not in self.ended:
            room = min(self.h2.local_flow_control_window(stream_id), 16384)
            if room:
                self.h2.send_data(stream_id, body[:room])
                body = body[room:]
                self.flush()
            else:
                await self.pump()
        if stream_id not in self.resets and stream_id not in self.ended:
            self.h2.end_stream(stream_id)
            self.flush()

    async def finish(self, stream_id: int) -> tuple[int, bytes]:
        while stream_id not in self.ended and stream_id not in self.resets:
            await self.pump()
        if stream_id in self.resets and stream_id not in self.ended:
            raise ConnectionResetError(self.resets[stream_id])
        return int(self.headers[stream_id][":status"]), bytes(self.bodies[stream_id])

    async def request(
        self, method: str, path: str, headers: Any = (), body: bytes | None = None
    ) -> tuple[int, bytes]:
        stream_id = self.start(method, path, headers, ends=body is None)
        if body is not None:
            await self.send_body(stream_id, body)
        return await self.finish(stream_id)


@dataclass
class Connect:
    """Opens connections to a listener and closes them after the test."""

    certificates: Certificates
    opened: list[Octets] = field(default_factory=list)

    async def _open(self, kind: Any, listener: Listener, alpn: str, client: str | None) -> Any:
        context = None
        if listener._tls is not None:
            context = self.certificates.client_context(client, alpn)
        reader, writer = await asyncio.open_connection("127.0.0.1", listener.port, ssl=context)
        connection = kind(reader, writer)
        self.opened.append(connection)
        return connection

    async def http1(self, listener: Listener, client: str | None = None) -> Octets:
        found: Octets = await self._open(Octets, listener, "http/1.1", client)
        return found

    async def raw(self, listener: Listener, **values: int) -> RawHttp2:
        found: RawHttp2 = await self._open(RawHttp2, listener, "h2", None)
        await found.greet({getattr(frames, name): value for name, value in values.items()})
        return found

    async def h2(self, listener: Listener, client: str | None = None) -> H2Client:
        found: H2Client = await self._open(H2Client, listener, "h2", client)
        found.flush()
        return found


@pytest.fixture
async def connect(certificates: Certificates) -> AsyncIterator[Connect]:
    connect = Connect(certificates)
    yield connect
    for connection in connect.opened:
        await connection.close()
