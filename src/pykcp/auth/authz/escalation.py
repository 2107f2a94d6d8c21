"""Privilege escalation prevention: checks on writes to roles and bindings.

A role may be written by users who have all of its rules or the verb `escalate` on it; a binding
by users who have all rules of its role or the verb `bind` on that role.
"""

from __future__ import annotations

from typing import Any

from pykcp.aio.slices import in_slices
from pykcp.auth.authz.attributes import Attributes
from pykcp.auth.authz.chain import Authorizer
from pykcp.auth.authz.covering import escalation_message
from pykcp.auth.authz.rbac import RoleError
from pykcp.auth.authz.rules import PolicyRule
from pykcp.auth.user import MASTERS, User
from pykcp.machinery import meta
from pykcp.machinery.status import Forbidden, NotFound
from pykcp.steps import Steps
from pykcp.types import Object

GROUP = "rbac.authorization.k8s.io"
_EVERYTHING = (PolicyRule(["*"], ["*"], ["*"]), PolicyRule(["*"], urls=["*"]))
_AGGREGATION = "must have cluster-admin privileges to use the aggregationRule"


async def check_role_write(
    authorizer: Authorizer,
    cluster: str,
    user: User,
    role: Object,
    *,
    existing: Object | None = None,
    namespace: str = "",
) -> None:
    """A Role or (without namespace) ClusterRole is created or updated. Raises Forbidden."""
    if MASTERS in user.groups or _changes_only_lifecycle(role, existing):
        return
    resource = "roles" if namespace else "clusterroles"
    asked_name = "" if existing is None else meta.name(existing)
    attributes = Attributes(
        user, "escalate", namespace, GROUP, resource, name=asked_name, version="*"
    )
    if (await authorizer.authorize(cluster, attributes)).allowed:
        return
    name = meta.name(role)
    owned, errors = await authorizer.rules_for(cluster, user, namespace)
    wanted = await in_slices(_rules(role), cluster)
    message = await in_slices(escalation_message(user, owned, wanted, errors), cluster)
    if message:
        raise Forbidden.resource(GROUP, resource, name, message)
    gathers = _gathers(role) or (existing is not None and _gathers(existing))
    if not gathers:
        return
    message = await in_slices(escalation_message(user, owned, _EVERYTHING), cluster)
    if message:
        raise Forbidden.resource(GROUP, resource, name, _AGGREGATION)


async def check_binding_write(
    authorizer: Authorizer,
    cluster: str,
    user: User,
    binding: Object,
    *,
    existing: Object | None = None,
    namespace: str = "",
) -> None:
    """A RoleBinding or (without namespace) ClusterRoleBinding is created or updated.

    Raises Forbidden, or NotFound if there is no such role to compare with.
    """
    if MASTERS in user.groups or _changes_only_lifecycle(binding, existing):
        return
    resource = "rolebindings" if namespace else "clusterrolebindings"
    ref = binding.get("roleRef") or {}
    kind, role_name = ref.get("kind") or "", ref.get("name") or ""
    if await _may_bind(authorizer, cluster, user, ref, namespace):
        return
    try:
        wanted = await authorizer.role_rules(cluster, kind, role_name, namespace)
    except RoleError as error:
        # Upstream names the resource that was being written, not the one that is missing.
        raise NotFound.resource(GROUP, resource, role_name) from error
    owned, errors = await authorizer.rules_for(cluster, user, namespace)
    message = await in_slices(escalation_message(user, owned, wanted, errors), cluster)
    if message:
        raise Forbidden.resource(GROUP, resource, meta.name(binding), message)


async def _may_bind(
    authorizer: Authorizer, cluster: str, user: User, ref: Object, namespace: str
) -> bool:
    """Asked in the binding's namespace, so that binding can be delegated per namespace."""
    resource = {"ClusterRole": "clusterroles", "Role": "roles"}.get(ref.get("kind") or "")
    if resource is None:
        return False
    group, name = ref.get("apiGroup") or "", ref.get("name") or ""
    attributes = Attributes(user, "bind", namespace, group, resource, name=name, version="*")
    return (await authorizer.authorize(cluster, attributes)).allowed


def _rules(role: Object) -> Steps[list[PolicyRule]]:
    found: list[PolicyRule] = []
    for rule in role.get("rules") or ():
        found.append(PolicyRule.from_json(rule))
        yield
    return found


def _gathers(role: Object) -> bool:
    return bool((role.get("aggregationRule") or {}).get("clusterRoleSelectors"))


def _changes_only_lifecycle(obj: Object, existing: Object | None) -> bool:
    """Nothing but owners and finalizers, which the garbage collector must be able to change."""
    if existing is None:
        return False
    return _without_lifecycle(obj) == _without_lifecycle(existing)


def _without_lifecycle(obj: Object) -> dict[str, Any]:
    ignored = {"ownerReferences", "finalizers", "managedFields"}
    metadata = {key: value for key, value in meta.metadata(obj).items() if key not in ignored}
    return {**obj, "metadata": metadata}
