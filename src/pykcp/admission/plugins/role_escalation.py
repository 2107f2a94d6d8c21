"""Privilege escalation checks for writes of roles and bindings."""

from __future__ import annotations

from pykcp.auth.authz.chain import Authorizer
from pykcp.auth.authz.escalation import GROUP, check_binding_write, check_role_write
from pykcp.machinery.resources import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    ROLE_BINDINGS,
    ROLES,
)
from pykcp.registry.verbs.admitting import AdmissionRequest

_ROLES = frozenset(("roles", "clusterroles"))


class RoleEscalation:
    """The authorizer comes by a callable: it is made after admission, which it depends on."""

    name = "RoleEscalation"
    kinds = (ROLES, ROLE_BINDINGS, CLUSTER_ROLES, CLUSTER_ROLE_BINDINGS)

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    def wants(self, request: AdmissionRequest) -> bool:
        return request.resource.group == GROUP and request.operation != "DELETE"

    async def validate(self, request: AdmissionRequest) -> None:
        check = check_role_write if request.resource.plural in _ROLES else check_binding_write
        assert request.obj is not None
        context = request.context
        await check(
            self._authorizer,
            context.cluster,
            context.user,
            request.obj,
            existing=request.old,
            namespace=request.namespace,
        )
