"""Who may use an export's view, for what, and as whom.

    bound     the consumer binds the export, and bound or granted what is asked for
    content   the user may do this to the export's content, by the RBAC of its workspace
    ceiling   claimed resources: the policies of the exports they come from allow it, too

A request into one consumer is then judged there as well, as by the consumer's own server:
the user has a warrant of that cluster's administrators, tied to the cluster.
"""

from __future__ import annotations

from functools import lru_cache

import orjson

from pykcp.aio.slices import in_slices
from pykcp.auth.authz.attributes import ALLOW, Attributes, Decision, forbidden
from pykcp.auth.authz.chain import Authorizer
from pykcp.auth.scopes import prefixed
from pykcp.auth.user import (
    CLUSTER_NAME_KEY,
    KCP_ADMIN,
    SCOPES_KEY,
    WARRANT_KEY,
    User,
    is_service_account,
)
from pykcp.machinery.kcp import claims
from pykcp.machinery.kcp.clusters import WILDCARD
from pykcp.machinery.resources import API_BINDINGS, API_EXPORTS
from pykcp.registry.lookup import CLUSTER_ANNOTATION, ObjectLookup
from pykcp.server.call import Call
from pykcp.server.filters.authorization import attributes_of
from pykcp.steps import Steps
from pykcp.virtual.apiexport.grants import ClaimGrant, ExportKey, Grants
from pykcp.virtual.apiexport.surface import Surface
from pykcp.virtual.framework import DENIED

_READ = ("get", "list", "watch")
_BINDING_PREFIX = "apis.kcp.io:binding:"
_FAKE_ACCOUNT = "system:serviceaccount:default:rest"


class ExportViewAccess:
    def __init__(self, lookup: ObjectLookup, authorizer: Authorizer, grants: Grants) -> None:
        self._lookup = lookup
        self._authorizer = authorizer
        self._grants = grants

    def peek(self, call: Call, export: ExportKey, surface: Surface) -> Decision | None:
        """The decision about an ordinary request that is known to be allowed; None otherwise."""
        attributes = attributes_of(call)
        if not attributes.is_resource:
            return None
        if claims.claimed_identity(surface.asked, attributes.group, attributes.resource):
            return None
        cluster, name = export
        decision = self._authorizer.peek(cluster, _content_question(name, attributes))
        if decision is None or not decision.allowed or call.cluster == WILDCARD:
            return decision if decision is not None and decision.allowed else None
        grant = self._grants.known(call.cluster, export)
        if grant is None or not _is_bound(grant, surface, attributes):
            return None
        warranted = with_warrant(call.user, call.cluster)
        known = self._authorizer.peek(call.cluster, attributes._replace(user=warranted))
        if known is None or not known.allowed:
            return None
        call.user = warranted
        return decision

    async def decide(self, call: Call, export: ExportKey, surface: Surface) -> Decision:
        """Whether a user who may use the view of an export may ask this of it."""
        attributes = attributes_of(call)
        if call.cluster != WILDCARD and attributes.is_resource:
            grant = await self._grants.of(call.cluster, export)
            if grant is None or not _is_bound(grant, surface, attributes):
                return DENIED
        return await self._ceiling(surface, attributes)

    async def content(self, cluster: str, name: str, attributes: Attributes) -> Decision:
        question = _content_question(name, attributes)
        decision = await self._authorizer.authorize(cluster, question)
        return decision if decision.allowed else DENIED

    async def _ceiling(self, surface: Surface, attributes: Attributes) -> Decision:
        identity = claims.claimed_identity(surface.asked, attributes.group, attributes.resource)
        if not identity:
            return ALLOW
        providers = await in_slices(self._lookup.exports_of(identity))
        if not providers:
            return DENIED
        consumer = await in_slices(_as_consumer(attributes.user))
        question = attributes._replace(user=consumer)
        for provider in providers:
            policy = (provider.get("spec") or {}).get("maximalPermissionPolicy") or {}
            if policy.get("local") is None:
                continue
            cluster = provider["metadata"]["annotations"][CLUSTER_ANNOTATION]
            decision = await self._authorizer.authorize(cluster, question, is_deep=True)
            if not decision.allowed:
                return DENIED
        return ALLOW

    async def enter_consumer(self, call: Call) -> None:
        """Go on as the user with a warrant, if that is enough in the consumer's cluster."""
        call.user = with_warrant(call.user, call.cluster)
        attributes = attributes_of(call)
        decision = await self._authorizer.authorize(call.cluster, attributes)
        if not decision.allowed:
            raise forbidden(attributes, decision.reason)


def _is_bound(grant: ClaimGrant, surface: Surface, attributes: Attributes) -> bool:
    verb, group, resource = attributes.verb, attributes.group, attributes.resource
    if (group, resource) in grant.bound or grant.allows(surface.asked, verb, group, resource):
        return True
    if verb not in _READ:
        return False
    if (group, resource) == (API_BINDINGS.group, API_BINDINGS.resource):
        return True
    # One that was added a moment ago: consumers are bound to it soon, and have none yet.
    return grant.is_complete and (group, resource) in surface.named


def _content_question(name: str, attributes: Attributes) -> Attributes:
    """Whether a user may do the same to the content of an export."""
    return Attributes(
        attributes.user,
        attributes.verb,
        group=API_EXPORTS.group,
        resource=API_EXPORTS.resource,
        subresource="content",
        name=name,
        version="v1alpha1",
    )


def _as_consumer(user: User) -> Steps[User]:
    """The user as other exports' policies know it."""
    known = yield from prefixed(user, _BINDING_PREFIX)
    if not is_service_account(user):
        return known
    # Tokens of service accounts are for their own workspace; the policy is asked in another.
    extra = {k: v for k, v in known.extra.items() if k not in (SCOPES_KEY, CLUSTER_NAME_KEY)}
    return User(known.name, known.uid, known.groups, extra)


@lru_cache(maxsize=4096)
def with_warrant(user: User, cluster: str) -> User:
    warrant = orjson.dumps(
        {
            "user": _FAKE_ACCOUNT,
            "groups": [KCP_ADMIN],
            "extra": {CLUSTER_NAME_KEY: [cluster]},
        }
    ).decode()
    extra = {**user.extra, WARRANT_KEY: (*user.extra.get(WARRANT_KEY, ()), warrant)}
    return User(user.name, user.uid, user.groups, extra)
