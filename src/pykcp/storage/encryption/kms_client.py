"""Talking to a KMS v2 plugin: gRPC over a unix socket, in a thread of its own.

Calls are blocking ones in a worker thread, so that both a coroutine and a plain
function can wait for their answer, the latter for a bounded time.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple

from pykcp.storage.encryption import protowire as wire
from pykcp.storage.encryption.errors import EncryptionConfigError, Unreadable

_SERVICE = "/v2.KeyManagementService/"
_WORKERS = 4


class KmsStatus(NamedTuple):
    version: str
    healthz: str
    key_id: str


class Encrypted(NamedTuple):
    ciphertext: bytes
    key_id: str
    annotations: Mapping[str, bytes]


class KmsClient:
    def __init__(self, name: str, endpoint: str, seconds: float) -> None:
        self.name = name
        self._endpoint = endpoint
        self._seconds = seconds
        self._channel: Any = None
        self._pool = ThreadPoolExecutor(_WORKERS, thread_name_prefix=f"kms-{name}")

    def status(self) -> Future[KmsStatus]:
        return self._submit("Status", b"", _read_status)

    def encrypt(self, plain: bytes) -> Future[Encrypted]:
        request = wire.put_bytes(1, plain) + wire.put_bytes(2, _uid())
        return self._submit("Encrypt", request, _read_encrypted)

    def decrypt(self, encrypted: Encrypted) -> Future[bytes]:
        request = (
            wire.put_bytes(1, encrypted.ciphertext)
            + wire.put_bytes(2, _uid())
            + wire.put_bytes(3, encrypted.key_id.encode())
            + wire.put_map(4, encrypted.annotations)
        )
        return self._submit("Decrypt", request, _read_decrypted)

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)
        if self._channel is not None:
            self._channel.close()
            self._channel = None

    def _submit(
        self, method: str, request: bytes, read: Callable[[wire.Fields], Any]
    ) -> Future[Any]:
        return self._pool.submit(self._call, method, request, read)

    def _call(self, method: str, request: bytes, read: Callable[[wire.Fields], Any]) -> Any:
        grpc = _grpc()
        call = self._connected(grpc).unary_unary(
            _SERVICE + method, request_serializer=_as_is, response_deserializer=_as_is
        )
        try:
            answer = call(request, timeout=self._seconds, wait_for_ready=False)
            return read(wire.read(answer))
        except grpc.RpcError as error:
            raise Unreadable(
                f"KMS plugin {self.name!r} failed to {method.lower()}: "
                f"{error.code().name}: {error.details()}"
            ) from error
        except wire.MalformedProtobuf as error:
            raise Unreadable(
                f"KMS plugin {self.name!r} answered {method.lower()} with garbage: {error}"
            ) from error

    def _connected(self, grpc: Any) -> Any:
        if self._channel is None:
            options = (
                ("grpc.use_local_subchannel_pool", 1),
                ("grpc.max_reconnect_backoff_ms", 500),
            )
            path = self._endpoint.removeprefix("unix:").removeprefix("//")
            # Upstream writes an abstract socket as unix:///@name.
            name = path.removeprefix("/").removeprefix("@")
            target = f"unix-abstract:{name}" if path.startswith(("@", "/@")) else f"unix:{path}"
            self._channel = grpc.insecure_channel(target, options=options)
        return self._channel


def _grpc() -> Any:
    try:
        import grpc
    except ImportError:
        raise EncryptionConfigError("a KMS provider needs grpcio: pip install grpcio") from None
    return grpc


def _as_is(data: bytes) -> bytes:
    return data


def _uid() -> bytes:
    return str(uuid.uuid4()).encode()


def _read_status(fields: wire.Fields) -> KmsStatus:
    return KmsStatus(*(wire.get_text(fields, number) for number in (1, 2, 3)))


def _read_encrypted(fields: wire.Fields) -> Encrypted:
    return Encrypted(wire.get_bytes(fields, 1), wire.get_text(fields, 2), wire.get_map(fields, 3))


def _read_decrypted(fields: wire.Fields) -> bytes:
    return wire.get_bytes(fields, 1)
