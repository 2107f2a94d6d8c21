"""Scopes and warrants: the effective users of a request in one logical cluster.

A *scope* (extra `authentication.kcp.io/scopes`) ties an identity to logical clusters; in others
it is an anonymous member of `system:authenticated`. A *warrant* (extra
`authorization.kcp.io/warrant`) is a further identity, as JSON, that is used if the user's own
permissions are not sufficient. Service accounts belong to the logical cluster that issued their
token, and have a global name in others.

A user may have any number of warrants, so that functions over all of them run in steps.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import orjson

from pykcp.auth.user import (
    ANONYMOUS,
    ANONYMOUS_USER,
    AUTHENTICATED,
    CLUSTER_NAME_KEY,
    CLUSTER_SCOPE,
    INITIALIZER_PREFIX,
    SCOPES_KEY,
    SERVICE_ACCOUNT_PREFIX,
    TERMINATOR_PREFIX,
    UNAUTHENTICATED,
    WARRANT_KEY,
    User,
    is_service_account,
)
from pykcp.steps import Steps

_GLOBAL_SERVICE_ACCOUNT_PREFIX = "system:kcp:serviceaccount:"


def _is_foreign(user: User, cluster: str) -> bool:
    """Whether a service account comes from another logical cluster.

    One that does not say where it comes from counts as local: a SubjectAccessReview
    names service accounts without their cluster.
    """
    clusters = user.extra.get(CLUSTER_NAME_KEY, ())
    return bool(clusters) and clusters != (cluster,)


def is_in_scope(user: User, cluster: str) -> bool:
    """Whether the identity is valid in this logical cluster."""
    if is_service_account(user) and _is_foreign(user, cluster):
        return False
    wanted = CLUSTER_SCOPE + cluster
    return all(wanted in value.split(",") for value in user.extra.get(SCOPES_KEY, ()))


def effective_scopes(values: Sequence[str]) -> list[str]:
    """The intersection of all values, each a comma-separated list, in the first one's order."""
    if not values:
        return []
    scopes = values[0].split(",")
    for value in values[1:]:
        further = frozenset(value.split(","))
        scopes = [scope for scope in scopes if scope in further]
    return scopes


def _origin_groups(user: User) -> Iterable[str]:
    """`system:cluster:<name>` for each cluster the user is tied to."""
    for scope in effective_scopes(user.extra.get(SCOPES_KEY, ())):
        if scope.startswith(CLUSTER_SCOPE):
            yield "system:" + scope


def warrants(user: User) -> Iterable[User]:
    """The identities a user carries as warrants; what does not parse is not a warrant."""
    values = user.extra.get(WARRANT_KEY)
    if not values:
        return
    for value in values:
        try:
            warrant = _user_from_warrant(orjson.loads(value))
        except (orjson.JSONDecodeError, TypeError):
            continue
        if warrant is not None:
            yield warrant


def _user_from_warrant(decoded: Any) -> User | None:
    if decoded is None:
        return User("")
    if not isinstance(decoded, dict):
        return None
    name, uid = decoded.get("user") or "", decoded.get("uid") or ""
    groups, extra = decoded.get("groups") or [], decoded.get("extra") or {}
    if not (isinstance(name, str) and isinstance(uid, str) and _is_strings(groups)):
        return None
    if not isinstance(extra, dict) or not all(v is None or _is_strings(v) for v in extra.values()):
        return None
    return User(name, uid, tuple(groups), {k: tuple(v or ()) for k, v in extra.items()})


def _is_strings(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def effective_users(cluster: str, user: User) -> Steps[tuple[User, ...]]:
    """As whom a user counts in one logical cluster: itself if in scope, and its warrants."""
    if not user.extra and not is_service_account(user):
        return (user,)  # the common case
    found: list[User] = []
    fallen: set[bool] = set()
    yield from _collect_effective(cluster, user, found, fallen)
    if True in fallen:
        found.append(User(ANONYMOUS, groups=(AUTHENTICATED, *_origin_groups(user))))
    if False in fallen:
        found.append(ANONYMOUS_USER)
    return tuple(found)


def is_tied(user: User) -> bool:
    """Whether it depends on the logical cluster as whom a user counts."""
    return is_service_account(user) or not _TYING.isdisjoint(user.extra)


_TYING = frozenset((SCOPES_KEY, WARRANT_KEY, CLUSTER_NAME_KEY))


def _collect_effective(
    cluster: str, user: User, found: list[User], fallen: set[bool]
) -> Steps[None]:
    """Append what `user` counts as; note in `fallen` whether one out of scope was authenticated."""
    if is_in_scope(user, cluster):
        found.append(user)
    else:
        fallen.add(AUTHENTICATED in user.groups)
    if is_service_account(user):
        origin = user.extra.get(CLUSTER_NAME_KEY, ())
        if len(origin) == 1 and _counts_globally(user, origin[0], cluster):
            found.append(_as_global_service_account(user, origin[0]))
    for warrant in warrants(user):
        yield
        if is_service_account(warrant) and not warrant.extra.get(CLUSTER_NAME_KEY):
            continue  # a service account without a cluster could belong to any cluster
        groups = (*warrant.groups, *_origin_groups(warrant))
        counted = User(warrant.name, warrant.uid, groups, warrant.extra)
        yield from _collect_effective(cluster, counted, found, fallen)


def _counts_globally(user: User, origin: str, cluster: str) -> bool:
    """Whether a service account has its global name in this cluster.

    A token is valid in its own cluster; another scope means that a user impersonates the account,
    who must not get access beyond that user's own.
    """
    here, there = CLUSTER_SCOPE + cluster, CLUSTER_SCOPE + origin
    values = (value.split(",") for value in user.extra.get(SCOPES_KEY, ()))
    return all(here in scopes or there in scopes for scopes in values)


def _global_service_account_name(user: User, origin: str) -> str:
    suffix = user.name[len(SERVICE_ACCOUNT_PREFIX) :]
    return f"{_GLOBAL_SERVICE_ACCOUNT_PREFIX}{origin}:{suffix}"


def _as_global_service_account(user: User, origin: str) -> User:
    """The name by which other logical clusters can bind roles to a service account."""
    groups = [group for group in user.groups if group == AUTHENTICATED]
    groups.extend(_origin_groups(user))
    return User(_global_service_account_name(user, origin), groups=tuple(groups), extra=user.extra)


def scoped(user: User, cluster: str) -> Steps[User]:
    """The user with its warrants, as far as they are valid in this logical cluster."""
    extra = {**user.extra, SCOPES_KEY: (*user.extra.get(SCOPES_KEY, ()), CLUSTER_SCOPE + cluster)}
    if WARRANT_KEY in extra:
        carried: list[str] = []
        for warrant in warrants(user):
            carried.append(_warrant_json((yield from scoped(warrant, cluster))))
            yield
        extra[WARRANT_KEY] = tuple(carried)
    return User(user.name, user.uid, user.groups, extra)


def has_lifecycle_group(groups: Iterable[str]) -> bool:
    """Whether a virtual workspace (initializing or terminating) sent this request."""
    return any(g.startswith((INITIALIZER_PREFIX, TERMINATOR_PREFIX)) for g in groups)


def prefixed(user: User, prefix: str) -> Steps[User]:
    """The user as a maximal permission policy knows it: name, groups and warrants prefixed."""
    name = prefix + user.name
    if is_service_account(user):
        origin = user.extra.get(CLUSTER_NAME_KEY, ())
        if len(origin) != 1:
            kind = AUTHENTICATED if AUTHENTICATED in user.groups else UNAUTHENTICATED
            return User(prefix + ANONYMOUS, groups=(prefix + kind,))
        name = prefix + _global_service_account_name(user, origin[0])
    extra = {key: values for key, values in user.extra.items() if key != WARRANT_KEY}
    carried: list[str] = []
    for warrant in warrants(user):
        carried.append(_warrant_json((yield from prefixed(warrant, prefix))))
        yield
    if carried:
        extra[WARRANT_KEY] = tuple(carried)
    return User(name, user.uid, tuple(prefix + group for group in user.groups), extra)


def _warrant_json(user: User) -> str:
    fields: dict[str, Any] = {"user": user.name, "groups": list(user.groups)}
    fields["extra"] = {key: list(user.extra[key]) for key in sorted(user.extra)}
    fields["uid"] = user.uid
    return orjson.dumps({key: value for key, value in fields.items() if value}).decode()
