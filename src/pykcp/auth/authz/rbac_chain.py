"""kcp's nested chain around RBAC, for one request in one logical cluster.

    01-requiredgroups → 02-content → 03-systemcrd → 04-maxpermissionpolicy →
    05-bootstrap | 05-local | 05-global

Evaluation is pure over cluster states that are in memory; if one is missing it raises NotLoaded,
the caller loads it and evaluates again. It can be interrupted between its steps, since a user may
have tens of thousands of groups, warrants or bindings.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from pykcp.auth.authz import rbac, stages
from pykcp.auth.authz.attributes import (
    Attributes,
    Decision,
    StageFinding,
    Verdict,
    is_kept,
    path_attributes,
)
from pykcp.auth.authz.rbac import ClusterPolicy
from pykcp.auth.authz.role_cache import (
    ADMIN_CLUSTER,
    NOWHERE,
    ClusterState,
    NotLoaded,
    RoleSource,
)
from pykcp.auth.authz.rules import PolicyRule
from pykcp.auth.scopes import effective_users
from pykcp.auth.user import User
from pykcp.caching import BoundedCache
from pykcp.machinery.status import go_quote
from pykcp.steps import Steps

_GRANTED, _DENIED = "access granted", "access denied"
_NO_CEILING = stages.delegate("no relevant binding found")

StateOf = Callable[[str], ClusterState]


class Ceiling(Protocol):
    """Stage 04: the maximal permission policy of bound APIs."""

    def __call__(
        self, attributes: Attributes, cluster: str, state_of: StateOf
    ) -> Steps[stages.Finding]:
        """Hand on with `stages.delegate`, or refuse. May raise NotLoaded."""


class _Asked(NamedTuple):
    """A question, and what the stages know of who asks it."""

    attributes: Attributes
    situation: stages.Situation
    users: Sequence[User]


class ChainAnswer(NamedTuple):
    decision: Decision
    depends_on_name: bool


class RbacChain:
    def __init__(
        self,
        roles: RoleSource,
        ceiling: Ceiling | None = None,
        remember: int = 8192,
    ) -> None:
        self.roles = roles
        self._ceiling = ceiling
        self._access: BoundedCache[tuple[int, User], bool] = BoundedCache(
            "workspace-access", remember
        )

    def decide(
        self,
        cluster: str,
        attributes: Attributes,
        is_deep: bool,
        held: dict[str, ClusterState],
        state: ClusterState | None = None,
    ) -> Steps[ChainAnswer]:
        """One decision. `held` are states that were loaded for it. Raises NotLoaded.

        `state`: what is to be taken for the cluster's, instead of its own.
        """
        state_of = self.state_getter(held)
        if state is None:
            state = state_of(cluster) if cluster else NOWHERE
        users = yield from effective_users(cluster, attributes.user)
        groups = frozenset(group for user in users for group in user.groups)
        asked = _Asked(attributes, stages.Situation(cluster, state.facts, groups, is_deep), users)
        passed: list[tuple[str, str]] = []
        by_name = False
        for stage in ("01-requiredgroups", "02-content", "03-systemcrd", "04-maxpermissionpolicy"):
            verdict, reason, depends_on_name = yield from self._look(stage, asked, state, state_of)
            by_name = by_name or depends_on_name
            if verdict is not None:
                steps = [StageFinding(stage, verdict, reason)]
                return ChainAnswer(_conclude(verdict, steps, passed), by_name)
            passed.append((stage, reason))
        answer = yield from self._rbac(attributes, state, users, passed, state_of)
        return answer._replace(depends_on_name=True) if by_name else answer

    def _look(
        self, stage: str, asked: _Asked, state: ClusterState, state_of: StateOf
    ) -> Steps[stages.Finding]:
        """What one of the stages in front of RBAC finds."""
        attributes, situation, _ = asked
        match stage:
            case "01-requiredgroups":
                return stages.required_groups(attributes, situation)
            case "02-content":
                finding = stages.content(attributes, situation)
                if finding is not None:
                    return finding
                return stages.access((yield from self._has_access(asked, state, state_of)))
            case "03-systemcrd":
                return stages.system_crd(attributes, situation)
        return (yield from self._limit(attributes, situation, state_of))

    def state_getter(self, held: dict[str, ClusterState]) -> StateOf:
        def state_of(cluster: str) -> ClusterState:
            # What is in memory is never older than what was loaded for this decision.
            state = self.roles.get(cluster) or held.get(cluster)
            if state is None:
                raise NotLoaded(cluster)
            return state

        return state_of

    def _limit(
        self, attributes: Attributes, situation: stages.Situation, state_of: StateOf
    ) -> Steps[stages.Finding]:
        if situation.is_deep:
            return stages.delegate("deep SAR request")
        if self._ceiling is None:
            return _NO_CEILING
        return (yield from self._ceiling(attributes, situation.cluster, state_of))

    def _has_access(self, asked: _Asked, state: ClusterState, state_of: StateOf) -> Steps[bool]:
        user = asked.attributes.user
        key = (state.serial, user)
        known = self._access.get(key)
        if known is not None:
            return known
        admin = state_of(ADMIN_CLUSTER)
        allowed = yield from _may_enter(user, state, asked.users, admin.policy)
        is_current = admin is self.roles.get(ADMIN_CLUSTER)  # or it changed while it was read
        if is_current and is_kept(asked.attributes):
            self._access.put(key, allowed)
        return allowed

    def _rbac(
        self,
        attributes: Attributes,
        state: ClusterState,
        users: Sequence[User],
        passed: list[tuple[str, str]],
        state_of: StateOf,
    ) -> Steps[ChainAnswer]:
        """05: a union of what is granted everywhere, here, and in a replica of here."""
        admin = state_of(ADMIN_CLUSTER).policy
        here = f"cluster {go_quote(state.name)} policy"
        sources: tuple[tuple[str, str, ClusterPolicy], ...] = (
            ("05-bootstrap", "bootstrap policy", admin),
            ("05-local", f"local {here}", state.policy),
            ("05-global", f"global {here}", state.replicated or rbac.EMPTY_POLICY),
        )
        steps: list[StageFinding] = []
        depends_on_name = False
        for stage, source, policy in sources:
            answer = yield from rbac.authorize(policy, (policy, admin), users, attributes)
            depends_on_name = depends_on_name or answer.depends_on_name
            verdict = Verdict.ALLOW if answer.allowed else Verdict.NO_OPINION
            steps.append(StageFinding(stage, verdict, f"{source}: {answer.reason}"))
            if answer.allowed:
                decision = _conclude(verdict, steps, passed)
                return ChainAnswer(decision, answer.depends_on_name)
        return ChainAnswer(_conclude(Verdict.NO_OPINION, steps, passed), depends_on_name)

    def rules_for(
        self, cluster: str, user: User, namespace: str, held: dict[str, ClusterState]
    ) -> Steps[tuple[list[PolicyRule], list[str]]]:
        """What a user may do by RBAC alone, everywhere and here. Raises NotLoaded."""
        state_of = self.state_getter(held)
        users = yield from effective_users(cluster, user)
        admin = state_of(ADMIN_CLUSTER).policy
        rules, errors = yield from rbac.rules_for(admin, (admin,), users, namespace)
        if not cluster:
            return rules, [*errors, "empty cluster name"]
        local = state_of(cluster).policy
        more, further = yield from rbac.rules_for(local, (local, admin), users, namespace)
        return rules + more, errors + further

    def role_rules(
        self, cluster: str, kind: str, name: str, namespace: str, held: dict[str, ClusterState]
    ) -> Steps[rbac.Rules]:
        """The rules a roleRef stands for. Raises RoleError or NotLoaded."""
        yield
        state_of = self.state_getter(held)
        policies = (state_of(cluster).policy, state_of(ADMIN_CLUSTER).policy)
        return rbac.resolve(kind, name, namespace, policies).rules


def _may_enter(
    user: User, state: ClusterState, users: Sequence[User], admin: ClusterPolicy
) -> Steps[bool]:
    """Verb `access` on `/`, granted here, in a replica of here, or in `system:admin`."""
    question = path_attributes(user, "access", "/")
    policies = [state.policy, admin]
    if state.replicated is not None:
        policies.insert(1, state.replicated)
    for policy in policies:
        if (yield from rbac.authorize(policy, policies, users, question)).allowed:
            return True
    return False


def _conclude(
    verdict: Verdict, steps: list[StageFinding], passed: list[tuple[str, str]]
) -> Decision:
    """The decision as clients see it; stages that handed on share the verdict."""
    outer = [StageFinding(stage, verdict, reason) for stage, reason in reversed(passed)]
    reason = _GRANTED if verdict is Verdict.ALLOW else _DENIED
    return Decision(verdict, reason, (*steps, *outer))
