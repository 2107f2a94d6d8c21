"""How requests travel: the one thing of `clients.remote` that knows sockets."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Protocol


class TransportError(Exception):
    """There is no answer, or no more of it; the text says why."""

    def __init__(self, message: str, *, was_sent: bool = True) -> None:
        super().__init__(message)
        self.was_sent = was_sent
        """Whether the server may have seen the request."""


class RemoteResponse(Protocol):
    @property
    def status(self) -> int: ...

    def header(self, name: str) -> str | None: ...

    async def read(self) -> bytes:
        """The whole body. Raises TransportError."""

    def chunks(self) -> AsyncIterator[bytes]:
        """The body as it arrives. Raises TransportError."""


class Transport(Protocol):
    """Connections to one server."""

    def request(
        self, method: str, target: str, headers: Mapping[str, str], body: bytes = b""
    ) -> AbstractAsyncContextManager[RemoteResponse]:
        """Send a request; the answer may be read inside the block. Raises TransportError."""

    async def close(self) -> None: ...
