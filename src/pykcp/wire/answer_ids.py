"""The header that gives every answer an id, in both protocols' octets."""

from __future__ import annotations

import os
import re

from pykcp.wire.exchange import IncomingRequest
from pykcp.wire.http1.head import HeadWriter
from pykcp.wire.http2.hpack import HeaderEncoder

_AT_ONCE = 128
_VALID = re.compile(r"[!-~]{1,256}").fullmatch


def given_id(request: IncomingRequest, name: str) -> str | None:
    """The id that a client has chosen, if it can be used."""
    given = request.header(name)
    return given if given and _VALID(given) else None


class UniqueIds:
    """Random UUIDs. A hundred share their first half, the second is 60 random bits."""

    __slots__ = ("_ready",)

    def __init__(self) -> None:
        self._ready: list[str] = []

    def new(self) -> str:
        if not self._ready:
            h = os.urandom(8 + 8 * _AT_ONCE).hex()
            half = f"{h[:8]}-{h[8:12]}-4{h[13:16]}-a"
            self._ready = [
                f"{half}{h[i : i + 3]}-{h[i + 3 : i + 15]}" for i in range(16, len(h), 16)
            ]
        return self._ready.pop()


class AnswerIds:
    """The id of an answer: the one that its request came with, or a new one."""

    __slots__ = ("_encoder", "_http1", "_http2", "_ids", "name")

    def __init__(self, name: str, encoder: HeaderEncoder) -> None:
        self.name = name
        self._ids = UniqueIds()
        self._encoder = encoder
        size = len(self._ids.new())
        self._http1 = f"{name}: ".encode()
        self._http2 = encoder.once((name, "x" * size))[:-size]

    def http1(self, request: IncomingRequest) -> bytes:
        given = given_id(request, self.name)
        if given:
            return HeadWriter.once((self.name, given))
        return b"%b%b\r\n" % (self._http1, self._ids.new().encode())

    def http2(self, request: IncomingRequest) -> bytes:
        given = given_id(request, self.name)
        if given:
            return self._encoder.once((self.name, given))
        return self._http2 + self._ids.new().encode()
