"""Answers: bytes and objects to the client, in the form it asked for."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncGenerator, Sequence
from typing import Any

import orjson

from pykcp.clients.where import MISDIRECTED, NOT_HERE, ROUTED
from pykcp.machinery.protobuf.wire import ProtobufError
from pykcp.machinery.status import NotFound, StatusError
from pykcp.registry.resource import LARGE
from pykcp.server.call import Call
from pykcp.server.media import negotiation, protobuf_form
from pykcp.types import Object
from pykcp.wire.exchange import Exchange, Header

CACHE_CONTROL: Header = ("cache-control", "no-cache, private")
JSON_HEADERS: tuple[Header, ...] = (CACHE_CONTROL, ("content-type", "application/json"))
_YAML_HEADERS: tuple[Header, ...] = (CACHE_CONTROL, ("content-type", "application/yaml"))
_PROTOBUF_HEADERS: tuple[Header, ...] = (
    CACHE_CONTROL,
    ("content-type", protobuf_form.CONTENT_TYPE),
)
_HEADERS = {negotiation.YAML: _YAML_HEADERS, negotiation.PROTOBUF: _PROTOBUF_HEADERS}
_TEXT_HEADERS: tuple[Header, ...] = (
    CACHE_CONTROL,
    ("content-type", "text/plain; charset=utf-8"),
    ("x-content-type-options", "nosniff"),
)
GZIP_ABOVE = 128 * 1024


def send_json(
    call: Call, body: bytes | Sequence[bytes], status: int = 200, more: Sequence[Header] = ()
) -> None:
    """JSON bytes as they are, unless the client wants YAML or pretty JSON."""
    accepted = call.accepted
    if (
        accepted.media_type != negotiation.JSON
        or accepted.pretty
        or (call.info.query and wants_pretty(call))
    ):
        send_object(
            call, orjson.loads(body if isinstance(body, bytes) else b"".join(body)), status, more
        )
        return
    headers = with_warnings(call, JSON_HEADERS, more)
    call.exchange.respond(status, headers, body)


def is_plain_json(call: Call) -> bool:
    """Whether stored JSON can be sent as it is."""
    accepted = call.accepted
    is_json = accepted.media_type == negotiation.JSON and not accepted.pretty
    return is_json and not (call.info.query and wants_pretty(call))


def form_headers(call: Call) -> Sequence[Header]:
    """The headers of the media type that the client asked for."""
    return _HEADERS.get(call.accepted.media_type, JSON_HEADERS)


async def send_long(call: Call, parts: Sequence[bytes]) -> None:
    """A long JSON answer that is at hand, as fast as the client takes it."""

    async def pieces() -> AsyncGenerator[bytes, None]:
        for part in parts:
            yield part

    await send_pieces(call, pieces(), [("content-length", str(sum(map(len, parts))))])


async def send_pieces(
    call: Call,
    pieces: AsyncGenerator[bytes, None],
    more: Sequence[Header] = (),
    *,
    form: Sequence[Header] = JSON_HEADERS,
) -> None:
    """A response, mostly JSON, that is produced while the client reads it.

    The request keeps its seat until nearly all of it is sent, so that many large requests wait
    (see `filters.flow_control`) instead of filling the memory. If the client does not read, or
    there is too much unsent data in total, no more is produced.
    """
    exchange = call.exchange
    squeeze = None
    if not more and accepts_gzip(call):
        squeeze = zlib.compressobj(1, zlib.DEFLATED, _GZIP_WINDOW)
        more = GZIP_HEADERS
    stream = exchange.start(200, [*with_warnings(call, form), *more])
    try:
        async for piece in pieces:
            data = piece
            if squeeze is not None:
                data = await asyncio.to_thread(squeeze.compress, piece)
            stream.write(data)
            if stream.backlog > _BACKLOG:
                await stream.drain()
            if stream.closed:
                return
        if squeeze is not None:
            stream.write(squeeze.flush())
    except ConnectionError:
        return  # the client is gone
    except BaseException:
        stream.abort()  # what has gone must not look like all of it
        raise
    finally:
        await pieces.aclose()  # what it holds is not needed any more
    stream.end()


class Room:
    """For a piece of a long answer, from before it is made until it is written."""

    __slots__ = ("_exchange", "_is_taken", "_size")

    def __init__(self, exchange: Exchange, size: int) -> None:
        self._exchange, self._size = exchange, size
        self._is_taken = False

    async def take(self) -> None:
        await self._exchange.reserve(self._size)
        self._is_taken = True

    def give(self) -> None:
        if self._is_taken:
            self._is_taken = False
            self._exchange.unreserve(self._size)


_BACKLOG = 256 * 1024
_GZIP_WINDOW = 16 + zlib.MAX_WBITS
GZIP_HEADERS: tuple[Header, ...] = (("content-encoding", "gzip"), ("vary", "Accept-Encoding"))


async def send_reformed(call: Call, body: bytes, status: int) -> bool:
    """A large JSON text as YAML, protobuf or pretty JSON, made by a worker process.

    False if it is small, or if there is no such process: the caller sends it then.
    """
    work = call.resource.services.large
    if work is None or len(body) <= LARGE:
        return False
    media_type = call.accepted.media_type
    is_pretty = call.accepted.pretty or wants_pretty(call)
    made = await work.reform(call.cluster, media_type, is_pretty, body)
    if made is None:
        call.accepted = instead_of_protobuf(call)
        return False
    sent = with_warnings(call, form_headers(call))
    await respond_compressed(call, status, sent, made)
    return True


async def respond_compressed(
    call: Call, status: int, headers: Sequence[Header], body: bytes
) -> None:
    """A whole answer; compressed, if it is large and the client accepts that."""
    if may_compress(call, len(body)):
        body = await asyncio.to_thread(packed, body)
        headers = (*headers, *GZIP_HEADERS)
    call.exchange.respond(status, headers, body)


def packed(body: bytes) -> bytes:
    return zlib.compress(body, 1, _GZIP_WINDOW)


def in_form(media_type: str, is_pretty: bool, obj: Any) -> bytes:
    """An object as text of a media type."""
    if media_type == negotiation.YAML:
        import yaml

        text = yaml.dump(obj, Dumper=yaml.CSafeDumper, sort_keys=True, allow_unicode=True)
        return text.encode()
    if media_type == negotiation.PROTOBUF:
        return protobuf_form.encode(obj)
    option = orjson.OPT_INDENT_2 if is_pretty else 0
    return orjson.dumps(obj, option=option | orjson.OPT_APPEND_NEWLINE)


def wants_pretty(call: Call) -> bool:
    pretty = call.info.query.get("pretty")
    if pretty:
        return pretty[0].lower() not in ("false", "0", "")
    return False


def instead_of_protobuf(call: Call) -> negotiation.Accepted:
    """The form of an object that has no protobuf form, although its kind has; 406 if there is none.

    That happens if a CRD describes one of Kubernetes' kinds with other fields.
    """
    header = call.exchange.request.header("accept") or ""
    return negotiation.choose(header, negotiation.SERVED[:2], frozenset(), takes_any=True)


def send_object(call: Call, obj: Any, status: int = 200, more: Sequence[Header] = ()) -> None:
    is_pretty = call.accepted.pretty or wants_pretty(call)
    try:
        body = in_form(call.accepted.media_type, is_pretty, obj)
    except ProtobufError:
        call.accepted = instead_of_protobuf(call)
        body = in_form(call.accepted.media_type, is_pretty, obj)
    call.exchange.respond(status, with_warnings(call, form_headers(call), more), body)


def send_protobuf(call: Call, body: bytes) -> None:
    """An answer that is encoded already."""
    call.exchange.respond(200, with_warnings(call, _PROTOBUF_HEADERS), body)


def send_text(call: Call, text: str, status: int = 200, more: Sequence[Header] = ()) -> None:
    call.exchange.respond(status, [*_TEXT_HEADERS, *more], text.encode())


def send_status(call: Call, error: StatusError) -> None:
    """An error, as a Status in a form that the client reads."""
    if error.moved_to and call.exchange.request.header(ROUTED) is not None:
        call.exchange.respond(MISDIRECTED, ((NOT_HERE, error.moved_to),))
        return
    more: list[Header] = []
    if error.retry_after is not None:
        more.append(("retry-after", str(error.retry_after)))
    if isinstance(error, PlainError):
        send_text(call, f"{error.message}\n", error.code, more)
        return
    accepted = negotiation.for_errors(call.exchange.request.header("accept") or "")
    if accepted is None:  # JSON for people to read
        body = orjson.dumps(error.to_json(), option=orjson.OPT_INDENT_2)
        call.exchange.respond(error.code, with_warnings(call, JSON_HEADERS, more), body)
        return
    call.accepted = accepted
    send_object(call, error.to_json(), error.code, more)


class PlainError(StatusError):
    """A refusal that upstream words in plain text, outside of its API machinery."""


class PageNotFound(PlainError, NotFound):
    """A path that leads nowhere and is no API path: answered in plain text."""

    def __init__(self) -> None:
        super().__init__("404 page not found")


def success(
    *, name: str = "", group: str = "", kind: str = "", uid: str = "", details: bool = True
) -> Object:
    """The Status that says that something was done."""
    status: Object = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    if details:
        parts = {"name": name, "group": group, "kind": kind, "uid": uid}
        status["details"] = {k: v for k, v in parts.items() if v}
    return status


def with_warnings(
    call: Call, headers: Sequence[Header], more: Sequence[Header] = ()
) -> Sequence[Header]:
    """The headers, and one for each of the call's warnings."""
    context = call._context
    if context is not None and context.warnings:
        return [*headers, *more, *(("warning", warning_header(w)) for w in context.warnings)]
    return [*headers, *more] if more else headers


def warning_header(text: str) -> str:
    """RFC 7234: code 299, no agent, the text quoted."""
    clean = "".join(c if c.isprintable() else " " for c in text)
    quoted = clean.replace("\\", "\\\\").replace('"', '\\"')
    return f'299 - "{quoted}"'.encode().decode("latin-1")


def may_compress(call: Call, size: int) -> bool:
    """Large answers are worth compressing, but not to a client on this machine."""
    return size > GZIP_ABOVE and accepts_gzip(call)


def accepts_gzip(call: Call) -> bool:
    request = call.exchange.request
    if request.peer.address in ("127.0.0.1", "::1", ""):
        return False
    accepted = request.header("accept-encoding") or ""
    return "gzip" in accepted and "gzip" in map(str.strip, accepted.split(","))
