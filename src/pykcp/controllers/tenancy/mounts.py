"""Mounted workspaces: mirrors URL and phase of the mount object.

The object is of any kind that its workspace serves and says `status.URL` and `status.phase`.
Workspaces are found by it in an index; which workspaces have mounts at all is remembered, so
that other writes cost no more than a look into a set.
"""

from __future__ import annotations

from collections.abc import Callable

from pykcp.apis.kcp.logical_clusters import READY, UNAVAILABLE
from pykcp.apis.kcp_catalog import kind_id
from pykcp.clients.interface import Change, Lister, ShardFeed
from pykcp.controllers.runtime.controller import Controller
from pykcp.controllers.runtime.fan_out import add_indexed, key_of
from pykcp.controllers.runtime.kinds import ServedKinds
from pykcp.controllers.runtime.metrics import ControllerMetrics
from pykcp.controllers.runtime.shard_client import ShardClient
from pykcp.machinery import meta
from pykcp.machinery.kcp.condition_marks import mark_false, mark_true
from pykcp.machinery.object_keys import ObjectKey
from pykcp.machinery.resources import LOGICAL_CLUSTERS, WORKSPACES
from pykcp.machinery.status import NotFound, go_quote
from pykcp.registry.catalog.directory import Directory
from pykcp.registry.indexes.entries import MOUNTS, mount_entry
from pykcp.types import Object

NAME = "kcp-workspace-mounts"
MOUNT_READY = "WorkspaceMountReady"
_WORKSPACES = kind_id(WORKSPACES)
_LOGICAL_CLUSTERS = kind_id(LOGICAL_CLUSTERS)
_MOUNT = b'"mount":{'


class MountController:
    def __init__(
        self,
        lister: Lister,
        client: ShardClient,
        directory: Directory,
        now: Callable[[], str],
        metrics: ControllerMetrics | None = None,
    ) -> None:
        self._lister, self._client = lister, client
        self._kinds = ServedKinds(directory)
        self._now = now
        self._clusters: set[str] = set()
        """Where there are mounts."""
        self.controller: Controller[ObjectKey] = Controller(NAME, self.reconcile, metrics=metrics)

    def follow(self, feed: ShardFeed) -> None:
        feed.on_everything(self._on_anything)
        feed.at_start(self._resume)

    def _on_anything(self, change: Change) -> None:
        if change.resource == _WORKSPACES:
            if not change.deleted and _MOUNT in change.value:
                self._add(change.key)
            return
        if not self._clusters:
            return
        cluster = change.cluster
        if cluster in self._clusters:
            if change.deleted and change.resource == _LOGICAL_CLUSTERS:
                self._clusters.discard(cluster)
            index = mount_entry(cluster, change.namespace, change.name)
            add_indexed(self.controller, self._lister, index, WORKSPACES, key_of)

    def _add(self, key: ObjectKey) -> None:
        self._clusters.add(key.cluster)
        self.controller.add(key)

    async def _resume(self) -> None:
        for ref in self._lister.find(MOUNTS, WORKSPACES):
            self._add(ref.key)

    async def reconcile(self, key: ObjectKey) -> float | None:
        workspace = await self._client.get(key.cluster, WORKSPACES, key.name)
        if workspace is None or meta.is_deleting(workspace):
            return None
        reference = ((workspace.get("spec") or {}).get("mount") or {}).get("ref")
        if reference is None:
            return None
        target = await self._target(key.cluster, reference)
        now = self._now()

        def follow(live: Object) -> None:
            settle(live, reference, target, now)

        write = self._client.to_update(key.cluster, WORKSPACES, key.name, follow)
        try:
            await self._client.transaction([write])
        except NotFound:
            return None  # it went meanwhile
        return None

    async def _target(self, cluster: str, reference: Object) -> Object | None:
        """What is mounted; None if it, or its kind, is not there."""
        api_version, kind = reference.get("apiVersion") or "", reference.get("kind") or ""
        found = self._kinds.by_kind(cluster, api_version, kind)
        if found is None:
            return None
        namespace = (reference.get("namespace") or "") if found.namespaced else ""
        return await self._client.get(
            cluster, found.resource, reference.get("name") or "", namespace
        )


def settle(workspace: Object, reference: Object, target: Object | None, now: str) -> None:
    """A mounted workspace as what it stands for says."""
    kind = reference.get("kind") or ""
    status = (target or {}).get("status") or {}
    if target is None:
        place = go_quote(f"{reference.get('namespace') or ''}/{reference.get('name') or ''}")
        why = f"{kind} {place} not found"
        mark_false(workspace, MOUNT_READY, "MountObjectNotFound", why, now)
    elif status.get("phase") == READY:
        mark_true(workspace, MOUNT_READY, now)
    else:
        name = go_quote(meta.name(target))
        why = f"Mount is not reporting ready. See {kind} {name} status for more details"
        mark_false(workspace, MOUNT_READY, "MountObjectNotReady", why, now)
    is_ready = status.get("phase") == READY
    workspace["status"]["phase"] = READY if is_ready else UNAVAILABLE
    url = status.get("URL")
    if isinstance(url, str) and url:
        workspace["spec"]["URL"] = url
