"""Requests under `/services/` that another process answers.

A shard whose virtual workspaces run elsewhere sends requests for them there, as they are.
The program that runs them (`virtual.program`) sends them on to the shard, marked, so that
they are answered there.
"""

from __future__ import annotations

import ssl
from collections.abc import Coroutine
from typing import Any
from urllib.parse import unquote

from pykcp.machinery.status import StatusError
from pykcp.server.answers import send_status
from pykcp.server.call import Call
from pykcp.server.filters.mounts import MountProxy
from pykcp.server.request_info import RequestInfo
from pykcp.wire.exchange import Exchange, Header, Request

ANSWER_HERE = "x-pykcp-virtual-workspaces"
"""Set on requests that have been through the other process."""


class Elsewhere(MountProxy):
    """Another server, whose certificate is checked."""

    def __init__(self, url: str, tls: ssl.SSLContext) -> None:
        super().__init__()
        self._url, self._context = url, tls

    def _tls(self) -> ssl.SSLContext:
        return self._context

    def handle(self, exchange: Exchange) -> Coroutine[Any, Any, None] | None:
        request = exchange.request
        info = RequestInfo(request.method, unquote(request.path), verb=request.method.lower())
        return self.answer(Call(exchange, info))

    async def answer(self, call: Call) -> None:
        try:
            await self.forward(call, self._url)
        except StatusError as error:
            if call.exchange.responded:
                raise
            send_status(call, error)

    def wants_streaming(self, request: Request) -> bool:
        return False


def is_for_here(request: Request) -> bool:
    return request.header(ANSWER_HERE) is not None


def without(headers: list[Header], *starts: str) -> list[Header]:
    """The headers whose names start with none of these."""
    return [(name, value) for name, value in headers if not name.startswith(starts)]
