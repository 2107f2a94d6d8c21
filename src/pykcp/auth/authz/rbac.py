"""Role-based access control over the roles and bindings of one logical cluster.

`ClusterPolicy` is an immutable index of one cluster's RBAC objects, by subject. Roles are looked
up in the cluster that holds the binding and then in further policies (`system:admin`, whose
roles can be bound everywhere). All of it is pure: objects in, decisions out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pykcp.auth.authz.attributes import Attributes
from pykcp.auth.authz.rule_index import RuleIndex
from pykcp.auth.authz.rules import Match, PolicyRule
from pykcp.auth.errors import aggregate
from pykcp.auth.user import User, service_account_name
from pykcp.machinery.status import go_quote
from pykcp.steps import Steps, at_once
from pykcp.types import Object

Rules = tuple[PolicyRule, ...]
Namespaced = tuple[str, str]

_MANY_RULES = 32
"""From so many on, the rules of a role are looked up rather than tried."""


@dataclass(frozen=True, slots=True)
class RbacObjects:
    """The decoded RBAC objects of one logical cluster."""

    cluster_roles: Sequence[Object] = ()
    cluster_role_bindings: Sequence[Object] = ()
    roles: Sequence[Object] = ()
    role_bindings: Sequence[Object] = ()


class RoleRules:
    """The rules of a role."""

    __slots__ = ("_index", "rules")

    def __init__(self, rules: Rules, index: RuleIndex | None = None) -> None:
        self.rules, self._index = rules, index

    def match(self, attributes: Attributes, combined: str) -> Match:
        """How the best of the rules fits a request."""
        if self._index is not None:
            return self._index.match(attributes, combined)
        best = Match.NONE
        for rule in self.rules:
            match = rule.match(attributes, combined)
            if match is Match.FOR_ALL_NAMES:
                return match
            if match is not Match.NONE and match > best:
                best = match
        return best


class RoleGrant(NamedTuple):
    """A binding as it applies to one subject."""

    binding: str
    """Name, followed by /namespace for a RoleBinding."""
    namespace: str
    role_kind: str
    role_name: str
    subject_kind: str
    subject_name: str

    def describe(self) -> str:
        kind = "RoleBinding" if self.namespace else "ClusterRoleBinding"
        role = f"{self.role_kind} {go_quote(self.role_name)}"
        subject = f"{self.subject_kind} {go_quote(self.subject_name)}"
        return f"{kind} {go_quote(self.binding)} of {role} to {subject}"


@dataclass(slots=True)
class _Subjects:
    """Grants by the name of a user or group."""

    users: dict[str, list[RoleGrant]] = field(default_factory=dict)
    groups: dict[str, list[RoleGrant]] = field(default_factory=dict)

    def add(self, binding: Object, namespace: str) -> Steps[int]:
        """Returns how many were added."""
        meta, ref = binding.get("metadata") or {}, binding.get("roleRef") or {}
        name = meta.get("name", "")
        label = f"{name}/{namespace}" if namespace else name
        granted = (label, namespace, ref.get("kind", ""), ref.get("name", ""))
        subjects = binding.get("subjects") or ()
        for subject in subjects:
            kind, shown, index, key = self._place(subject, namespace)
            if key:
                index.setdefault(key, []).append(RoleGrant(*granted, kind, shown))
            yield
        return len(subjects)

    def _place(
        self, subject: Mapping[str, str], namespace: str
    ) -> tuple[str, str, dict[str, list[RoleGrant]], str]:
        """How a subject is called, which index it belongs to and under which key ("": none)."""
        kind, name = subject.get("kind", ""), subject.get("name", "")
        if kind == "User":
            return kind, name, self.users, name
        if kind == "Group":
            return kind, name, self.groups, name
        home = subject.get("namespace") or namespace
        if kind != "ServiceAccount" or not home:
            return "", "", self.users, ""
        return kind, f"{name}/{home}", self.users, service_account_name(home, name)

    def of(self, user: User) -> Iterator[RoleGrant]:
        yield from self.users.get(user.name, ())
        groups = self.groups
        if groups:
            for group in [group for group in user.groups if group in groups]:
                yield from groups[group]

    def all(self) -> Iterator[RoleGrant]:
        for index in (self.users, self.groups):
            for grants in index.values():
                yield from grants


_NOBODY = _Subjects()


class ClusterPolicy:
    """One logical cluster's roles and bindings, indexed."""

    __slots__ = ("_by_namespace", "_cluster_roles", "_cluster_wide", "_roles", "size")

    def __init__(self, objects: RbacObjects) -> None:
        at_once(self._build(objects))

    @classmethod
    def in_steps(cls, objects: RbacObjects) -> Steps[ClusterPolicy]:
        policy = cls.__new__(cls)
        yield from policy._build(objects)
        return policy

    def _build(self, objects: RbacObjects) -> Steps[None]:
        self.size = 0
        """Rules and grants, roughly: what it takes to keep it."""
        lists = _SharedLists()
        self._cluster_roles: dict[str, RoleRules] = {}
        for role in objects.cluster_roles:
            self._cluster_roles[_name(role)] = yield from self._rules(role, lists)
        self._roles: dict[Namespaced, RoleRules] = {}
        for role in objects.roles:
            self._roles[_namespace(role), _name(role)] = yield from self._rules(role, lists)
        self._cluster_wide = _Subjects()
        for binding in sorted(objects.cluster_role_bindings, key=_name):
            self.size += yield from self._cluster_wide.add(binding, "")
        self._by_namespace: dict[str, _Subjects] = {}
        for binding in sorted(objects.role_bindings, key=_name):
            namespace = _namespace(binding)
            subjects = self._by_namespace.setdefault(namespace, _Subjects())
            self.size += yield from subjects.add(binding, namespace)

    def _rules(self, role: Object, lists: _SharedLists) -> Steps[RoleRules]:
        found: list[PolicyRule] = []
        for rule in role.get("rules") or ():
            found.append(lists.rule(rule))
            yield
        self.size += len(found) + 1
        if len(found) < _MANY_RULES:
            return RoleRules(tuple(found))
        index = RuleIndex(len(found))
        for one in found:
            index.add(one)
            yield
        return RoleRules(tuple(found), index)

    def subjects(self, namespace: str) -> tuple[_Subjects, ...]:
        """Where bindings are found: cluster-wide, and in the namespace if there is one."""
        if not namespace:
            return (self._cluster_wide,)
        return (self._cluster_wide, self._by_namespace.get(namespace, _NOBODY))

    def all_grants(self, namespace: str) -> Iterator[RoleGrant]:
        """Of all subjects: cluster-wide, and in the namespace if there is one."""
        for subjects in self.subjects(namespace):
            yield from subjects.all()

    def namespaces(self) -> Iterator[str]:
        """Those with bindings."""
        return iter(self._by_namespace)

    def namespace_grants(self, namespace: str, users: Sequence[User]) -> Iterator[RoleGrant]:
        """Of these users, in the namespace only."""
        for user in users:
            yield from self._by_namespace.get(namespace, _NOBODY).of(user)

    def cluster_roles(self) -> Iterator[tuple[str, RoleRules]]:
        return iter(self._cluster_roles.items())

    def role_rules(self, kind: str, namespace: str, name: str) -> RoleRules | None:
        if kind == "ClusterRole":
            return self._cluster_roles.get(name)
        return self._roles.get((namespace, name))


class _SharedLists:
    """Rules of one logical cluster, most of which say `get, list, watch`: kept once."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, ...], tuple[str, ...]] = {}

    def rule(self, rule: Mapping[str, Any]) -> PolicyRule:
        return PolicyRule(*[self._kept(tuple(rule.get(name) or ())) for name in PolicyRule.FIELDS])

    def _kept(self, values: tuple[str, ...]) -> tuple[str, ...]:
        return self._known.setdefault(values, values)


class RoleError(LookupError):
    """A binding whose role cannot be resolved."""


def resolve(
    grant_kind: str, name: str, namespace: str, roles: Sequence[ClusterPolicy]
) -> RoleRules:
    """The rules of a referenced role: the first policy that has it. Raises RoleError."""
    if grant_kind not in {"ClusterRole", "Role"}:
        raise RoleError(f"unsupported role reference kind: {go_quote(grant_kind)}")
    for policy in roles:
        rules = policy.role_rules(grant_kind, namespace, name)
        if rules is not None:
            return rules
    what = "clusterrole" if grant_kind == "ClusterRole" else "role"
    raise RoleError(f"{what}.rbac.authorization.k8s.io {go_quote(name)} not found")


class RbacAnswer(NamedTuple):
    allowed: bool
    reason: str
    depends_on_name: bool
    """Whether another object's name could have got another answer."""


def authorize(
    bindings: ClusterPolicy,
    roles: Sequence[ClusterPolicy],
    users: Sequence[User],
    attributes: Attributes,
) -> Steps[RbacAnswer]:
    """Whether any rule of any grant allows the request.

    A rule that allows whatever the name is preferred to one that names the object, so that
    the answer can be remembered for all names.
    """
    combined = attributes.resource
    if attributes.subresource:
        combined = f"{combined}/{attributes.subresource}"
    by_name: RoleGrant | None = None
    depends_on_name = False
    seen: set[tuple[str, str, str]] = set()
    errors: list[str] = []
    namespace = attributes.namespace if attributes.is_resource else ""
    for grant in bindings_of(bindings, users, namespace):
        yield
        if grant is None or grant[1:4] in seen:
            continue  # another binding of the same role
        seen.add(grant[1:4])
        try:
            rules = resolve(grant.role_kind, grant.role_name, grant.namespace, roles)
        except RoleError as error:
            errors.append(str(error))
            continue
        match = rules.match(attributes, combined)
        if match is Match.NONE:
            continue
        if match is Match.FOR_ALL_NAMES:
            return RbacAnswer(True, f"RBAC: allowed by {grant.describe()}", False)
        depends_on_name = True
        if match is Match.FOR_THIS_NAME and by_name is None:
            by_name = grant
    if by_name is not None:
        return RbacAnswer(True, f"RBAC: allowed by {by_name.describe()}", True)
    reason = f"RBAC: {aggregate(errors)}" if errors else ""
    return RbacAnswer(False, reason, depends_on_name)


def bindings_of(
    bindings: ClusterPolicy, users: Sequence[User], namespace: str
) -> Iterator[RoleGrant | None]:
    """The grants of these users, and None in between: there may be many users without any."""
    for subjects in bindings.subjects(namespace):
        for user in users:
            yield from subjects.of(user)
            yield None


def rules_for(
    bindings: ClusterPolicy, roles: Sequence[ClusterPolicy], users: Sequence[User], namespace: str
) -> Steps[tuple[list[PolicyRule], list[str]]]:
    """All rules these users hold, each binding once, and what could not be resolved."""
    rules: list[PolicyRule] = []
    errors: list[str] = []
    seen: set[tuple[str, str]] = set()
    for grant in bindings_of(bindings, users, namespace):
        yield
        if grant is None or grant[:2] in seen:
            continue
        seen.add(grant[:2])
        try:
            rules.extend(resolve(grant.role_kind, grant.role_name, grant.namespace, roles).rules)
        except RoleError as error:
            errors.append(str(error))
    return rules, errors


def _name(obj: Object) -> str:
    name: str = (obj.get("metadata") or {}).get("name", "")
    return name


def _namespace(obj: Object) -> str:
    namespace: str = (obj.get("metadata") or {}).get("namespace", "")
    return namespace


EMPTY_POLICY = ClusterPolicy(RbacObjects())
