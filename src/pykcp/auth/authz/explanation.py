"""Why a request is allowed, or what is missing: the rules of a user's grants, one by one.

Authorization needs to know only whether some rule allows a request. An explanation also names the
rule and its binding, rules that nearly allow it, and roles that would allow it if they were bound.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import NamedTuple

from pykcp.auth.authz import rbac
from pykcp.auth.authz.attributes import Attributes
from pykcp.auth.authz.rbac import ClusterPolicy, RoleGrant, RoleRules
from pykcp.auth.authz.rbac_chain import RbacChain
from pykcp.auth.authz.role_cache import ADMIN_CLUSTER, ClusterState
from pykcp.auth.authz.rules import Match, PolicyRule
from pykcp.auth.scopes import effective_users
from pykcp.auth.user import User
from pykcp.steps import Steps

_MOST = 10
"""Rules of each sort in one answer."""
_MOST_HOLDERS = 1000
_ALLOWING = (Match.FOR_THIS_NAME, Match.FOR_ALL_NAMES)


class RuleGrant(NamedTuple):
    """A rule that a binding grants."""

    grant: RoleGrant
    rule: PolicyRule
    everywhere: bool
    """Granted in all logical clusters, by the server's own policy."""
    lacks: str = ""
    """Why the rule does not allow the request, if it nearly does: the part that does not fit."""


class HeldRules(NamedTuple):
    allowing: list[RuleGrant]
    near: list[RuleGrant]
    """Only looked for if nothing allows the request."""
    roles: list[str]
    """ClusterRoles that allow it; only if nothing that is granted does."""


class Holders(NamedTuple):
    found: list[RuleGrant]
    is_complete: bool


class _Source(NamedTuple):
    """Bindings, and the policies in which their roles are looked up."""

    bindings: ClusterPolicy
    roles: tuple[ClusterPolicy, ...]
    everywhere: bool


def held_rules(
    chain: RbacChain, cluster: str, attributes: Attributes, held: dict[str, ClusterState]
) -> Steps[HeldRules]:
    """What a user's bindings say about a request. Raises NotLoaded."""
    sources = _sources(chain, cluster, held)
    users = yield from effective_users(cluster, attributes.user)
    combined = combined_resource(attributes)
    namespace = attributes.namespace if attributes.is_resource else ""
    allowing: list[RuleGrant] = []
    near: list[RuleGrant] = []
    looks = _RoleLooks(attributes, combined)
    for source in sources:
        for grant in rbac.bindings_of(source.bindings, users, namespace):
            yield
            look = (yield from looks.of(source, grant)) if grant is not None else None
            if grant is None or look is None:
                continue
            found = (RuleGrant(grant, rule, source.everywhere) for rule in look.allowing)
            allowing += islice(found, _MOST - len(allowing))
            missed = (RuleGrant(grant, r, source.everywhere, lacks) for r, lacks in look.near)
            near += islice(missed, _MOST - len(near))
    if allowing:
        return HeldRules(allowing, [], [])
    for source in sources:
        yield from _in_other_namespaces(source, users, attributes, near, looks)
    return HeldRules([], near, (yield from _helpful_roles(sources, attributes, combined)))


def holders(
    chain: RbacChain,
    cluster: str,
    attributes: Attributes,
    held: dict[str, ClusterState],
    with_everywhere: bool,
) -> Steps[Holders]:
    """The bindings that allow a request, whoever sends it. Raises NotLoaded."""
    combined = combined_resource(attributes)
    namespace = attributes.namespace if attributes.is_resource else ""
    found: list[RuleGrant] = []
    looks = _RoleLooks(attributes, combined, with_near=False)
    for source in _sources(chain, cluster, held):
        if source.everywhere and not with_everywhere:
            continue
        for grant in source.bindings.all_grants(namespace):
            yield
            look = yield from looks.of(source, grant)
            if look is None or not look.allowing:
                continue
            if len(found) >= _MOST_HOLDERS:
                return Holders(found, False)
            found.append(RuleGrant(grant, look.allowing[0], source.everywhere))
    return Holders(found, with_everywhere)


def combined_resource(attributes: Attributes) -> str:
    if not attributes.subresource:
        return attributes.resource
    return f"{attributes.resource}/{attributes.subresource}"


def near_miss(rule: PolicyRule, attributes: Attributes) -> str:
    """The only part of a rule that does not fit a request; "" if more than one does not."""
    combined = combined_resource(attributes)
    urls = rule.urls
    if not attributes.is_resource:
        wide = PolicyRule(("*",), (), (), (), urls)
        return "verb" if wide.match(attributes, combined) is not Match.NONE else ""
    verbs, groups, resources, names = rule.verbs, rule.api_groups, rule.resources, rule.names
    if rule.match(attributes, combined) is Match.FOR_OTHER_NAMES:
        return "resourceName"
    related = any(r.partition("/")[0] in (attributes.resource, "*") for r in resources)
    for lacks, wide in (
        ("verb", PolicyRule(("*",), groups, resources, names)),
        ("apiGroup", PolicyRule(verbs, ("*",), resources, names)),
        ("resource", PolicyRule(verbs, groups, ("*",) if related else (), names)),
    ):
        if wide.match(attributes, combined) in _ALLOWING:
            return lacks
    return ""


def _sources(chain: RbacChain, cluster: str, held: dict[str, ClusterState]) -> list[_Source]:
    state_of = chain.state_getter(held)
    admin = state_of(ADMIN_CLUSTER).policy
    found = [_Source(admin, (admin,), True)]
    if cluster:
        state = state_of(cluster)
        found.append(_Source(state.policy, (state.policy, admin), False))
        if state.replicated is not None:
            found.append(_Source(state.replicated, (state.replicated, admin), False))
    return found


class _RoleLook(NamedTuple):
    """What the rules of one role say about a request; at most `_MOST` of each sort."""

    allowing: list[PolicyRule]
    near: list[tuple[PolicyRule, str]]
    """With the part that does not fit; only if none allows it."""


class _RoleLooks:
    """Looks at each role once, however many bindings refer to it."""

    def __init__(self, attributes: Attributes, combined: str, *, with_near: bool = True) -> None:
        self._attributes, self._combined, self._with_near = attributes, combined, with_near
        self._known: dict[int, _RoleLook] = {}
        """By the identity of roles, which the policies keep."""

    def of(self, source: _Source, grant: RoleGrant) -> Steps[_RoleLook | None]:
        """None: the role does not exist."""
        try:
            role = rbac.resolve(grant.role_kind, grant.role_name, grant.namespace, source.roles)
        except rbac.RoleError:
            return None
        look = self._known.get(id(role))
        if look is None:
            look = self._known[id(role)] = yield from self._look(role)
        return look

    def _look(self, role: RoleRules) -> Steps[_RoleLook]:
        look = _RoleLook([], [])
        is_allowing = role.match(self._attributes, self._combined) in _ALLOWING
        if not is_allowing and not self._with_near:
            return look
        for rule in role.rules:
            yield
            if is_allowing:
                if rule.match(self._attributes, self._combined) in _ALLOWING:
                    look.allowing.append(rule)
                if len(look.allowing) >= _MOST:
                    break
                continue
            lacks = near_miss(rule, self._attributes)
            if lacks:
                look.near.append((rule, lacks))
            if len(look.near) >= _MOST:
                break
        return look


def _in_other_namespaces(
    source: _Source,
    users: Sequence[User],
    attributes: Attributes,
    near: list[RuleGrant],
    looks: _RoleLooks,
) -> Steps[None]:
    """Roles that would allow the request in a namespace which it does not name."""
    if not attributes.is_resource:
        return
    for namespace in source.bindings.namespaces():
        if namespace == attributes.namespace:
            continue
        for grant in source.bindings.namespace_grants(namespace, users):
            yield
            if len(near) >= _MOST:
                return
            look = yield from looks.of(source, grant)
            if look is not None and look.allowing:
                rule = look.allowing[0]
                near.append(RuleGrant(grant, rule, source.everywhere, "namespace"))
        yield


def _helpful_roles(
    sources: Sequence[_Source], attributes: Attributes, combined: str
) -> Steps[list[str]]:
    """ClusterRoles that would allow the request, those with the fewest rules first."""
    found: dict[str, int] = {}
    for source in sources:
        for name, role in source.bindings.cluster_roles():
            yield
            if not name.startswith("system:") and role.match(attributes, combined) in _ALLOWING:
                found[name] = len(role.rules)
    return sorted(found, key=lambda name: (found[name], name))[:_MOST]
