"""The authorizers in order, and the cache of their decisions.

`AlwaysAllowGroups, AlwaysAllowPaths, RBAC, Webhook` by default: the first that allows or denies
decides. The RBAC chain's reason is `access granted` or `access denied`; its steps are part of the
decision for the audit log only.

A decision costs a lookup when it is cached, some tens of microseconds when the policy of the
logical cluster is in memory, and a read of the store otherwise. Only the last one waits, and
long computations are done in slices.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from pykcp.aio.slices import in_slices
from pykcp.auth.authz.attributes import ALLOW, NO_OPINION, Attributes, Decision, Verdict, is_kept
from pykcp.auth.authz.rbac import Rules
from pykcp.auth.authz.rbac_chain import RbacChain
from pykcp.auth.authz.role_cache import (
    ADMIN_CLUSTER,
    NOWHERE,
    ClusterFacts,
    ClusterRules,
    ClusterState,
    NotLoaded,
)
from pykcp.auth.authz.rules import PolicyRule
from pykcp.auth.scopes import effective_users, is_tied
from pykcp.auth.user import MASTERS, User
from pykcp.caching import BoundedCache
from pykcp.steps import Steps
from pykcp.types import JSON

if TYPE_CHECKING:
    from pykcp.auth.authz.explanation import HeldRules, Holders

DEFAULT_ORDER = ("AlwaysAllowGroups", "AlwaysAllowPaths", "RBAC", "Webhook")
DEFAULT_PATHS = ("/healthz", "/readyz", "/livez")

_BY_NAME = Decision(Verdict.NO_OPINION, "depends on the object's name")
_MAX_LOADS = 16
"""How many logical clusters one decision may need; a bound, not a plan."""

Webhook = Callable[[str, Attributes], Awaitable[Decision]]
"""Asks an external authorizer about one effective user in one logical cluster."""
Answer = TypeVar("Answer")


class PathMatcher:
    """`--authorization-always-allow-paths`: whole paths, or prefixes that end in `*`."""

    def __init__(self, patterns: Sequence[str]) -> None:
        bare = [pattern.removeprefix("/") for pattern in patterns]
        for pattern in bare:
            if "*" in pattern[:-1]:
                raise ValueError(f'only trailing * allowed in "{pattern}"')
        self._whole = frozenset(pattern for pattern in bare if not pattern.endswith("*"))
        self._prefixes = tuple(pattern[:-1] for pattern in bare if pattern.endswith("*"))

    def matches(self, path: str) -> bool:
        bare = path.removeprefix("/")
        return bare in self._whole or (bool(self._prefixes) and bare.startswith(self._prefixes))


class Authorizer:
    """Decides requests to logical clusters."""

    def __init__(
        self,
        rbac: RbacChain,
        *,
        order: Sequence[str] = DEFAULT_ORDER,
        always_allow_groups: Sequence[str] = (MASTERS,),
        always_allow_paths: Sequence[str] = DEFAULT_PATHS,
        webhook: Webhook | None = None,
        remember: int = 32768,
    ) -> None:
        for name in order:
            if name not in DEFAULT_ORDER:
                raise ValueError(f'invalid authorizer: "{name}"')
        self._rbac, self._webhook = rbac, webhook
        self._order = tuple(order)
        self._groups = frozenset(always_allow_groups)
        self._groups_first = self._order[:1] == ("AlwaysAllowGroups",)
        self._paths = PathMatcher(always_allow_paths)
        self._known: BoundedCache[tuple[JSON, ...], Decision] = BoundedCache(
            "authorization", remember
        )
        self._get_state = rbac.roles.get

    def peek(self, cluster: str, attributes: Attributes) -> Decision | None:
        """The decision if it is known already; None: call `authorize`."""
        if self._groups_first and not self._groups.isdisjoint(attributes[0].groups):
            return ALLOW
        state = self._get_state(cluster) if cluster else NOWHERE
        if state is None:
            return None
        decision = self._known.get((state.serial, attributes[:8]))
        if decision is _BY_NAME:
            decision = self._known.get((state.serial, attributes[:9]))
        return decision

    def is_open_path(self, path: str) -> bool:
        """Whether a path is open to all users, in every logical cluster."""
        return "AlwaysAllowPaths" in self._order and self._paths.matches(path)

    async def authorize(
        self, cluster: str, attributes: Attributes, *, is_deep: bool = False
    ) -> Decision:
        """The union's decision. `cluster` is a name; "" or `*` when there is not exactly one."""
        cluster = "" if cluster == "*" else cluster
        if not is_deep:
            known = self.peek(cluster, attributes)
            if known is not None:
                return known
        reasons: list[str] = []
        depends_on_name = False
        decision = NO_OPINION
        for name in self._order:
            asked, by_name = await self._ask(name, cluster, attributes, is_deep)
            depends_on_name = depends_on_name or by_name
            if asked.reason:
                reasons.append(asked.reason)
            if asked.steps:
                decision = asked
            if asked.verdict is not Verdict.NO_OPINION:
                decision, reasons = asked, [asked.reason]
                break
        decision = _with_reason(decision, "\n".join(reasons))
        if not is_deep and self._webhook is None and is_kept(attributes):
            self._remember(cluster, attributes, decision, depends_on_name)
        return decision

    async def is_allowed_everywhere(
        self, attributes: Attributes, facts: ClusterFacts, alike: str
    ) -> bool:
        """Whether a user may do this in any logical cluster of which these facts are true, and
        that binds the resource as the cluster `alike` does or not at all.

        It looks at the roles that count everywhere, and so answers for many clusters at once;
        a cluster's own can only add to them. False says nothing: ask `authorize`.
        """
        user = attributes.user
        if not self._groups.isdisjoint(user.groups):
            return self._groups_first
        if self._order[:3] != DEFAULT_ORDER[:3] or is_tied(user):
            return False
        admin = self._get_state(ADMIN_CLUSTER) or await self._rbac.roles.load(ADMIN_CLUSTER)
        bare = ClusterState(alike, ClusterRules(), -admin.serial)
        bare.facts = facts
        decision, _ = await self._loading(
            alike, lambda held: self._rbac.decide(alike, attributes, False, held, bare)
        )
        return decision.allowed

    async def rules_for(
        self, cluster: str, user: User, namespace: str
    ) -> tuple[list[PolicyRule], list[str]]:
        """What a user may do by RBAC, and what could not be found out."""
        return await self._loading(
            cluster, lambda held: self._rbac.rules_for(cluster, user, namespace, held)
        )

    async def held_rules(self, cluster: str, attributes: Attributes) -> HeldRules:
        """What a user's bindings say about a request, for an explanation of the decision."""
        from pykcp.auth.authz import explanation

        return await self._loading(
            cluster, lambda held: explanation.held_rules(self._rbac, cluster, attributes, held)
        )

    async def holders(
        self, cluster: str, attributes: Attributes, *, with_everywhere: bool
    ) -> Holders:
        """The bindings that allow a request, to any user; `with_everywhere`: also the server's."""
        from pykcp.auth.authz import explanation

        return await self._loading(
            cluster,
            lambda held: explanation.holders(
                self._rbac, cluster, attributes, held, with_everywhere
            ),
        )

    async def role_rules(self, cluster: str, kind: str, name: str, namespace: str) -> Rules:
        """The rules a roleRef stands for. Raises RoleError."""
        return await self._loading(
            cluster, lambda held: self._rbac.role_rules(cluster, kind, name, namespace, held)
        )

    async def _ask(
        self, name: str, cluster: str, attributes: Attributes, is_deep: bool
    ) -> tuple[Decision, bool]:
        """One authorizer's answer, and whether it depends on the object's name."""
        if name == "AlwaysAllowGroups":
            privileged = not self._groups.isdisjoint(attributes.user.groups)
            return (ALLOW if privileged else NO_OPINION), False
        if name == "AlwaysAllowPaths":
            open_path = not attributes.is_resource and self._paths.matches(attributes.path)
            return (ALLOW if open_path else NO_OPINION), False
        if name == "RBAC":
            return await self._loading(
                cluster, lambda held: self._rbac.decide(cluster, attributes, is_deep, held)
            )
        return await self._ask_webhook(cluster, attributes), True

    async def _ask_webhook(self, cluster: str, attributes: Attributes) -> Decision:
        """The webhook knows nothing of scopes and warrants: ask for each effective user."""
        if self._webhook is None:
            return NO_OPINION
        reasons: list[str] = []
        for user in await in_slices(effective_users(cluster, attributes.user), cluster):
            decision = await self._webhook(cluster, attributes._replace(user=user))
            if decision.verdict is not Verdict.NO_OPINION:
                return decision
            if decision.reason:
                reasons.append(decision.reason)
        return Decision(Verdict.NO_OPINION, "\n".join(reasons))

    async def _loading(
        self, cluster: str, evaluate: Callable[[dict[str, ClusterState]], Steps[Answer]]
    ) -> Answer:
        """Evaluate, loading the logical clusters it turns out to need."""
        held: dict[str, ClusterState] = {}
        for _ in range(_MAX_LOADS):
            try:
                return await in_slices(evaluate(held), cluster)
            except NotLoaded as missing:
                held[missing.cluster] = await self._rbac.roles.load(missing.cluster)
        raise RuntimeError("authorization needs too many logical clusters")

    def _remember(
        self, cluster: str, attributes: Attributes, decision: Decision, depends_on_name: bool
    ) -> None:
        state = self._get_state(cluster) if cluster else NOWHERE
        if state is None or self._get_state(ADMIN_CLUSTER) is None:
            return  # it changed while it was read: the next request shall look again
        if depends_on_name:
            self._known.put((state.serial, attributes[:8]), _BY_NAME)
            self._known.put((state.serial, attributes[:9]), decision)
        else:
            self._known.put((state.serial, attributes[:8]), decision)


def _with_reason(decision: Decision, reason: str) -> Decision:
    if decision.reason == reason:
        return decision
    return Decision(decision.verdict, reason, decision.steps, decision.error)
