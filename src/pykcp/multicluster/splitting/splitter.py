"""The splitter: makes the leaves that Bindings ask for, and removes the others.

A leaf is made after the leaves of the objects that it needs were applied in the same cluster, and
those are removed after it: the scheduler keeps followers where a leader still has a leaf.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from pykcp.aio.slices import Slices
from pykcp.controllers.runtime.controller import Controller
from pykcp.machinery import conditions, meta
from pykcp.machinery.resources import GroupVersionResource
from pykcp.machinery.status import AlreadyExists, Conflict, NotFound, StatusError
from pykcp.multicluster.names import (
    CLUSTER_LABEL,
    CLUSTERS,
    ROOT_UID,
    WORKLOAD_BINDINGS,
    is_shared_name,
    leaf_name,
    syncer_finalizer,
)
from pykcp.multicluster.splitting import bindings
from pykcp.multicluster.splitting.inventory import KnownLeaf
from pykcp.multicluster.splitting.keys import RootKey, is_leaf
from pykcp.multicluster.splitting.leaves import brought_up_to_date, expected, render_leaf
from pykcp.multicluster.splitting.overrides import BadOverride, overridden
from pykcp.multicluster.splitting.parts import SplitterParts
from pykcp.types import Object

NAME = "workload-splitter"
APPLIED = "OverridesApplied"
_AGAIN = 0.2


class WorkloadSplitter:
    def __init__(self, parts: SplitterParts) -> None:
        self._parts = parts
        self._waiting: dict[tuple[RootKey, str], float] = {}
        """Since when leaves wait for those of their followers."""
        self.controller: Controller[RootKey] = Controller(
            NAME, self.reconcile, workers=16, metrics=parts.metrics
        )

    async def reconcile(self, key: RootKey) -> float | None:
        parts = self._parts
        kind = parts.territory.kind(key.cluster, key.type)
        if kind is None:
            return None  # no cluster accepts the type any more: leaves stay as they are
        if parts.is_too_large(key):
            return None
        root, binding = parts.root(key), parts.binding(key)
        is_wanted = root is not None and not meta.is_deleting(root)
        counts = bindings.shares(binding) if is_wanted and binding is not None else []
        again = None
        if root is not None and binding is not None and is_wanted:
            again = await self._make(key, kind, root, binding, counts)
        wanted = {name for name, _ in counts}
        for cluster in set(parts.inventory.leaves(key)) - wanted:
            self._waiting.pop((key, cluster), None)
            await self._remove(key, kind, cluster)
        return again

    def first_leaves(
        self, key: RootKey, root: Object, binding: Object
    ) -> list[tuple[Object, KnownLeaf]] | None:
        """The leaves of a new Binding, for the scheduler to write together with it. None if
        something has to be waited for, or noted: then they are made as usual.
        """
        parts = self._parts
        if parts.inventory.followers(key) or parts.inventory.leaves(key):
            return None
        rules, placement = parts.rules(key, root), parts.placement(key, root)
        if ((placement or {}).get("spec") or {}).get("overrides"):
            return None
        counts = bindings.shares(binding)
        rendered = [render_leaf(root, rules, cluster, counts) for cluster, _ in counts]
        return [(leaf, expected({}, leaf, root)) for leaf in rendered]

    async def _make(
        self,
        key: RootKey,
        kind: GroupVersionResource,
        root: Object,
        binding: Object,
        counts: list[tuple[str, int | None]],
    ) -> float | None:
        parts = self._parts
        rules, placement = parts.rules(key, root), parts.placement(key, root)
        views = parts.territory.clusters(key.cluster)
        problems: dict[str, str] = {}
        again = None
        slices = Slices(key.cluster)
        for cluster, _ in counts:
            if slices.is_over():
                await slices.next()
            leaf = render_leaf(root, rules, cluster, counts)
            try:
                leaf = overridden(leaf, rules, placement, views.get(cluster))
                if not await self._bring(key, kind, root, leaf):
                    again = _AGAIN
            except BadOverride as error:
                problems[cluster] = str(error)
            except StatusError as error:
                if not 400 <= error.code < 500 or isinstance(error, Conflict | NotFound):
                    raise
                problems[cluster] = str(error)  # the server rejects it: an override made it invalid
        has_overrides = bool(((placement or {}).get("spec") or {}).get("overrides"))
        await self._note(key, binding, problems, has_overrides=has_overrides)
        return again

    async def _bring(
        self, key: RootKey, kind: GroupVersionResource, root: Object, wanted: Object
    ) -> bool:
        """Create or update a leaf; False if it has to be looked at again."""
        parts, name = self._parts, wanted["metadata"]["name"]
        cluster = wanted["metadata"]["labels"][CLUSTER_LABEL]
        leaf = parts.get(key.cluster, kind, name, key.namespace)
        if leaf is None:
            if not self._takes(key, cluster):
                return True
            if not self._may_begin(key, cluster):
                return False
            try:
                with self._expecting(key, expected({}, wanted, root)):
                    await parts.client.create(key.cluster, kind, wanted)
            except AlreadyExists:
                return False
            self._waiting.pop((key, cluster), None)
            return True
        if (
            not is_leaf(leaf)
            or meta.annotation(leaf, ROOT_UID) != wanted["metadata"]["annotations"][ROOT_UID]
        ):
            return await self._give_way(key, kind, leaf)
        if meta.is_deleting(leaf):
            return False  # made again when it is gone
        changed = brought_up_to_date(leaf, wanted)
        if changed is not None:
            with self._expecting(key, expected(leaf, wanted, root)):
                await parts.client.update(key.cluster, kind, changed)
        return True

    @contextmanager
    def _expecting(self, key: RootKey, leaf: KnownLeaf) -> Iterator[None]:
        """Know what is being written, so that its event is not looked at; a failure undoes that."""
        inventory = self._parts.inventory
        before = inventory.leaves(key).get(leaf.cluster)
        if before is not None:
            leaf = replace(before, content=leaf.content)
        inventory.put_leaf(key, leaf)
        try:
            yield
        except BaseException:
            if inventory.leaves(key).get(leaf.cluster) is leaf:
                if before is None:
                    inventory.drop_leaf(key, leaf.cluster)
                else:
                    inventory.put_leaf(key, before)
            raise

    async def _give_way(self, key: RootKey, kind: GroupVersionResource, leaf: Object) -> bool:
        """A leaf of an earlier object of this name goes; any other object that is in the way stays,
        and there is no leaf then.
        """
        if is_leaf(leaf) and not meta.is_deleting(leaf):
            await self._delete(key, kind, leaf)
        return not is_leaf(leaf)

    def _takes(self, key: RootKey, cluster: str) -> bool:
        """Whether there is a Cluster for a new leaf; nobody else would ever release it."""
        view = self._parts.territory.clusters(key.cluster).get(cluster)
        return view is not None and not view.is_terminating

    def _may_begin(self, key: RootKey, cluster: str) -> bool:
        """Whether everything that the object needs was applied in the cluster, or waited for."""
        inventory, now = self._parts.inventory, self._parts.clock()
        missing = False
        for follower in inventory.followers(key):
            if not inventory.has_root(follower) or key in inventory.followers(follower):
                continue
            leaf = inventory.leaves(follower).get(cluster)
            missing = missing or leaf is None or not leaf.is_applied
        if not missing:
            return True
        since = self._waiting.setdefault((key, cluster), now)
        return now - since >= self._parts.settings.follower_wait

    async def _remove(self, key: RootKey, kind: GroupVersionResource, cluster: str) -> None:
        name = leaf_name(key.name, cluster)
        leaf = self._parts.get(key.cluster, kind, name, key.namespace)
        if leaf is None:
            self._parts.inventory.drop_leaf(key, cluster)
        elif is_leaf(leaf) and not meta.is_deleting(leaf):
            await self._delete(key, kind, leaf)
        elif is_leaf(leaf) and self._is_without_cluster(key, cluster):
            await self._release(key, kind, leaf, syncer_finalizer(cluster))

    def _is_without_cluster(self, key: RootKey, cluster: str) -> bool:
        """Whether the workspace says that it has no such Cluster: one that was made for it while
        it was deleted has nobody else to release it. Of Clusters of other workspaces nothing is
        said here.
        """
        if is_shared_name(cluster):
            return False
        return self._parts.get(key.cluster, CLUSTERS, cluster, "") is None

    async def _release(
        self, key: RootKey, kind: GroupVersionResource, leaf: Object, finalizer: str
    ) -> None:
        uid = meta.uid(leaf)

        def strip(live: Object) -> None:
            if meta.uid(live) == uid:
                meta.remove_finalizer(live, finalizer)

        try:
            await self._parts.client.change(
                key.cluster, kind, meta.name(leaf), strip, key.namespace
            )
        except NotFound:
            return

    async def _delete(self, key: RootKey, kind: GroupVersionResource, leaf: Object) -> None:
        await self._parts.client.delete(
            key.cluster, kind, meta.name(leaf), key.namespace, uid=meta.uid(leaf)
        )

    async def _note(
        self, key: RootKey, binding: Object, problems: dict[str, str], *, has_overrides: bool
    ) -> None:
        """The condition about overrides; there is none where there are no overrides."""
        found = conditions.find(conditions.conditions_of(binding), APPLIED)
        if found is None and not problems and not has_overrides:
            return
        text = "; ".join(f"{cluster}: {problem}" for cluster, problem in sorted(problems.items()))
        status = conditions.FALSE if problems else conditions.TRUE
        reason = "InvalidOverride" if problems else "Applied"
        if found is not None and (found.get("status"), found.get("message") or "") == (
            status,
            text,
        ):
            return
        now = self._parts.clock()

        def set_condition(live: Object) -> None:
            state = live.setdefault("status", {})
            state["conditions"] = conditions.with_condition(
                state.get("conditions") or [], APPLIED, status, reason=reason, message=text, now=now
            )

        await self._parts.client.change(
            key.cluster,
            WORKLOAD_BINDINGS,
            meta.name(binding),
            set_condition,
            key.namespace,
            "status",
        )
