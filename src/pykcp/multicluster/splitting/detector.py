"""The detector: notices objects of accepted types, and what changes of them concern.

It follows Clusters, Placements, Bindings and APIBindings in all logical clusters, and the objects of
the types that clusters accept.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import orjson

from pykcp.aio.slices import Slices
from pykcp.clients.interface import Change, Feed
from pykcp.controllers.runtime.controller import Controller, is_cluster
from pykcp.machinery import meta
from pykcp.machinery.object_keys import ObjectKey
from pykcp.machinery.resources import API_BINDINGS, GroupVersionResource
from pykcp.machinery.status import NotFound
from pykcp.multicluster.elsewhere import key_of, provider_of
from pykcp.multicluster.interpreter.dependencies import relations
from pykcp.multicluster.names import (
    CLUSTER_LABEL,
    CLUSTERS,
    NEGOTIATED,
    PLACEMENTS,
    WORKLOAD_BINDINGS,
)
from pykcp.multicluster.splitting import bindings
from pykcp.multicluster.splitting.aggregator import WorkloadAggregator
from pykcp.multicluster.splitting.inventory import NO_BINDING
from pykcp.multicluster.splitting.keys import (
    RootKey,
    is_leaf,
    is_root,
    root_of_leaf,
    type_of,
)
from pykcp.multicluster.splitting.leaves import known_leaf
from pykcp.multicluster.splitting.parts import LARGEST, SplitterParts
from pykcp.multicluster.splitting.scheduler import WorkloadScheduler
from pykcp.multicluster.splitting.splitter import WorkloadSplitter
from pykcp.types import Object

NAME = "workload-detector"


class WorkloadDetector:
    def __init__(
        self,
        parts: SplitterParts,
        scheduler: WorkloadScheduler,
        splitter: WorkloadSplitter,
        aggregator: WorkloadAggregator,
        on_type: Callable[[str, GroupVersionResource], None],
    ) -> None:
        """`on_type`: follow the objects of a type in a workspace from now on; it may be called
        again for the same ones.
        """
        self._parts, self._on_type = parts, on_type
        self._scheduler, self._splitter, self._aggregator = scheduler, splitter, aggregator
        self._followed: dict[str, GroupVersionResource] = {}
        """By `group/resource`, as changes name them."""
        self.controller: Controller[str] = Controller(
            NAME, self._survey, workers=2, lane=is_cluster, metrics=parts.metrics
        )

    def follow(self, feed: Feed) -> None:
        feed.on(CLUSTERS, self._on_cluster)
        feed.on(API_BINDINGS, self._on_api_binding)
        feed.on(WORKLOAD_BINDINGS, self._on_binding)
        feed.on(PLACEMENTS, self._on_placement)
        feed.on(NEGOTIATED, _ignore)  # read later, so that it has to be at hand
        self._parts.elsewhere.follow(self._look_at_cluster)

    async def load(self) -> None:
        """What there is already; later changes arrive one by one."""
        notes = (
            (CLUSTERS, self._note_cluster),
            (API_BINDINGS, None),
            (WORKLOAD_BINDINGS, self._note_binding),
            (PLACEMENTS, self._parts.inventory.put_placement),
        )
        slices = Slices(NAME)
        for cluster in self._parts.elsewhere.all():
            self._note_cluster(key_of(cluster), cluster)
        for kind, note in notes:
            for key in self._parts.lister.keys(kind):
                if note is None:
                    self._note_api_binding(key)
                else:
                    note(key, self._parts.get(key.cluster, kind, key.name, key.namespace))
                if slices.is_over():
                    await slices.next()

    # --- clusters and workspaces

    def _on_cluster(self, change: Change) -> None:
        self._look_at_cluster(change.key)

    def _look_at_cluster(self, key: ObjectKey) -> None:
        found = self._now(CLUSTERS, key) or self._parts.elsewhere.get(key)
        self._note_cluster(key, found)

    def _now(self, kind: GroupVersionResource, key: ObjectKey) -> Object | None:
        """An object as it is now: after a restart older changes are told again, and a cluster that
        was not ready then is no reason to write anything.
        """
        return self._parts.get(key.cluster, kind, key.name, key.namespace)

    def _note_cluster(self, key: ObjectKey, cluster: Object | None) -> None:
        found = self._parts.territory.put_cluster(key.cluster, key.name, cluster)
        for workspace in found.workspaces:
            if found.are_kinds_new:
                self._follow_types(workspace)
            if found.is_material:
                self._scheduler.note_clusters(workspace)
                self._reconsider(workspace, with_leaves=found.is_new)

    def _on_api_binding(self, change: Change) -> None:
        self._note_api_binding(change.key)

    def _note_api_binding(self, key: ObjectKey) -> None:
        """It is read as it is now, too."""
        binding = self._parts.stored(key.cluster, API_BINDINGS, key.name, "")
        provider = "" if binding is None else provider_of(binding)
        workspace = key.cluster
        if self._parts.territory.put_binding(workspace, key.name, provider):
            self._follow_types(workspace)
            self._reconsider(workspace, with_leaves=True)

    def _follow_types(self, workspace: str) -> None:
        for kind in self._parts.territory.kinds(workspace).values():
            name = f"{kind.group or 'core'}/{kind.resource}"
            self._followed.setdefault(name, kind)
            self._on_type(workspace, kind)
        self.controller.add(workspace)

    def _reconsider(self, workspace: str, *, with_leaves: bool) -> None:
        """Decide again on everything in a workspace. `with_leaves`: clusters are known now for
        which no leaf could be made.
        """

        async def roots() -> AsyncIterator[RootKey]:
            for key in self._parts.inventory.roots(workspace):
                self._aggregator.add(key)
                if with_leaves:
                    self._splitter.controller.add(key)
                yield key

        self._scheduler.controller.add_all(workspace, roots)

    async def _survey(self, workspace: str) -> None:
        """Look at all objects of accepted types; later changes arrive one by one."""
        for kind in self._parts.territory.kinds(workspace).values():
            try:
                async for page in self._parts.client.pages(workspace, kind):
                    for obj in page:
                        self._observe(type_of(kind), workspace, obj)
            except NotFound:
                continue  # the workspace does not have the type (yet)

    # --- placements and bindings

    def _on_placement(self, change: Change) -> None:
        self._parts.inventory.put_placement(change.key, _object_of(change))
        for key in self._parts.inventory.roots(change.cluster, change.namespace):
            self._scheduler.controller.add(key)
            self._splitter.controller.add(key)

    def _on_binding(self, change: Change) -> None:
        binding: Object = orjson.loads(change.value)
        self._note_binding(change.key, binding, is_gone=change.deleted)

    def _note_binding(
        self, at: ObjectKey, binding: Object | None, *, is_gone: bool = False
    ) -> None:
        type_name = meta.annotation(binding or {}, bindings.TYPE)
        name = (((binding or {}).get("spec") or {}).get("ref") or {}).get("name")
        if binding is None or not type_name or not name:
            return
        key, inventory = RootKey(at.cluster, type_name, at.namespace, name), self._parts.inventory
        found = NO_BINDING if is_gone else bindings.known(binding)
        before = inventory.put_binding(key, found)
        if is_gone:
            self._scheduler.controller.add(key)
        if found.is_news_to(before):
            self._reconsider_followers(key)
            self._splitter.controller.add(key)
            if inventory.leaves(key):
                self._aggregator.add(key)
        if found.refusal and found.refusal != before.refusal:
            self._aggregator.add(key)

    # --- objects

    def on_object(self, change: Change) -> None:
        """A change of any object; only those of accepted types in served workspaces matter."""
        kind = self._followed.get(change.resource.partition(":")[0])
        if kind is None or not self._parts.territory.is_served(change.cluster):
            return
        if len(change.value) > LARGEST:  # never a leaf, and not decoded
            if change.deleted:
                self._lost_root(RootKey(change.cluster, type_of(kind), *change.key[1:]))
            return
        obj: Object = orjson.loads(change.value)
        if change.deleted:
            self._lost(type_of(kind), change.cluster, obj)
        else:
            self._observe(type_of(kind), change.cluster, obj)

    def _observe(self, type_name: str, cluster: str, obj: Object) -> None:
        if not meta.namespace(obj):
            return  # what belongs to no namespace is placed by its label alone
        if is_leaf(obj):
            self._observe_leaf(_root_key(type_name, cluster, obj), obj)
            return
        key = RootKey(cluster, type_name, meta.namespace(obj), meta.name(obj))
        if is_root(type_name, obj):
            self._observe_root(key, obj)
        elif self._parts.inventory.is_known(key):
            self._lost_root(key)  # a user labelled it for a cluster, say

    def _observe_root(self, key: RootKey, obj: Object) -> None:
        parts = self._parts
        rules = parts.rules(key, obj)
        if not rules.is_placed:
            return
        before = parts.inventory.followers(key)
        found = relations(rules, key.type, obj)
        labels = {**meta.labels(obj), "": _mark(obj)}
        if not parts.inventory.put_root(key, labels, found):
            return  # its status alone changed
        self._scheduler.controller.add(key)
        if parts.inventory.placed(key) or parts.inventory.leaves(key):
            self._splitter.controller.add(key)
        for follower in before | parts.inventory.followers(key):
            self._scheduler.controller.add(follower)

    def _observe_leaf(self, key: RootKey, obj: Object) -> None:
        inventory = self._parts.inventory
        before = inventory.leaves(key).get(meta.labels(obj)[CLUSTER_LABEL])
        leaf = known_leaf(obj, before)
        inventory.put_leaf(key, leaf)
        if leaf.is_news_to(before):
            self._aggregator.add(key)
        if leaf.stuck != (before.stuck if before is not None else 0):
            self._scheduler.controller.add(key)
        if not leaf.is_as_written(before):
            self._splitter.controller.add(key)
        if leaf.is_applied and (before is None or not before.is_applied):
            for leader in inventory.leaders(key):
                self._splitter.controller.add(leader)

    def _lost(self, type_name: str, cluster: str, obj: Object) -> None:
        if is_leaf(obj):
            key = _root_key(type_name, cluster, obj)
            self._parts.inventory.drop_leaf(key, meta.labels(obj)[CLUSTER_LABEL])
            self._reconsider_followers(key)
            self._aggregator.add(key)
            self._scheduler.controller.add(key)
            self._splitter.controller.add(key)
        else:
            self._lost_root(RootKey(cluster, type_name, meta.namespace(obj), meta.name(obj)))

    def _lost_root(self, key: RootKey) -> None:
        """It is gone, or not to be placed any more."""
        followers = self._parts.inventory.followers(key)
        self._parts.inventory.drop_root(key)
        for one in (key, *followers):
            self._scheduler.controller.add(one)
        self._splitter.controller.add(key)

    def _reconsider_followers(self, key: RootKey) -> None:
        """Followers of followers, too: their clusters are those of the first leader."""
        seen, waiting = {key}, [key]
        while waiting:
            for follower in self._parts.inventory.followers(waiting.pop()):
                if follower not in seen:
                    seen.add(follower)
                    waiting.append(follower)
                    self._scheduler.controller.add(follower)


def _ignore(_: Change) -> None:
    """Nothing follows from it."""


def _object_of(change: Change) -> Object | None:
    return None if change.deleted else orjson.loads(change.value)


def _root_key(type_name: str, cluster: str, leaf: Object) -> RootKey:
    return RootKey(cluster, type_name, meta.namespace(leaf), root_of_leaf(leaf))


def _mark(obj: Object) -> str:
    """Changes when more than the status did."""
    generation = meta.generation(obj)
    if not generation:
        return meta.resource_version(obj)
    notes = sorted(meta.annotations(obj).items())
    return f"{generation}/{meta.uid(obj)}/{meta.deletion_timestamp(obj)}/{notes}"
