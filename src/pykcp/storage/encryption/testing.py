"""A KMS plugin for tests: a real gRPC server on a unix socket. It keeps no secrets."""

from __future__ import annotations

import pathlib
import threading
from concurrent.futures import ThreadPoolExecutor

import grpc

from pykcp.storage.encryption import protowire as wire


class KmsPlugin:
    """Wraps seeds by turning them round; its key id, health and speed can be changed."""

    def __init__(self, socket: pathlib.Path) -> None:
        self.endpoint = f"unix://{socket}"
        self.key_id = "key-a"
        self.healthz = "ok"
        self.calls: list[str] = []
        self.refused_keys: set[str] = set()
        self.may_decrypt = threading.Event()
        self.may_decrypt.set()
        self._server = grpc.server(ThreadPoolExecutor(4))
        self._server.add_generic_rpc_handlers((self._handlers(),))
        self._server.add_insecure_port(f"unix:{socket}")
        self._server.start()

    def _handlers(self) -> grpc.GenericRpcHandler:
        methods = {"Status": self._status, "Encrypt": self._encrypt, "Decrypt": self._decrypt}
        return grpc.method_handlers_generic_handler(
            "v2.KeyManagementService",
            {name: grpc.unary_unary_rpc_method_handler(run) for name, run in methods.items()},
        )

    def _status(self, request: bytes, context: grpc.ServicerContext) -> bytes:
        self.calls.append("Status")
        parts = ("v2", self.healthz, self.key_id)
        return b"".join(wire.put_bytes(i + 1, part.encode()) for i, part in enumerate(parts))

    def _encrypt(self, request: bytes, context: grpc.ServicerContext) -> bytes:
        self.calls.append("Encrypt")
        plain = wire.get_bytes(wire.read(request), 1)
        return (
            wire.put_bytes(1, b"wrapped:" + plain[::-1])
            + wire.put_bytes(2, self.key_id.encode())
            + wire.put_map(3, {"note.example.com": b"kept"})
        )

    def _decrypt(self, request: bytes, context: grpc.ServicerContext) -> bytes:
        self.calls.append("Decrypt")
        self.may_decrypt.wait(10)
        fields = wire.read(request)
        if wire.get_map(fields, 4) != {"note.example.com": b"kept"}:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, "annotations are missing")
        if wire.get_text(fields, 3) in self.refused_keys:
            context.abort(grpc.StatusCode.PERMISSION_DENIED, "this key was destroyed")
        return wire.put_bytes(1, wire.get_bytes(fields, 1).removeprefix(b"wrapped:")[::-1])

    def stop(self) -> None:
        self.may_decrypt.set()
        self._server.stop(None).wait()
