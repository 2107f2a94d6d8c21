"""kcp's authorizers in front of RBAC, as pure functions of the facts about a cluster.

Each returns a final answer, or that the next stage decides. They run in the order 01 to 05;
`rbac_chain` combines them and contains stage 04 (maximal permission policy).
"""

from __future__ import annotations

from typing import NamedTuple

from pykcp.auth.authz.attributes import Attributes, Verdict
from pykcp.auth.authz.role_cache import ClusterFacts
from pykcp.auth.scopes import has_lifecycle_group, is_in_scope
from pykcp.auth.user import (
    EXTERNAL_LOGICAL_CLUSTER_ADMIN,
    KCP_ADMIN,
    LOGICAL_CLUSTER_ADMIN,
    WORKSPACE_BOOTSTRAPPER,
    is_service_account,
)

SHARD_PATHS = frozenset({"/metrics"})
"""Paths that belong to the shard rather than to a workspace."""

NO_ACCESS = "no verb=access permission on /"
_OPEN_PHASES = frozenset({"Initializing", "Ready", "Inactive", "Terminating", "Deleting"})
_LIFECYCLE_PHASES = frozenset({"Initializing", "Terminating", "Deleting"})


class Finding(NamedTuple):
    """A verdict, or (None) the reason for asking the next stage."""

    verdict: Verdict | None
    reason: str
    depends_on_name: bool = False
    """Whether another object's name could have got another answer."""


def delegate(reason: str) -> Finding:
    return Finding(None, f"delegating due to {reason}")


class Situation(NamedTuple):
    """What the stages look at besides the request."""

    cluster: str
    facts: ClusterFacts | None
    groups: frozenset[str]
    """The user's effective groups in this cluster."""
    is_deep: bool
    """A deep SubjectAccessReview: asks about RBAC alone."""


def required_groups(attributes: Attributes, situation: Situation) -> Finding:
    """01: the user must be in the groups the logical cluster asks for."""
    groups = situation.groups
    if situation.is_deep:
        return delegate("deep SAR request")
    if not situation.cluster:
        return Finding(Verdict.NO_OPINION, "empty cluster name")
    if LOGICAL_CLUSTER_ADMIN in groups:
        return delegate("logical cluster admin access")
    if is_service_account(attributes.user):
        return delegate("service account access to logical cluster")
    if situation.facts is None:
        return Finding(Verdict.NO_OPINION, "logical cluster not found")
    if EXTERNAL_LOGICAL_CLUSTER_ADMIN in groups:
        return delegate("external logical cluster admin access")
    wanted = situation.facts.required_groups
    if wanted is None:
        return delegate("logical cluster does not require groups")
    for clause in (*wanted.split(";"), KCP_ADMIN, WORKSPACE_BOOTSTRAPPER):
        if groups.issuperset(clause.split(",")):
            return delegate(f"user is member of required groups: {wanted}")
    return Finding(Verdict.DENY, f"user is not a member of required groups: {wanted}")


def content(attributes: Attributes, situation: Situation) -> Finding | None:
    """02: the user must have access to the workspace as such: None asks for `access`."""
    if not attributes.is_resource and attributes.path in SHARD_PATHS:
        return delegate("shard-level path")
    if not situation.cluster or situation.cluster.startswith("system:"):
        return Finding(Verdict.NO_OPINION, "empty or system workspace")
    if situation.is_deep:
        return delegate("deep SAR request")
    if LOGICAL_CLUSTER_ADMIN in situation.groups:
        return delegate("logical cluster admin access")
    if situation.facts is None:
        return Finding(Verdict.DENY, "LogicalCluster not found")
    phase = situation.facts.phase
    if phase not in _OPEN_PHASES:
        return Finding(Verdict.NO_OPINION, f'not permitted due to phase "{phase}"')
    user = attributes.user
    if phase in _LIFECYCLE_PHASES and has_lifecycle_group(user.groups):
        return Finding(Verdict.ALLOW, "lifecycle VW pre-authorized access")
    if is_service_account(user) and is_in_scope(user, situation.cluster):
        return delegate("local service account access")
    return None


def access(is_granted: bool) -> Finding:
    """02, the last of it: whether the user has the verb `access` on `/`."""
    if not is_granted:
        return Finding(Verdict.NO_OPINION, NO_ACCESS)
    return delegate("user logical cluster access")


def system_crd(attributes: Attributes, situation: Situation) -> Finding:
    """03: the status of exports and bindings is the system's own."""
    if not situation.cluster:
        return Finding(Verdict.NO_OPINION, "empty cluster name")
    if attributes.group == "apis.kcp.io" and attributes.subresource == "status":
        for resource, kind in (("apibindings", "apibinding"), ("apiexports", "apiexport")):
            if attributes.resource == resource:
                return Finding(Verdict.DENY, f"{kind} status updates not permitted")
    return delegate("no system CRD violation")
