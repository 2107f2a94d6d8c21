"""Marks logical clusters, ClusterRoles and ClusterRoleBindings that other shards must know.

A logical cluster is marked while it holds exports, workspace types or cached resources. Roles and bindings are
for what they grant; `machinery.replicate_marks` says for what. Keys are the objects to judge.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from hashlib import blake2b
from typing import NamedTuple

import orjson

from pykcp.aio.slices import Slices, in_slices
from pykcp.apis.kcp_catalog import kind_id
from pykcp.caching import BoundedCache
from pykcp.clients.interface import Change, Client, Feed, Lister
from pykcp.controllers.cache.published import PublishedCopies
from pykcp.controllers.runtime.controller import Controller
from pykcp.controllers.runtime.fan_out import add_stored
from pykcp.controllers.runtime.metrics import ControllerMetrics
from pykcp.machinery.kcp.clusters import SYSTEM_ADMIN, is_system
from pykcp.machinery.kcp.replicate_marks import (
    ANNOTATION,
    APIS,
    CACHE,
    CONSUMERS,
    TENANCY,
    binding_reasons,
    is_marked,
    mark,
    marked_value,
    role_of,
    role_reasons,
    rule_reasons,
    value_of,
)
from pykcp.machinery.metadata import Metadata
from pykcp.machinery.object_keys import ObjectRef
from pykcp.machinery.resources import (
    API_EXPORTS,
    CLUSTER_CACHED_RESOURCES,
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    LOGICAL_CLUSTERS,
    WORKSPACE_TYPES,
    GroupVersionResource,
)
from pykcp.machinery.status import NotFound
from pykcp.registry.codec import decode
from pykcp.types import Object

NAME = "kcp-replicate-marking"
CLUSTER = "cluster"
_MARK, _CONSUMERS = ANNOTATION.encode(), CONSUMERS.encode()
_MARKING = (
    (APIS, API_EXPORTS),
    (TENANCY, WORKSPACE_TYPES),
    (CACHE, CLUSTER_CACHED_RESOURCES),
)
"""What makes a logical cluster one that others must know, and for whose sake."""


class MarkingResult(NamedTuple):
    kind: GroupVersionResource
    cluster: str
    name: str


class ReplicateMarking:
    def __init__(
        self,
        lister: Lister,
        client: Client,
        published: PublishedCopies,
        metrics: ControllerMetrics | None = None,
    ) -> None:
        self._lister = lister
        self._client = client
        self._published = published
        self._changed_roles: dict[str, set[str]] = {}
        """By cluster: roles whose bindings have to be judged again. They are found together: a
        look at all bindings of a cluster for each role would take long."""
        self._of_roles: BoundedCache[tuple[bytes, bool], frozenset[str]] = BoundedCache(
            "replicated-roles", 1024
        )
        """By content of a role, and whether its cluster is marked."""
        self.controller: Controller[MarkingResult] = Controller(
            NAME, self.reconcile, workers=8, metrics=metrics
        )

    def follow(self, feed: Feed) -> None:
        for _, kind in _MARKING:
            feed.on(kind, self._on_content)
        feed.on(LOGICAL_CLUSTERS, self._on_cluster)
        feed.on(CLUSTER_ROLES, self._on_role)
        feed.on(CLUSTER_ROLE_BINDINGS, self._on_binding)

    def _on_content(self, change: Change) -> None:
        cluster = change.cluster
        if (change.created or change.deleted) and not is_system(cluster):
            self.controller.add(MarkingResult(LOGICAL_CLUSTERS, cluster, CLUSTER))

    def _on_cluster(self, change: Change) -> None:
        """Only marked objects, and objects that were marked and may have lost the mark by mistake."""
        cluster = change.cluster
        if change.deleted or is_system(cluster):
            return
        if _MARK in change.value:
            self._add_roles(cluster)
        elif not self._published.has(LOGICAL_CLUSTERS, cluster, CLUSTER):
            return
        self.controller.add(MarkingResult(LOGICAL_CLUSTERS, cluster, CLUSTER))

    def _on_role(self, change: Change) -> None:
        if is_system(change.cluster):
            return
        if not change.deleted:
            self.controller.add(MarkingResult(CLUSTER_ROLES, change.cluster, change.name))
        self._changed_roles.setdefault(change.cluster, set()).add(change.name)
        self.controller.add(MarkingResult(CLUSTER_ROLE_BINDINGS, change.cluster, ""))

    def _on_binding(self, change: Change) -> None:
        if is_system(change.cluster):
            return
        if not change.deleted:
            self.controller.add(MarkingResult(CLUSTER_ROLE_BINDINGS, change.cluster, change.name))
        else:
            self._add_role_of(change.cluster, decode(change.value))

    async def reconcile(self, key: MarkingResult) -> None:
        if not key.name:
            await self._judge_bindings(key.cluster)
            return
        obj = self._get(*key)
        if obj is None or obj["metadata"].get("deletionTimestamp"):
            return
        reasons = await self._reasons(key, obj)
        before = value_of(obj)
        if marked_value(before, reasons) == before:
            return

        def change(live: Object) -> None:
            mark(live, marked_value(value_of(live), reasons))

        try:
            written = await self._client.change(key.cluster, key.kind, key.name, change)
        except NotFound:
            return
        if key.kind == LOGICAL_CLUSTERS and bool(before) != is_marked(written):
            self._add_roles(key.cluster)

    async def _judge_bindings(self, cluster: str) -> None:
        """Have the bindings of roles that changed judged again."""
        roles = self._changed_roles.pop(cluster, None)
        if not roles:
            return
        slices = Slices(cluster)
        for value in await self._bindings(cluster):
            binding = decode(value)
            if role_of(binding) in roles:
                name = binding["metadata"]["name"]
                self.controller.add(MarkingResult(CLUSTER_ROLE_BINDINGS, cluster, name))
            if slices.is_over():
                await slices.next()

    async def _reasons(self, key: MarkingResult, obj: Object) -> frozenset[str]:
        if key.kind == LOGICAL_CLUSTERS:
            return frozenset(
                reason for reason, kind in _MARKING if self._lister.keys(kind, key.cluster, limit=1)
            )
        in_marked = self._is_marked(key.cluster)
        if key.kind == CLUSTER_ROLES:
            consumers = await self._consumers_of(key.cluster, key.name)
            steps = role_reasons(obj, consumers, in_marked=in_marked)
            return await in_slices(steps, key.cluster)
        self._add_role_of(key.cluster, obj)
        reasons = await self._rule_reasons(key.cluster, role_of(obj), in_marked=in_marked)
        return binding_reasons(obj, reasons)

    async def _rule_reasons(self, cluster: str, role: str, *, in_marked: bool) -> frozenset[str]:
        """Those of a role that a binding refers to: thousands may refer to one with many rules."""
        value = self._role(cluster, role)
        if value is None:
            return frozenset()
        known_as = (blake2b(value, digest_size=16).digest(), in_marked)
        found = self._of_roles.get(known_as)
        if found is None:
            steps = rule_reasons(decode(value), in_marked=in_marked)
            found = self._of_roles.put(known_as, await in_slices(steps, cluster))
        return found

    def _role(self, cluster: str, name: str) -> bytes | None:
        """A role as bindings see it: the cluster's own, or one that counts everywhere."""
        if not name:
            return None
        own = self._lister.value(_ref(CLUSTER_ROLES, cluster, name))
        return own or self._lister.value(_ref(CLUSTER_ROLES, SYSTEM_ADMIN, name))

    def _add_role_of(self, cluster: str, binding: Object) -> None:
        """A role may be marked for its bindings' sake."""
        name = role_of(binding)
        if name and self._lister.has(cluster, CLUSTER_ROLES, name):
            self.controller.add(MarkingResult(CLUSTER_ROLES, cluster, name))

    def _add_roles(self, cluster: str) -> None:
        for kind in (CLUSTER_ROLES, CLUSTER_ROLE_BINDINGS):
            key_of = partial(_judged, kind, cluster)
            add_stored(self.controller, self._lister, kind_id(kind), cluster, key_of)

    async def _bindings(self, cluster: str) -> Sequence[bytes]:
        pages = self._lister.values_of(kind_id(CLUSTER_ROLE_BINDINGS), cluster)
        return [value async for page in pages for value in page]

    async def _consumers_of(self, cluster: str, role: str) -> list[Object]:
        """The bindings of a role that may name consumers; there are few in most clusters."""
        name = orjson.dumps(role)
        found = [v for v in await self._bindings(cluster) if _CONSUMERS in v and name in v]
        slices = Slices(cluster)
        bindings: list[Object] = []
        for value in found:
            binding = decode(value)
            if role_of(binding) == role:
                bindings.append(binding)
            if slices.is_over():
                await slices.next()
        return bindings

    def _is_marked(self, cluster: str) -> bool:
        value = self._lister.value(_ref(LOGICAL_CLUSTERS, cluster, CLUSTER))
        return value is not None and _MARK in value and is_marked(decode(value))

    def _get(self, kind: GroupVersionResource, cluster: str, name: str) -> Object | None:
        value = self._lister.value(_ref(kind, cluster, name))
        return None if value is None else decode(value)


def _judged(kind: GroupVersionResource, cluster: str, metadata: Metadata) -> MarkingResult:
    return MarkingResult(kind, cluster, metadata.name)


def _ref(kind: GroupVersionResource, cluster: str, name: str) -> ObjectRef:
    return ObjectRef(kind_id(kind), cluster, "", name)
