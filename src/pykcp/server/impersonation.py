"""Acting as somebody else: `Impersonate-*` headers, if the caller may."""

from __future__ import annotations

from pykcp.auth.authz.chain import Authorizer
from pykcp.auth.user import User
from pykcp.server.call import Call

_HEADERS = ("impersonate-user", "impersonate-group", "impersonate-uid")


class Impersonation:
    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    def is_asked(self, call: Call) -> bool:
        return any(name.startswith("impersonate-") for name, _ in call.exchange.request.headers)

    async def apply(self, call: Call) -> User:
        return call.user
