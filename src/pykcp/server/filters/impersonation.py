"""Impersonation: `Impersonate-*` headers."""

from __future__ import annotations

from pykcp.aio.slices import in_slices
from pykcp.auth.authz.attributes import Attributes, Decision
from pykcp.auth.authz.chain import Authorizer
from pykcp.auth.impersonation import (
    Impersonator,
    check_gate,
    is_requested,
    requested_user,
    tie_to_cluster,
)
from pykcp.auth.user import User
from pykcp.server.call import Call


class Impersonation:
    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer
        self._impersonator = Impersonator()

    def is_asked(self, call: Call) -> bool:
        return is_requested(call.exchange.request.headers)

    async def apply(self, call: Call, attributes: Attributes) -> User:
        """The user to go on as. Raises BadRequest or Forbidden."""
        wanted = requested_user(call.exchange.request.headers)
        if wanted is None:
            return call.user
        await in_slices(check_gate(call.user, wanted), call.cluster)

        async def authorize(question: Attributes) -> Decision:
            return await self._authorizer.authorize(call.cluster, question)

        user = await self._impersonator.impersonate(authorize, attributes, wanted)
        if call.audit is not None:
            call.audit.constraint = self._impersonator.constraint(call.user)
        return await in_slices(tie_to_cluster(call.user, user, call.cluster), call.cluster)
