"""Who a request is from, as the next server is told. Pure.

Headers in which a proxy names a user are removed from every request, whatever case they are in
and whoever sent them, and set anew for callers that this proxy has authenticated.
"""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import quote

from pykcp.auth.user import (
    INITIALIZER_PREFIX,
    LOGICAL_CLUSTER_ADMIN,
    MASTERS,
    TERMINATOR_PREFIX,
    User,
)
from pykcp.caching import BoundedCache
from pykcp.clients.forwarder import passed_headers
from pykcp.proxy.mapping import PathMapping
from pykcp.wire.exchange import Header

DROPPED_GROUPS = (
    MASTERS,
    LOGICAL_CLUSTER_ADMIN,
    f"{INITIALIZER_PREFIX}*",
    f"{TERMINATOR_PREFIX}*",
)
"""Groups with rights that only servers of the installation may claim."""
_ALWAYS_REMOVED = ("x-remote-", "x-pykcp-")
"""Headers that servers of the installation believe each other."""
_SAFE = "$&+,/:;=@"
"""What Go's path escaping leaves as it is, but for the slash, which it escapes."""
_USERS = 4096


class GroupFilter:
    """Which groups of a user the next server is told: those to pass on, without those to drop."""

    def __init__(self, pass_on: Sequence[str], drop: Sequence[str]) -> None:
        """A name that ends in `*` stands for all that begin like it; no names to pass on: all."""
        self._passes_all = not pass_on
        self._pass_on, self._pass_on_prefixes = _split(pass_on)
        self._drop, self._drop_prefixes = _split(drop)

    def groups(self, user: User) -> list[str]:
        """Sorted."""
        return sorted(group for group in set(user.groups) if self._passes(group))

    def _passes(self, group: str) -> bool:
        if group in self._drop or group.startswith(self._drop_prefixes):
            return False
        return (
            self._passes_all or group in self._pass_on or group.startswith(self._pass_on_prefixes)
        )


def _split(names: Sequence[str]) -> tuple[frozenset[str], tuple[str, ...]]:
    """Whole names, and beginnings of names."""
    whole = frozenset(name for name in names if not name.endswith("*"))
    return whole, tuple(name[:-1] for name in names if name.endswith("*"))


class IdentityHeaders:
    """The headers of forwarded requests, as one mapping names them."""

    def __init__(self, mapping: PathMapping) -> None:
        self._user, self._group = mapping.user_header, mapping.group_header
        self._extra = mapping.extra_header_prefix
        self._removed = (*_ALWAYS_REMOVED, self._extra)
        self._known: BoundedCache[tuple[User, bool], tuple[Header, ...]] = BoundedCache("", _USERS)

    def of(self, user: User, groups: GroupFilter | None) -> tuple[Header, ...]:
        """What the next server is told about a user; `groups`: None passes all groups on."""
        key = (user, groups is None)
        known = self._known.get(key)
        if known is None:
            known = self._make(user, sorted(user.groups) if groups is None else groups.groups(user))
            self._known.put(key, known)
        return known

    def _make(self, user: User, groups: Sequence[str]) -> tuple[Header, ...]:
        headers = [(self._user, user.name)]
        headers += [(self._group, group) for group in groups]
        headers += [
            (self._extra + quote(key, safe=_SAFE.replace("/", "")).lower(), value)
            for key, values in user.extra.items()
            for value in values
        ]
        return tuple(headers)

    def passed(self, headers: Sequence[Header], *, without_token: bool) -> list[Header]:
        """Headers of a client that the next server gets.

        `without_token`: the caller is authenticated here; its credentials end here.
        """
        removed, names = self._removed, (self._user, self._group)
        return [
            header
            for header in passed_headers(headers)
            if not header[0].startswith(removed)
            and header[0] not in names
            and not (without_token and header[0] == "authorization")
        ]
