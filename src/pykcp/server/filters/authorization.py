"""Impersonation and authorization of a call, against its logical cluster."""

from __future__ import annotations

from typing import Protocol

from pykcp.auth.authz.attributes import Attributes, Decision, forbidden
from pykcp.auth.authz.chain import Authorizer
from pykcp.machinery.resources import WORKSPACES
from pykcp.server.call import Call, Handler, Pending
from pykcp.server.filters.impersonation import Impersonation


class Authorization(Protocol):
    """Who may do what: `CallAuthorization`, or a virtual workspace's own."""

    def peek(self, call: Call) -> bool:
        """True: go on. False: call `check`. Raises Forbidden when the denial is known."""

    async def check(self, call: Call) -> None: ...

    async def check_create(self, call: Call) -> None:
        """Whether the user may also create what an update or a patch finds missing."""


class RequirePermission:
    """Lets a call through whose user, or whom they impersonate, may do what it asks; or 403."""

    def __init__(self, authorization: Authorization) -> None:
        self._authorization = authorization

    def around(self, inner: Handler) -> Handler:
        peek = self._authorization.peek

        def require_permission(call: Call) -> Pending:
            if not peek(call):
                return check(call)
            call.is_authorized = True
            return inner(call)

        async def check(call: Call) -> None:
            await self._authorization.check(call)
            call.is_authorized = True
            pending = inner(call)
            if pending is not None:
                await pending

        return require_permission


class CallAuthorization:
    """Decides at once what is known, and says when it must wait."""

    def __init__(self, authorizer: Authorizer, impersonation: Impersonation) -> None:
        self._authorizer = authorizer
        self._impersonation = impersonation

    def peek(self, call: Call) -> bool:
        """True: go on. False: call `check`. Raises Forbidden when the denial is known."""
        if not call.has_trusted_user and self._impersonation.is_asked(call):
            return False
        attributes = attributes_of(call)
        decision = self._authorizer.peek(call.cluster, attributes)
        if decision is None:
            return False
        if call.audit is not None:
            call.audit.decided(decision)
        if not decision.allowed:
            raise forbidden(attributes, decision.reason)
        return True

    async def impersonate(self, call: Call) -> None:
        """Go on as whom the call asks to act as, if it does. Raises Forbidden."""
        if not call.has_trusted_user and self._impersonation.is_asked(call):
            call.user = await self._impersonation.apply(call, attributes_of(call))

    async def check(self, call: Call) -> None:
        await self.impersonate(call)
        attributes = attributes_of(call)
        decision = await self._authorizer.authorize(call.cluster, attributes)
        if call.audit is not None:
            call.audit.decided(decision)
        _enforce(decision, attributes)

    def is_open(self, call: Call) -> bool:
        """Whether the request is allowed for all users in every cluster."""
        info = call.info
        return not info.is_resource and self._authorizer.is_open_path(info.path)

    async def check_create(self, call: Call) -> None:
        """Whether the user may also create what an update or a patch finds missing."""
        attributes = attributes_of(call)._replace(verb="create")
        _enforce(await self._authorizer.authorize(call.cluster, attributes), attributes)

    async def check_visible(self, call: Call, cluster: str, workspace: str) -> None:
        """Refuse the call as any other, unless its user may get this Workspace. Raises Forbidden."""
        await self.impersonate(call)
        attributes = Attributes(
            call.user,
            "get",
            group=WORKSPACES.group,
            resource=WORKSPACES.resource,
            name=workspace,
            version=WORKSPACES.version,
        )
        decision = await self._authorizer.authorize(cluster, attributes)
        if not decision.allowed:
            raise forbidden(attributes_of(call), decision.reason)


def _enforce(decision: Decision, attributes: Attributes) -> None:
    if not decision.allowed:
        raise forbidden(attributes, decision.reason)


def attributes_of(call: Call) -> Attributes:
    info = call.info
    if not info.is_resource:
        return Attributes(call.user, info.verb, path=info.path, is_resource=False)
    return Attributes(
        call.user,
        info.verb,
        info.namespace,
        info.group,
        info.resource,
        info.subresource,
        "",
        True,
        info.name,
        info.version,
    )
