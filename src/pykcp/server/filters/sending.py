"""Requests sent on to a virtual workspace in another process, with the caller's name."""

from __future__ import annotations

import ssl
from urllib.parse import quote

from pykcp.auth.authn.bearer import without_token_protocol
from pykcp.auth.user import User
from pykcp.machinery.endpoints import HOPS_HEADER
from pykcp.server.call import Call
from pykcp.server.filters.mounts import MountProxy
from pykcp.wire.exchange import Header, Request

_IDENTITY = ("x-remote-", "impersonate-", "authorization")
"""Headers that say who asks: that is ours to say. Credentials are for us alone, and go no further."""


class Sender(MountProxy):
    """Like a mount's proxy, but it vouches for the user and knows whom it talks to."""

    def __init__(self, ca: str, certificate: str, key: str) -> None:
        super().__init__(certificate, key)
        self._ca = ca

    async def send(self, call: Call, target: str, hops: int) -> None:
        more = [*identity_headers(call.user), (HOPS_HEADER, str(hops))]
        await self.forward(call, target, more)

    def _headers(self, request: Request, url: str) -> list[Header]:
        return [
            (name, value)
            for name, value in super()._headers(request, url)
            if not name.startswith(_IDENTITY) and name != HOPS_HEADER
        ]

    def _protocols(self, request: Request) -> list[str]:
        """Without the one in which browsers hide a token."""
        offered = without_token_protocol(",".join(super()._protocols(request)))
        return offered.split(",") if offered else []

    def _tls(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=self._ca or None)
        if self._certificate:
            context.load_cert_chain(self._certificate, self._key)
        return context


def identity_headers(user: User) -> list[Header]:
    """A user as a trusted proxy tells a server."""
    headers = [("x-remote-user", user.name)]
    headers += [("x-remote-group", group) for group in user.groups]
    for key, values in user.extra.items():
        name = f"x-remote-extra-{quote(key.lower(), safe='')}"
        headers += [(name, value) for value in values]
    return headers
