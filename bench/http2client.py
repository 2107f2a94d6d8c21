"""A small HTTP/2 client that costs little: what a benchmark needs and nothing else.

It opens its windows wide, encodes headers once, and counts what comes back.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable

from hpack import Decoder, Encoder

_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DATA, _HEADERS, _RESET, _SETTINGS, _PING, _GOAWAY, _WINDOW = 0, 1, 3, 4, 6, 7, 8
_END_STREAM, _END_HEADERS, _ACK = 1, 4, 1
_WIDE = 2**31 - 1


def _frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    head = len(payload).to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big")
    return head + payload


class Reply:
    __slots__ = ("body", "done", "on_data", "status")

    def __init__(
        self, done: asyncio.Future[Reply], on_data: Callable[[bytes], None] | None
    ) -> None:
        self.status = 0
        self.body: list[bytes] = []
        self.done = done
        self.on_data = on_data

    def content(self) -> bytes:
        return b"".join(self.body)


class Connection(asyncio.Protocol):
    """One connection; requests may be in progress side by side."""

    def __init__(self, host: str, headers: list[tuple[str, str]]) -> None:
        self._host = host
        self._headers = headers
        self._encoder, self._decoder = Encoder(), Decoder()
        self._buffer = bytearray()
        self._streams: dict[int, Reply] = {}
        self._next = 1
        self._taken = 0
        self._window = 65535
        self._waiting: list[bytes] = []
        self._is_lost = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: asyncio.Transport = transport  # type: ignore[assignment]
        settings = (4).to_bytes(2, "big") + _WIDE.to_bytes(4, "big")
        self._transport.write(
            _PREFACE
            + _frame(_SETTINGS, 0, 0, settings)
            + _frame(_WINDOW, 0, 0, (_WIDE - 65535).to_bytes(4, "big"))
        )

    def request(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        content_type: str = "application/json",
        on_data: Callable[[bytes], None] | None = None,
    ) -> asyncio.Future[Reply]:
        stream, self._next = self._next, self._next + 2
        headers = [
            (":method", method),
            (":scheme", "https"),
            (":authority", self._host),
            (":path", path),
            *self._headers,
        ]
        if body:
            headers.append(("content-type", content_type))
        block = self._encoder.encode(headers)
        done: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self._streams[stream] = Reply(done, on_data)
        flags = _END_HEADERS | (0 if body else _END_STREAM)
        out = _frame(_HEADERS, flags, stream, block)
        if body:
            self._window -= len(body)
            out += _frame(_DATA, _END_STREAM, stream, body)
        if self._window < 0:
            self._waiting.append(out)
        else:
            self._transport.write(out)
        return done

    def data_received(self, data: bytes) -> None:
        buffer = self._buffer
        buffer += data
        at = 0
        while len(buffer) - at >= 9:
            size = int.from_bytes(buffer[at : at + 3], "big")
            if len(buffer) - at - 9 < size:
                break
            kind, flags = buffer[at + 3], buffer[at + 4]
            stream = int.from_bytes(buffer[at + 5 : at + 9], "big")
            self._on_frame(kind, flags, stream, bytes(buffer[at + 9 : at + 9 + size]))
            at += 9 + size
        del buffer[:at]
        if self._taken > 1 << 24:
            self._transport.write(_frame(_WINDOW, 0, 0, self._taken.to_bytes(4, "big")))
            self._taken = 0

    def _on_frame(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        if kind == _DATA:
            self._taken += len(payload)
            self._on_data(stream, payload, ended=bool(flags & _END_STREAM))
        elif kind == _HEADERS:
            self._on_headers(stream, payload, ended=bool(flags & _END_STREAM))
        elif kind == _SETTINGS and not flags & _ACK:
            self._transport.write(_frame(_SETTINGS, _ACK, 0))
        elif kind == _PING and not flags & _ACK:
            self._transport.write(_frame(_PING, _ACK, 0, payload))
        elif kind == _WINDOW and stream == 0:
            self._window += int.from_bytes(payload, "big")
            while self._waiting and self._window >= 0:
                self._transport.write(self._waiting.pop(0))
        elif kind == _RESET and stream in self._streams:
            self._fail(stream, ConnectionError(f"stream reset: {payload.hex()}"))
        elif kind == _GOAWAY:
            self._fail_all(ConnectionError(f"server goes away: {payload[8:]!r}"))

    def _on_headers(self, stream: int, block: bytes, *, ended: bool) -> None:
        fields = dict(self._decoder.decode(block))
        reply = self._streams.get(stream)
        if reply is None:
            return
        reply.status = int(fields.get(":status", "0"))
        if reply.on_data is not None and not reply.done.done():
            reply.done.set_result(reply)
        if ended:
            self._finish(stream)

    def _on_data(self, stream: int, payload: bytes, *, ended: bool) -> None:
        reply = self._streams.get(stream)
        if reply is None:
            return
        if reply.on_data is not None:
            reply.on_data(payload)
        else:
            reply.body.append(payload)
        if ended:
            self._finish(stream)

    def _finish(self, stream: int) -> None:
        reply = self._streams.pop(stream)
        if not reply.done.done():
            reply.done.set_result(reply)

    def _fail(self, stream: int, error: Exception) -> None:
        reply = self._streams.pop(stream)
        if not reply.done.done():
            reply.done.set_exception(error)

    def _fail_all(self, error: Exception) -> None:
        for stream in list(self._streams):
            self._fail(stream, error)

    def connection_lost(self, exc: Exception | None) -> None:
        self._fail_all(ConnectionError(f"connection lost: {exc}"))
        self._is_lost.set()

    def close(self) -> None:
        self._transport.close()

    async def wait_closed(self) -> None:
        await self._is_lost.wait()


async def connect(
    host: str, port: int, context: ssl.SSLContext, headers: list[tuple[str, str]]
) -> Connection:
    loop = asyncio.get_running_loop()
    _, protocol = await loop.create_connection(
        lambda: Connection(f"{host}:{port}", headers), host, port, ssl=context, server_hostname=host
    )
    return protocol
