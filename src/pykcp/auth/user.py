"""Users: name, uid, groups and extra, and the well-known names of users and groups."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from pykcp.machinery import names

ANONYMOUS = "system:anonymous"
AUTHENTICATED = "system:authenticated"
UNAUTHENTICATED = "system:unauthenticated"
MASTERS = "system:masters"

KCP_ADMIN = "system:kcp:admin"
WORKSPACE_BOOTSTRAPPER = "system:kcp:tenancy:workspace-bootstrapper"
LOGICAL_CLUSTER_ADMIN = "system:kcp:logical-cluster-admin"
EXTERNAL_LOGICAL_CLUSTER_ADMIN = "system:kcp:external-logical-cluster-admin"
INITIALIZER_PREFIX = "system:kcp:initializer:"
TERMINATOR_PREFIX = "system:kcp:terminator:"

SCOPES_KEY = "authentication.kcp.io/scopes"
CLUSTER_NAME_KEY = "authentication.kcp.io/cluster-name"
WARRANT_KEY = "authorization.kcp.io/warrant"
CREDENTIAL_ID_KEY = "authentication.kubernetes.io/credential-id"

SERVICE_ACCOUNT_PREFIX = "system:serviceaccount:"
SERVICE_ACCOUNTS = "system:serviceaccounts"
CLUSTER_SCOPE = "cluster:"

Extra = Mapping[str, tuple[str, ...]]

_NO_EXTRA: Extra = MappingProxyType({})


@dataclass(frozen=True, slots=True, eq=False)
class User:
    """An authenticated (or anonymous) identity. Immutable, and cheap as a cache key."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Extra = field(default_factory=lambda: _NO_EXTRA)
    _hash: int = field(init=False, repr=False)

    def __post_init__(self) -> None:
        extra = tuple(sorted(self.extra.items())) if self.extra else ()
        object.__setattr__(self, "_hash", hash((self.name, self.uid, self.groups, extra)))

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[Any, ...]:
        """As data for another process: the hash of a text is another one there."""
        return User, (self.name, self.uid, self.groups, dict(self.extra))

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, User):
            return NotImplemented
        return (
            self._hash == other._hash
            and self.name == other.name
            and self.groups == other.groups
            and self.uid == other.uid
            and dict(self.extra) == dict(other.extra)
        )

    @property
    def size(self) -> int:
        """Characters of all that is said of the user, roughly: what it takes to keep it."""
        values = sum(map(len, self.groups)) + sum(map(len, self.extra))
        for more in self.extra.values():
            values += sum(map(len, more))
        return len(self.name) + len(self.uid) + values

    def with_group(self, group: str) -> User:
        """The same user, also a member of `group`."""
        if group in self.groups:
            return self
        return User(self.name, self.uid, (*self.groups, group), self.extra)

    def with_extra(self, key: str, *values: str) -> User:
        """The same user with further values appended to one extra key."""
        extra = {**self.extra, key: (*self.extra.get(key, ()), *values)}
        return User(self.name, self.uid, self.groups, extra)

    def to_json(self) -> dict[str, Any]:
        """The shape of `UserInfo` in reviews, admission and audit."""
        out: dict[str, Any] = {}
        if self.name:
            out["username"] = self.name
        if self.uid:
            out["uid"] = self.uid
        if self.groups:
            out["groups"] = list(self.groups)
        if self.extra:
            out["extra"] = {key: list(self.extra[key]) for key in sorted(self.extra)}
        return out


ANONYMOUS_USER = User(ANONYMOUS, groups=(UNAUTHENTICATED,))


def authenticated(user: User) -> User:
    """Add `system:authenticated`, unless the user is anonymous or already says which it is."""
    if user.name == ANONYMOUS or AUTHENTICATED in user.groups or UNAUTHENTICATED in user.groups:
        return user
    return user.with_group(AUTHENTICATED)


def service_account_name(namespace: str, name: str) -> str:
    return f"{SERVICE_ACCOUNT_PREFIX}{namespace}:{name}"


def service_account_groups(namespace: str) -> tuple[str, str]:
    return (SERVICE_ACCOUNTS, f"{SERVICE_ACCOUNTS}:{namespace}")


def service_account_user(
    cluster: str, namespace: str, name: str, uid: str, more: Mapping[str, str] | None = None
) -> User:
    """The identity of a service account, tied to its logical cluster."""
    extra = {key: (value,) for key, value in (more or {}).items() if value}
    extra[CLUSTER_NAME_KEY] = (cluster,)
    extra[SCOPES_KEY] = (CLUSTER_SCOPE + cluster,)
    groups = service_account_groups(namespace)
    return User(service_account_name(namespace, name), uid, groups, extra)


def split_service_account(username: str) -> tuple[str, str] | None:
    """(namespace, name) of a service account's user name; None if it is not a valid one."""
    if not username.startswith(SERVICE_ACCOUNT_PREFIX):
        return None
    parts = username[len(SERVICE_ACCOUNT_PREFIX) :].split(":")
    if len(parts) != 2:
        return None
    namespace, name = parts
    if names.dns1123_label(namespace) or names.dns1123_subdomain(name):
        return None
    return namespace, name


def is_service_account(user: User) -> bool:
    return user.name.startswith(SERVICE_ACCOUNT_PREFIX)


def global_name(user: User, cluster: str) -> str:
    """A globally unique name of the user, for limits.

    "" for members of system:masters, who are operators. System names, and names of users who are
    restricted to a logical cluster (service accounts, users of its issuers, impersonated users),
    are different users in each logical cluster.
    """
    if MASTERS in user.groups:
        return ""
    is_tied = SCOPES_KEY in user.extra or CLUSTER_NAME_KEY in user.extra
    if is_tied or user.name.startswith("system:"):
        return f"{user.name}@{cluster}"
    return user.name
