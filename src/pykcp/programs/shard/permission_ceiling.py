"""Stage 04: an export's maximal permission policy is a ceiling on what its users may do.

Requests for bound resources must be allowed by the roles of the export's own workspace, too,
for the user and groups with a prefix. What is not bound, or bound from an export without a
policy, costs a lookup.
"""

from __future__ import annotations

from collections.abc import Sequence

from pykcp.auth.authz import rbac, stages
from pykcp.auth.authz.attributes import Attributes, Verdict
from pykcp.auth.authz.rbac_chain import StateOf
from pykcp.auth.authz.role_cache import ADMIN_CLUSTER, RoleCache
from pykcp.auth.scopes import effective_users, prefixed
from pykcp.machinery.resources import API_BINDINGS, API_EXPORTS, CLUSTER_ROLES
from pykcp.machinery.status import go_quote
from pykcp.registry.catalog.bound import BoundResources
from pykcp.registry.keys import kind_prefix, split_key
from pykcp.registry.lookup import ObjectLookup
from pykcp.steps import Steps
from pykcp.storage.interface import Event, Store

PREFIX = "apis.kcp.io:binding:"

_UNBOUND = stages.delegate("no relevant binding found")
_BINDINGS, _EXPORTS = kind_prefix(API_BINDINGS), kind_prefix(API_EXPORTS)
_RBAC = "rbac.authorization.k8s.io/"
_MEMBER = "maximalPermissionPolicy"
_POLICY = f'"{_MEMBER}"'.encode()
_KEEP_CLUSTERS = 4096


class PermissionCeiling:
    """Decisions are cached by the authorizer, which must be notified of changes."""

    def __init__(
        self,
        store: Store,
        roles: RoleCache,
        bound: BoundResources,
        lookup: ObjectLookup,
    ) -> None:
        self._roles, self._bound, self._lookup = roles, bound, lookup
        self._limiting: set[str] = set()
        """Logical clusters whose roles limited users in other clusters."""
        store.listen(self._follow, (_BINDINGS, _RBAC, _EXPORTS))
        if lookup.replica is not None:
            lookup.replica.listen(self._on_published)
            lookup.replica.follow_values(API_EXPORTS, self._on_published_export)

    def __call__(
        self, attributes: Attributes, cluster: str, state_of: StateOf
    ) -> Steps[stages.Finding]:
        if not cluster or not attributes.is_resource:
            return _UNBOUND
        bindings = yield from self._bound.in_steps(cluster)
        bound = bindings.get((attributes.group, attributes.resource))
        if bound is None:
            return _UNBOUND
        place, name = bound.export_cluster, bound.export
        spec = self._lookup.spec_members(API_EXPORTS, place, name, (_MEMBER,))
        if spec is None:
            return stages.delegate(f"APIExport {go_quote(place)}:{go_quote(name)} not found")
        described = f"{go_quote(place)}|{go_quote(name)}"
        policy = spec.get(_MEMBER)
        if policy is None or policy.get("local") is None:
            kind = "maximum" if policy is None else "local maximum"
            return stages.delegate(f"no {kind} permission policy in API Export {described}")
        answer = yield from self._ask(attributes, cluster, place, state_of)
        reason = f"API export {described} policy: {answer.reason}"
        if answer.allowed:
            return stages.delegate(reason)._replace(depends_on_name=answer.depends_on_name)
        return stages.Finding(Verdict.NO_OPINION, reason, answer.depends_on_name)

    def _ask(
        self, attributes: Attributes, cluster: str, place: str, state_of: StateOf
    ) -> Steps[rbac.RbacAnswer]:
        """The roles of the export's cluster, about the user as they know it."""
        self._note(place)
        state, admin = state_of(place), state_of(ADMIN_CLUSTER).policy
        policies = [state.policy, admin]
        if state.replicated is not None:
            policies.insert(1, state.replicated)
        user = yield from prefixed(attributes.user, PREFIX)
        users = yield from effective_users(cluster, user)
        asked = attributes._replace(user=user)
        by_name: rbac.RbacAnswer | None = None
        depends_on_name, reasons = False, []
        for policy in policies:
            answer = yield from rbac.authorize(policy, policies, users, asked)
            if answer.allowed and not answer.depends_on_name:
                return answer
            depends_on_name = depends_on_name or answer.depends_on_name
            if answer.allowed:
                by_name = by_name or answer
            elif answer.reason:
                reasons.append(answer.reason)
        return by_name or rbac.RbacAnswer(False, "\n".join(reasons), depends_on_name)

    def _note(self, cluster: str) -> None:
        if cluster not in self._limiting:
            if len(self._limiting) >= _KEEP_CLUSTERS:
                self._limiting.clear()
                self._roles.touch_all()
            self._limiting.add(cluster)

    def _follow(self, events: Sequence[Event]) -> None:
        for event in events:
            key = event.key
            if key.startswith(_BINDINGS):
                self._roles.touch(split_key(key).cluster)
            elif (key.startswith(_RBAC) and split_key(key).cluster in self._limiting) or (
                key.startswith(_EXPORTS) and self._may_matter(split_key(key).cluster, event.value)
            ):
                self._roles.touch_all()

    def _on_published(self, kind: tuple[str, str], cluster: str) -> None:
        """Something has been published: of another shard, or of this one after its own change."""
        if kind[0] == CLUSTER_ROLES.group and cluster in self._limiting:
            self._roles.touch_all()

    def _on_published_export(self, cluster: str, value: bytes) -> None:
        """An export of another shard has changed."""
        if self._may_matter(cluster, value):
            self._roles.touch_all()

    def _may_matter(self, cluster: str, export: bytes) -> bool:
        """Whether an export has, or may have had, a policy."""
        return _POLICY in export or cluster in self._limiting
