"""Visibility of children: whether a user may list workspaces in a logical cluster.

Most users of a large tree may see all of it, by roles that apply in every cluster. For them
one decision is reused for all logical clusters with the same facts.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from pykcp.auth.authz.attributes import Attributes, Decision
from pykcp.auth.authz.role_cache import ClusterFacts
from pykcp.auth.user import User
from pykcp.machinery.resources import LOGICAL_CLUSTERS, WORKSPACES
from pykcp.registry.keys import kind_prefix, object_key
from pykcp.registry.stored import StoreReader
from pykcp.virtual.framework import Parts

_PREFIX = kind_prefix(LOGICAL_CLUSTERS)
_REQUIRED_GROUPS = "authorization.kcp.io/required-groups"

Inactive = Callable[[str], bool | None]
"""Whether a logical cluster is out of use; None if there is none of that name here."""


class _Metadata(msgspec.Struct):
    annotations: dict[str, str] | None = None


class _Status(msgspec.Struct):
    phase: str = ""


class _LogicalCluster(msgspec.Struct):
    metadata: _Metadata
    status: _Status = msgspec.field(default_factory=_Status)


_decode = msgspec.json.Decoder(_LogicalCluster).decode


class TreeVisibility:
    """What one user sees, while one request is answered."""

    def __init__(
        self, parts: Parts, store: StoreReader, inactive: Inactive, user: User, top: str
    ) -> None:
        """`top`: the logical cluster that the user looks from."""
        self._authorizer, self._store, self._inactive = parts.authorizer, store, inactive
        self._top = top
        self._question = Attributes(
            user,
            "list",
            group=WORKSPACES.group,
            resource=WORKSPACES.resource,
            version=WORKSPACES.version,
        )
        self._alike: dict[ClusterFacts, bool] = {}
        self._is_typical = parts.directory.find(top, *WORKSPACES) is not None
        """Whether `top` binds what the others bind; otherwise it says nothing about them."""

    async def of_top(self) -> Decision:
        return await self._authorizer.authorize(self._top, self._question)

    async def allows(self, cluster: str) -> bool:
        """Whether there is such a logical cluster, in use, whose workspaces the user may list."""
        if self._inactive(cluster) is not False:
            return False
        known = self._authorizer.peek(cluster, self._question)
        if known is not None:
            return known.allowed
        if self._is_typical and await self._is_open(cluster):
            return True
        return (await self._authorizer.authorize(cluster, self._question)).allowed

    async def _is_open(self, cluster: str) -> bool:
        entry = self._store.get(object_key(_PREFIX, cluster, "", "cluster"))
        if entry is None:
            return False
        found = _decode(entry.value)
        groups = (found.metadata.annotations or {}).get(_REQUIRED_GROUPS)
        facts = ClusterFacts(found.status.phase, groups)
        known = self._alike.get(facts)
        if known is None:
            known = self._alike[facts] = await self._authorizer.is_allowed_everywhere(
                self._question, facts, self._top
            )
        return known
