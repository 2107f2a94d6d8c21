"""Authentication of a request: cached on its connection, or computed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykcp.auth.authn.chain import Authentication
from pykcp.auth.authn.interface import Authenticated, CredentialRejected
from pykcp.machinery.status import Unauthorized
from pykcp.server.call import UNIDENTIFIED, Call, Handler, Pending

if TYPE_CHECKING:
    from pykcp.server.filters.flow_control import FlowControl


class SignIn:
    """Authenticates a call. It takes a seat, since tokens may have to be checked by webhooks."""

    def __init__(self, authentication: Authentication, flow: FlowControl | None) -> None:
        self._authentication, self._flow = authentication, flow

    async def authenticate(self, call: Call) -> Authenticated:
        """Raises Unauthorized."""
        pending = self._authentication.authenticate(
            call.exchange.request, call.cluster, call.info.path
        )
        return await (pending if self._flow is None else self._flow.sign_in(call, pending))


class ConnectionUsers:
    """Takes the user from the connection, if an earlier request has proved who it is.

    Other callers wait here if their address has used more than its share of the server's time:
    nothing is looked up or verified for them before it is their turn.
    """

    def __init__(self, authentication: Authentication, flow: FlowControl | None) -> None:
        self._authentication, self._flow = authentication, flow

    def around(self, inner: Handler) -> Handler:
        peek, annotations = self._authentication.peek, self._authentication.annotations
        flow = self._flow

        def take_known_user(call: Call) -> Pending:
            user = peek(call.exchange.request)
            if user is not None:
                call.user = user
                if call.audit is not None and (notes := annotations(call.exchange.request)):
                    call.context.audit.update(notes)
            elif flow is not None and self._must_wait(call, flow):
                return wait(call, flow)
            return inner(call)

        async def wait(call: Call, flow: FlowControl) -> None:
            await flow.wait_for_others(call)
            pending = inner(call)
            if pending is not None:
                await pending

        return take_known_user

    def _must_wait(self, call: Call, flow: FlowControl) -> bool:
        if flow.meter.admits_stranger(call):
            return False
        return not self._authentication.is_cheap(call.exchange.request)


class RequireUser:
    """Authenticates callers that are not known from their connection; 401 if that fails."""

    def __init__(self, sign_in: SignIn) -> None:
        self._sign_in = sign_in

    def around(self, inner: Handler) -> Handler:
        def require_user(call: Call) -> Pending:
            return inner(call) if call.user is not UNIDENTIFIED else authenticate(call)

        async def authenticate(call: Call) -> None:
            try:
                found = await self._sign_in.authenticate(call)
            except Unauthorized as error:
                if isinstance(error.__cause__, CredentialRejected):
                    call.context.audit.update(error.__cause__.annotations)
                raise
            if found.annotations:
                call.context.audit.update(found.annotations)
            for text in found.warnings:
                call.context.warn(text)
            call.user = found.user
            pending = inner(call)
            if pending is not None:
                await pending

        return require_user
