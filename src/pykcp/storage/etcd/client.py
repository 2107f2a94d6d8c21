"""A client for several etcd servers, one of which is in use.

Every request has a timeout. A request that fails before it was sent goes to the next
server; other failures are raised, classified by what they mean for a write:
`StoreUnavailable` (it has not been executed), `UnknownOutcome` (it may have been),
`StoreFull`, `TooLarge`.
"""

from __future__ import annotations

import asyncio
import pathlib
import time
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlsplit

import grpc
import grpc.aio

from pykcp.aio.owner import spawn
from pykcp.storage.errors import Compacted, StoreError, StoreFull, StoreUnavailable, TooLarge
from pykcp.storage.etcd import messages
from pykcp.storage.etcd.settings import EtcdSettings

CHANNEL_OPTIONS = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    # A server that is silent for fifteen seconds is gone (etcd allows a ping every five).
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.http2.max_pings_without_data", 0),
    # The effective backoff is in `feed`.
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.min_reconnect_backoff_ms", 1_000),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    ("grpc.use_local_subchannel_pool", 1),
)

_GRACE_SECONDS = 10.0

REQUIRE_LEADER = (("hasleader", "true"),)
"""A watch on a server that has lost touch with the others ends, instead of falling silent."""


class NotSent(StoreUnavailable):
    """The request was not sent; another server may accept it."""


class UnknownOutcome(StoreUnavailable):
    """The request was sent and has no answer; it may still be carried out."""


class EtcdClient:
    def __init__(self, settings: EtcdSettings) -> None:
        if not settings.servers:
            raise StoreError("no etcd servers are named")
        self._settings = settings
        self._servers = settings.servers
        self._current = 0
        self._channels: dict[int, grpc.aio.Channel] = {}
        self._closing: set[asyncio.Task[None]] = set()

    @property
    def server(self) -> str:
        """The one in use."""
        return self._servers[self._current]

    def leave(self, server: str) -> None:
        """Switch to the next server, unless another request has already done so."""
        if server == self.server:
            self._current = (self._current + 1) % len(self._servers)

    def drop_connection(self) -> None:
        """The server in use did not answer in time: the next request connects anew.

        What lies between the two may have forgotten the connection, and gRPC would take a quarter
        of a minute to notice. What is under way on it has some seconds left.
        """
        channel = self._channels.pop(self._current, None)
        if channel is not None:
            closing = spawn(channel.close(_GRACE_SECONDS), "etcd/closing a connection")
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)

    async def close(self) -> None:
        channels, self._channels = self._channels, {}
        for channel in channels.values():
            await channel.close()
        for closing in [*self._closing]:
            closing.cancel()
        await asyncio.gather(*self._closing, return_exceptions=True)

    async def txn(self, request: Any, seconds: float) -> Any:
        return await self._call("/etcdserverpb.KV/Txn", request, messages.TxnResponse, seconds)

    async def range(self, request: Any, seconds: float) -> Any:
        return await self._call("/etcdserverpb.KV/Range", request, messages.RangeResponse, seconds)

    async def compact(self, revision: int, seconds: float) -> None:
        request = messages.CompactionRequest(revision=revision)
        response = messages.CompactionResponse
        await self._call("/etcdserverpb.KV/Compact", request, response, seconds)

    async def grant(self, seconds_to_live: int, seconds: float) -> Any:
        """A lease: keys that are bound to it are deleted when it is not kept alive."""
        request = messages.LeaseGrantRequest(TTL=seconds_to_live)
        response = messages.LeaseGrantResponse
        return await self._call("/etcdserverpb.Lease/LeaseGrant", request, response, seconds)

    async def revoke(self, lease: int, seconds: float) -> None:
        request = messages.LeaseRevokeRequest(ID=lease)
        response = messages.LeaseRevokeResponse
        await self._call("/etcdserverpb.Lease/LeaseRevoke", request, response, seconds)

    async def keep_alive(self, lease: int, seconds: float) -> int:
        """Seconds that a lease has to live from now on; 0: it has ended."""
        server = self.server
        stream = self._channel().stream_stream(
            "/etcdserverpb.Lease/LeaseKeepAlive",
            request_serializer=messages.LeaseKeepAliveRequest.SerializeToString,
            response_deserializer=messages.LeaseKeepAliveResponse.FromString,
        )
        call = stream(timeout=seconds, metadata=REQUIRE_LEADER)
        try:
            await call.write(messages.LeaseKeepAliveRequest(ID=lease))
            await call.done_writing()
            response = await call.read()
        except grpc.aio.AioRpcError as error:
            self.leave(server)
            raise translate(error, server) from error
        finally:
            call.cancel()
        if response is grpc.aio.EOF:
            raise StoreUnavailable(f"{server} ended the stream of a lease")
        return int(response.TTL)

    def watch(self, key: bytes, end: bytes, start_revision: int) -> Watch:
        stream = self._channel().stream_stream(
            "/etcdserverpb.Watch/Watch",
            request_serializer=messages.WatchRequest.SerializeToString,
            response_deserializer=messages.WatchResponse.FromString,
        )
        create = messages.WatchCreateRequest(
            key=key, range_end=end, start_revision=start_revision, progress_notify=True
        )
        return Watch(stream(metadata=REQUIRE_LEADER), create, self.server)

    async def _call(self, method: str, request: Any, response: Any, seconds: float) -> Any:
        deadline = time.monotonic() + seconds
        refused: StoreError = NotSent("no etcd server was tried")
        for _ in self._servers:
            server = self.server
            call = self._channel().unary_unary(
                method,
                request_serializer=type(request).SerializeToString,
                response_deserializer=response.FromString,
            )
            try:
                return await call(request, timeout=max(0.0, deadline - time.monotonic()))
            except grpc.aio.AioRpcError as error:
                refused = translate(error, server)
                if not isinstance(refused, NotSent):
                    raise refused from error
                self.leave(server)
        raise refused

    def _channel(self) -> grpc.aio.Channel:
        if self._current not in self._channels:
            self._channels[self._current] = self._connect(self._servers[self._current])
        return self._channels[self._current]

    def _connect(self, server: str) -> grpc.aio.Channel:
        target, is_secure = parse_server(server)
        settings = self._settings
        if not is_secure:
            return grpc.aio.insecure_channel(target, options=CHANNEL_OPTIONS)
        credentials = grpc.ssl_channel_credentials(
            root_certificates=read(settings.cafile),
            private_key=read(settings.keyfile),
            certificate_chain=read(settings.certfile),
        )
        return grpc.aio.secure_channel(target, credentials, options=CHANNEL_OPTIONS)


class Watch:
    """One stream of etcd's events."""

    def __init__(self, call: Any, create: Any, server: str) -> None:
        self._call = call
        self._create = create
        self._is_ended = False
        self.server = server

    async def responses(self) -> AsyncIterator[Any]:
        try:
            await self._call.write(messages.WatchRequest(create_request=self._create))
            async for response in self._call:
                if response.compact_revision:
                    raise Compacted(self._create.start_revision, response.compact_revision)
                if response.canceled:
                    raise StoreUnavailable(f"{self.server}: {response.cancel_reason}")
                yield response
        except grpc.aio.AioRpcError as error:
            raise translate(error, self.server) from error
        except asyncio.CancelledError:
            # Of the stream or of the task that reads it? They look the same.
            if not self._is_ended:
                raise
        raise StoreUnavailable(f"{self.server} ended the watch")

    def end(self) -> None:
        self._is_ended = True
        self._call.cancel()


def translate(error: grpc.aio.AioRpcError, server: str) -> StoreError:
    code, details = error.code(), error.details() or ""
    message = f"etcd at {server}: {details or code.name}"
    if code == grpc.StatusCode.RESOURCE_EXHAUSTED and "space exceeded" in details:
        return StoreFull(message)
    if "too large" in details or "too many operations" in details or "larger than max" in details:
        return TooLarge(message)
    if code == grpc.StatusCode.OUT_OF_RANGE:
        return Compacted(0, 0)
    if code == grpc.StatusCode.UNAVAILABLE and any(text in details for text in NOT_SENT):
        return NotSent(message)
    if code in REFUSED or "too many requests" in details:
        return StoreUnavailable(message)
    return UnknownOutcome(message)


NOT_SENT = ("failed to connect", "resolution failed", "no leader")
"""How it is put that a request has not reached any etcd that could carry it out."""

REFUSED = (
    grpc.StatusCode.UNAUTHENTICATED,
    grpc.StatusCode.PERMISSION_DENIED,
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.FAILED_PRECONDITION,
    grpc.StatusCode.UNIMPLEMENTED,
)


def parse_server(server: str) -> tuple[str, bool]:
    """The address and whether TLS is spoken there."""
    if "://" not in server:
        server = f"http://{server}"
    parts = urlsplit(server)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.path.strip("/"):
        raise StoreError(f"not the address of an etcd server: {server}")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{host}:{parts.port or 2379}", parts.scheme == "https"


def read(path: str) -> bytes | None:
    if not path:
        return None
    try:
        return pathlib.Path(path).read_bytes()
    except OSError as error:
        raise StoreError(f"cannot read {path}: {error.strerror}") from error
