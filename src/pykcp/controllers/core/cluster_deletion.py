"""Deletion of a logical cluster: its content, the LogicalCluster, and the workspace that owns it.

Content is looked for kind by kind. If no object in the cluster has finalizers of other
controllers, everything is deleted in one write together with the LogicalCluster and its
Workspace. Otherwise objects without finalizers are deleted, the remaining ones are reported in a
condition, and the cluster is reconciled again when content is deleted. Roles are deleted last, so
that controllers with finalizers keep their permissions. A write that was admitted before the
deletion may commit after the content was listed, before the cluster is gone or after it: a cluster
in which something was created during its deletion, or afterwards, is swept.

If deleted workspaces are kept (`trash`), nothing is deleted until everything can be, and then it
is moved to the trash.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import NamedTuple, Protocol

from pykcp.apis.kcp import logical_clusters as lifecycle
from pykcp.apis.kcp_catalog import kind_id
from pykcp.clients.interface import Change, Lister, ShardFeed
from pykcp.controllers.core.cluster_blockers import Blockers
from pykcp.controllers.core.cluster_content import (
    CRDS,
    RBAC,
    chunk_size,
    deletion,
    holders,
    in_deletion_order,
    is_kept,
    is_workspace,
    remains_message,
)
from pykcp.controllers.runtime.controller import Controller, Requeue
from pykcp.controllers.runtime.metrics import ControllerMetrics
from pykcp.controllers.runtime.shard_client import ShardClient
from pykcp.machinery import meta
from pykcp.machinery.kcp.condition_marks import mark_false, mark_true
from pykcp.machinery.kcp.conditions import INFO
from pykcp.machinery.object_keys import ObjectKey
from pykcp.machinery.resources import LOGICAL_CLUSTERS, WORKSPACES, GroupVersionResource
from pykcp.machinery.status import NotFound, StatusError
from pykcp.registry.cluster_content import ClusterContent, ContentItem
from pykcp.registry.indexes.entries import DELETING
from pykcp.registry.verbs.restore import CHUNK, Trash
from pykcp.registry.verbs.transaction import Delete, Raw, Write
from pykcp.types import Object

NAME = "kcp-logicalcluster-deletion"
_LOGICAL_CLUSTERS = kind_id(LOGICAL_CLUSTERS)
_DELETING = b'"deletionTimestamp":"'
_CHUNK = 50
"""Of one transaction: etcd takes no more than 128 operations, and a deletion is two of them."""
_AT_A_TIME = 32
"""Deletions under way at a time: enough to share commits, few enough to let others in between."""
_LOOK_AGAIN = 8.0
_GATHER = 0.02
_GATHER_EACH = 0.0003
"""Seconds; ten times what it takes to look at one object."""
_SWEEP_FOR = 10.0
_TAKES = 0.002
"""Seconds until a small workspace is gone."""
_PATIENCE = 0.2
"""Seconds before more is marked as deleted although others still wait for their end."""


NewRecord = Callable[[], Raw | None]
"""Makes the record of a workspace that is kept; None if it is gone."""


class FarWorkspaces(Protocol):
    async def workspace_of(self, cluster: Object) -> Object | None:
        """The Workspace of a LogicalCluster, if it is on another shard."""


class SweptCluster(NamedTuple):
    """A cluster that is gone and in which something appeared since."""

    cluster: str


class ClusterDeletion:
    def __init__(
        self,
        lister: Lister,
        client: ShardClient,
        content: ClusterContent,
        trash: Trash,
        now: Callable[[], str],
        metrics: ControllerMetrics | None = None,
        far: FarWorkspaces | None = None,
    ) -> None:
        """`far`: other shards, which may have the Workspaces of logical clusters."""
        self._far = far
        self._lister, self._client = lister, client
        self._content = content
        self._trash = trash
        self._now = now
        self._waiting: dict[str, float] = {}
        """Clusters whose content waits for finalizers, and how many seconds of news to gather
        before looking again: the more there is to look at, the longer."""
        self._blockers = Blockers()
        self._deleting: dict[str, bool] = {}
        """Clusters that are being deleted, and whether something was created in them meanwhile."""
        self._gone: dict[str, float] = {}
        """Clusters that went in the last seconds, and when."""
        self.controller: Controller[ObjectKey | SweptCluster] = Controller(
            NAME, self.reconcile, workers=16, metrics=metrics
        )

    def follow(self, feed: ShardFeed) -> None:
        feed.on(LOGICAL_CLUSTERS, self._on_cluster)
        feed.on_everything(self._on_anything, with_updates=False)
        feed.at_start(self._resume)

    def _on_cluster(self, change: Change) -> None:
        cluster = change.cluster
        if change.deleted:
            self._waiting.pop(cluster, None)
            self._look_again(self._blockers.forget(cluster))
            self._remember(cluster)
            if self._deleting.pop(cluster, False):
                self.controller.add_after(SweptCluster(cluster), _GATHER)
        elif _DELETING in change.value:
            self._deleting.setdefault(cluster, False)
            self.controller.add(_key(cluster))

    def _look_again(self, cluster: str) -> None:
        """The objects that block the deletion of a cluster have changed."""
        pause = self._waiting.get(cluster)
        if pause is not None:
            self.controller.add_after(_key(cluster), pause)

    def _remember(self, cluster: str) -> None:
        now = time.monotonic()
        while self._gone:
            oldest = next(iter(self._gone))
            if now - self._gone[oldest] < _SWEEP_FOR:
                break
            del self._gone[oldest]
        self._gone[cluster] = now

    def _on_anything(self, change: Change) -> None:
        if self._waiting and change.deleted:
            self._look_again(change.cluster)
        elif change.created and (self._gone or self._deleting):
            cluster = change.cluster
            if change.resource == _LOGICAL_CLUSTERS:
                return
            if cluster in self._gone:
                self.controller.add_after(SweptCluster(cluster), _GATHER)
            elif cluster in self._deleting:
                self._deleting[cluster] = True

    async def _resume(self) -> None:
        for ref in self._lister.find(DELETING, LOGICAL_CLUSTERS):
            self.controller.add(ref.key)

    async def reconcile(self, key: ObjectKey | SweptCluster) -> float | None:
        cluster = key.cluster
        if isinstance(key, SweptCluster):
            await self._sweep(cluster)
            return None
        found = await self._client.get(cluster, LOGICAL_CLUSTERS, "cluster")
        if found is None or not meta.has_finalizer(found, lifecycle.DELETION_FINALIZER):
            self._waiting.pop(cluster, None)
            return None
        if not meta.is_deleting(found):
            return None
        # Before looking, so that nothing is missed in between.
        self._waiting.setdefault(cluster, _GATHER)
        items = await self._content.of(cluster)
        new_record = await self._kept_workspace(found)
        if any(map(is_kept, items)):
            wanted = list(filter(is_kept, items)) if new_record else items
            return await self._delete_what_goes(found, wanted)
        if new_record:
            is_split = await self._move_to_trash(found, items, new_record)
        else:
            is_split = await self._remove(found, items)
        if meta.finalizers(found) != [lifecycle.DELETION_FINALIZER]:
            # Terminators are at work on it; the cluster above hears of it when they are done.
            self._look_again(self._blockers.note(found, is_here=True))
        if is_split:  # others may have put something back in between
            self.controller.add_after(SweptCluster(cluster), _GATHER)
        self._waiting.pop(cluster, None)
        return None

    async def _delete_what_goes(self, cluster: Object, items: list[ContentItem]) -> float:
        name = meta.cluster(cluster)
        self._waiting[name] = max(_GATHER, len(items) * _GATHER_EACH)
        errors: list[str] = []
        kept = list(filter(is_kept, items))
        holds_kept = holders(kept)
        going: list[ContentItem] = []
        marked: list[ContentItem] = []
        for item in items:
            if is_kept(item) or holds_kept(item):
                marked.append(item)
            elif item.resource.group != RBAC or item.resource.namespaced:
                going.append(item)
        for start in range(0, len(marked), _AT_A_TIME):
            some = marked[start : start + _AT_A_TIME]
            for found in await asyncio.gather(*(self._delete(name, item) for item in some)):
                errors += found
            await self._let_others_go_first()
        while going:
            count = chunk_size(going, _CHUNK)
            try:
                await self._client.transaction([deletion(name, item) for item in going[:count]])
            except StatusError as error:
                errors.append(error.message)
            del going[:count]
        is_here = not all(map(is_workspace, kept))
        self._look_again(self._blockers.note(cluster, is_here=is_here))
        message = remains_message(kept) + self._blockers.below(name).text()
        await self._report(cluster, message, errors)
        if errors:
            raise Requeue("; ".join(errors[:3]))
        return _LOOK_AGAIN

    async def _let_others_go_first(self) -> None:
        """Workspaces that are marked as deleted should not wait long for their end.

        Not for ever: those before them may wait for finalizers, and so may we.
        """
        waiting = len(self.controller.queue)
        if waiting > _AT_A_TIME:
            await asyncio.sleep(min(waiting * _TAKES, _PATIENCE))

    async def _delete(self, cluster: str, item: ContentItem) -> list[str]:
        """Set the deletion timestamp, so that the owners of finalizers act. Returns errors, if any."""
        metadata = item.metadata
        if metadata.is_deleting or item.resource.plural in ("apibindings", CRDS):
            return []  # these go with what they brought
        kind = GroupVersionResource(
            item.resource.group, item.resource.version, item.resource.plural
        )
        try:
            await self._client.delete(
                cluster, kind, metadata.name, metadata.namespace, propagation="Background"
            )
        except StatusError as error:
            return [error.message]
        return []

    async def _report(self, cluster: Object, message: str, errors: list[str]) -> None:
        """What is left, and who keeps it, as a condition."""
        name, now = meta.cluster(cluster), self._now()

        def mark(live: Object) -> None:
            if message:
                mark_false(
                    live,
                    lifecycle.CONTENT_DELETED,
                    "SomeResourcesRemain",
                    message,
                    now,
                    severity=INFO,
                )
            elif errors:
                failed = f"[{', '.join(errors)}]" if len(errors) > 1 else errors[0]
                mark_false(live, lifecycle.CONTENT_DELETED, "ContentDeletionFailed", failed, now)
            else:
                mark_true(live, lifecycle.CONTENT_DELETED, now)

        try:
            await self._client.change(name, LOGICAL_CLUSTERS, "cluster", mark, subresource="status")
        except NotFound:
            return

    async def _remove(self, cluster: Object, items: list[ContentItem]) -> bool:
        """Nothing blocks the deletion: delete roles, the cluster and its workspace last, in one write.

        Returns whether there were other writes before, since one would have been too large.
        """
        name = meta.cluster(cluster)
        going = in_deletion_order(items)
        last = await self._itself(cluster)
        is_split = False
        while (count := chunk_size(going, _CHUNK)) < len(going):
            await self._client.transaction([deletion(name, item) for item in going[:count]])
            del going[:count]
            is_split = True
        # A server that keeps deleted workspaces may have moved some of it to the trash.
        await self._trash.empty(name)
        writes: list[Write] = [deletion(name, item) for item in going]
        await self._client.transaction([*writes, *last])
        return is_split

    async def _kept_workspace(self, cluster: Object) -> NewRecord | None:
        """What records the workspace of a cluster that is kept; None if it is not kept."""
        if not self._trash.window:
            return None
        here = await self._workspace_of(cluster)
        if here is not None:
            key = here.resource.key(here.cluster, "", here.name)
            return partial(self._trash.new_record, key, cluster)
        workspace = await self._far.workspace_of(cluster) if self._far is not None else None
        if workspace is None or not _goes_with(workspace, cluster):
            return None
        return partial(self._trash.new_far_record, workspace, cluster)

    async def _move_to_trash(
        self, cluster: Object, items: list[ContentItem], new_record: NewRecord
    ) -> bool:
        """As `_remove`, but its content is kept in the trash."""
        if meta.finalizers(cluster) != [lifecycle.DELETION_FINALIZER]:
            return False  # terminators are still at work on its content
        name = meta.cluster(cluster)
        if self._trash.is_restoring(name):
            raise Requeue("it is still being restored from the trash")
        going, is_split = in_deletion_order(items), False
        while (count := chunk_size(going, CHUNK)) < len(going):
            is_split = True
            await self._client.transaction(_to_trash(name, going[:count]))
            del going[:count]
            if chunk_size(going, CHUNK) == len(going):
                # The last ones go along with what was created meanwhile.
                items = await self._content.of(name)
                if any(map(is_kept, items)):
                    raise Requeue("something new blocks the deletion")
                going = in_deletion_order(items)
        record = new_record()
        if record is None:
            raise Requeue("it is gone")
        last = [*_to_trash(name, going), record, *await self._itself(cluster)]
        await self._client.transaction(last)
        return is_split

    async def _itself(self, cluster: Object) -> list[Write]:
        name, client = meta.cluster(cluster), self._client

        def let_go(live: Object) -> None:
            left = [f for f in meta.finalizers(live) if f != lifecycle.DELETION_FINALIZER]
            live["metadata"]["finalizers"] = left

        writes: list[Write] = [client.to_update(name, LOGICAL_CLUSTERS, "cluster", let_go)]
        if meta.finalizers(cluster) != [lifecycle.DELETION_FINALIZER]:
            return writes  # terminators are still at work
        workspace = await self._workspace_of(cluster)
        return [*writes, workspace] if workspace is not None else writes

    async def _workspace_of(self, cluster: Object) -> Delete | None:
        """The workspace to delete with a cluster, if there is one without other finalizers."""
        owner = (cluster.get("spec") or {}).get("owner") or {}
        if owner.get("resource") != WORKSPACES.resource:
            return None
        workspace = await self._client.get(owner["cluster"], WORKSPACES, owner["name"])
        if workspace is None or not _goes_with(workspace, cluster):
            return None
        resource = self._client.resource(owner["cluster"], WORKSPACES)
        return Delete(resource, owner["cluster"], "", owner["name"])

    async def _sweep(self, cluster: str) -> None:
        if await self._is_inhabited(cluster):
            return
        items = await self._content.of(cluster)
        while items:
            if await self._is_inhabited(cluster):
                return
            count = chunk_size(items, _CHUNK)
            await self._client.transaction([deletion(cluster, item) for item in items[:count]])
            del items[:count]

    async def _is_inhabited(self, cluster: str) -> bool:
        """Whether a cluster is there, or about to be there again."""
        found = await self._client.get(cluster, LOGICAL_CLUSTERS, "cluster")
        return found is not None or self._trash.is_restoring(cluster)


def _goes_with(workspace: Object, cluster: Object) -> bool:
    """Whether a Workspace is being deleted and waits for nothing but its logical cluster."""
    return (
        meta.uid(workspace) == cluster["spec"]["owner"]["uid"]
        and meta.finalizers(workspace) == [lifecycle.WORKSPACE_FINALIZER]
        and meta.is_deleting(workspace)
    )


def _to_trash(cluster: str, items: list[ContentItem]) -> list[Write]:
    # Read again, rather than as they were listed: an update meanwhile goes along.
    return [replace(deletion(cluster, item), entry=None, to_trash=True) for item in items]


def _key(cluster: str) -> ObjectKey:
    return ObjectKey(cluster, "", "cluster")
