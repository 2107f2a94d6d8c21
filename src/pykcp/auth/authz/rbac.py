"""Role-based access control over the roles and bindings of one logical cluster.

`Policy` is an immutable index of one cluster's RBAC objects, by subject. Roles are looked
up in the cluster that holds the binding and then in further policies (`system:admin`, whose
roles can be bound everywhere). All of it is pure: objects in, decisions out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from pykcp.auth.authz.attributes import Attributes
from pykcp.auth.authz.rules import Match, Rule
from pykcp.auth.errors import aggregate
from pykcp.auth.user import User, service_account_name
from pykcp.machinery.status import go_quote
from pykcp.types import Object

Rules = tuple[Rule, ...]
Namespaced = tuple[str, str]


@dataclass(frozen=True, slots=True)
class RbacObjects:
    """The decoded RBAC objects of one logical cluster."""

    cluster_roles: Sequence[Object] = ()
    cluster_role_bindings: Sequence[Object] = ()
    roles: Sequence[Object] = ()
    role_bindings: Sequence[Object] = ()


class Grant(NamedTuple):
    """A binding as it applies to one subject."""

    binding: str
    """Name, followed by /namespace for a RoleBinding."""
    namespace: str
    role_kind: str
    role_name: str
    subject: str

    def describe(self) -> str:
        kind = "RoleBinding" if self.namespace else "ClusterRoleBinding"
        role = f"{self.role_kind} {go_quote(self.role_name)}"
        return f"{kind} {go_quote(self.binding)} of {role} to {self.subject}"


@dataclass(slots=True)
class _Subjects:
    """Grants by the name of a user or group."""

    users: dict[str, list[Grant]] = field(default_factory=dict)
    groups: dict[str, list[Grant]] = field(default_factory=dict)

    def add(self, binding: Object, namespace: str) -> None:
        meta, ref = binding.get("metadata") or {}, binding.get("roleRef") or {}
        name = meta.get("name", "")
        label = f"{name}/{namespace}" if namespace else name
        kind, role = ref.get("kind", ""), ref.get("name", "")
        for subject in binding.get("subjects") or ():
            who, index, key = self._place(subject, namespace)
            if key:
                index.setdefault(key, []).append(Grant(label, namespace, kind, role, who))

    def _place(
        self, subject: Mapping[str, str], namespace: str
    ) -> tuple[str, dict[str, list[Grant]], str]:
        """How a subject is called, which index it belongs to and under which key ("": none)."""
        kind, name = subject.get("kind", ""), subject.get("name", "")
        if kind == "User":
            return f"User {go_quote(name)}", self.users, name
        if kind == "Group":
            return f"Group {go_quote(name)}", self.groups, name
        home = subject.get("namespace") or namespace
        if kind != "ServiceAccount" or not home:
            return "", self.users, ""
        described = f"ServiceAccount {go_quote(f'{name}/{home}')}"
        return described, self.users, service_account_name(home, name)

    def of(self, users: Iterable[User]) -> Iterator[Grant]:
        for user in users:
            yield from self.users.get(user.name, ())
            for group in user.groups:
                yield from self.groups.get(group, ())


_NOBODY = _Subjects()


class Policy:
    """One logical cluster's roles and bindings, indexed."""

    __slots__ = ("_by_namespace", "_cluster_roles", "_cluster_wide", "_roles")

    def __init__(self, objects: RbacObjects) -> None:
        self._cluster_roles = {_name(role): _rules(role) for role in objects.cluster_roles}
        self._roles = {(_namespace(r), _name(r)): _rules(r) for r in objects.roles}
        self._cluster_wide = _Subjects()
        for binding in sorted(objects.cluster_role_bindings, key=_name):
            self._cluster_wide.add(binding, "")
        self._by_namespace: dict[str, _Subjects] = {}
        for binding in sorted(objects.role_bindings, key=_name):
            namespace = _namespace(binding)
            self._by_namespace.setdefault(namespace, _Subjects()).add(binding, namespace)

    def grants(self, users: Iterable[User], namespace: str) -> Iterator[Grant]:
        """Bindings of these users: cluster-wide, and in the namespace if there is one."""
        users = tuple(users)
        yield from self._cluster_wide.of(users)
        if namespace:
            yield from self._by_namespace.get(namespace, _NOBODY).of(users)

    def role_rules(self, kind: str, namespace: str, name: str) -> Rules | None:
        if kind == "ClusterRole":
            return self._cluster_roles.get(name)
        return self._roles.get((namespace, name))


class RoleError(LookupError):
    """A binding whose role cannot be resolved."""


def resolve(grant_kind: str, name: str, namespace: str, roles: Sequence[Policy]) -> Rules:
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
    bindings: Policy, roles: Sequence[Policy], users: Sequence[User], attributes: Attributes
) -> RbacAnswer:
    """Whether any rule of any grant allows the request.

    A rule that allows whatever the name is preferred to one that names the object, so that
    the answer can be remembered for all names.
    """
    combined = attributes.resource
    if attributes.subresource:
        combined = f"{combined}/{attributes.subresource}"
    by_name: Grant | None = None
    depends_on_name = False
    errors: list[str] = []
    for grant in bindings.grants(users, attributes.namespace if attributes.is_resource else ""):
        try:
            rules = resolve(grant.role_kind, grant.role_name, grant.namespace, roles)
        except RoleError as error:
            errors.append(str(error))
            continue
        for rule in rules:
            match = rule.match(attributes, combined)
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


def rules_for(
    bindings: Policy, roles: Sequence[Policy], users: Sequence[User], namespace: str
) -> tuple[list[Rule], list[str]]:
    """All rules these users hold, each binding once, and what could not be resolved."""
    rules: list[Rule] = []
    errors: list[str] = []
    seen: set[tuple[str, str]] = set()
    for grant in bindings.grants(users, namespace):
        if (grant.binding, grant.namespace) in seen:
            continue
        seen.add((grant.binding, grant.namespace))
        try:
            rules.extend(resolve(grant.role_kind, grant.role_name, grant.namespace, roles))
        except RoleError as error:
            errors.append(str(error))
    return rules, errors


def _name(obj: Object) -> str:
    name: str = (obj.get("metadata") or {}).get("name", "")
    return name


def _namespace(obj: Object) -> str:
    namespace: str = (obj.get("metadata") or {}).get("namespace", "")
    return namespace


def _rules(role: Object) -> Rules:
    return tuple(Rule.from_json(rule) for rule in role.get("rules") or ())


EMPTY_POLICY = Policy(RbacObjects())
