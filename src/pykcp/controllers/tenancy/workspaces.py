"""The lifecycle of a Workspace: scheduling, provisioning, phase, deletion.

A workspace on this shard is made with everything in one write (`provisioning`). Its LogicalCluster
is what counts from then on; the Workspace mirrors it.
"""

from __future__ import annotations

import logging
import os
import random
from collections.abc import Callable

from pykcp.apis.kcp import logical_clusters as lifecycle
from pykcp.apis.kcp.workspace_types import BadType
from pykcp.clients.interface import Change, Feed, Lister
from pykcp.controllers.runtime.controller import Controller, Requeue
from pykcp.controllers.runtime.metrics import ControllerMetrics
from pykcp.controllers.runtime.shard_client import ShardClient
from pykcp.controllers.tenancy.provisioning import WorkspaceProvisioning
from pykcp.machinery import labels, meta
from pykcp.machinery.kcp import clusters, hashes
from pykcp.machinery.kcp.condition_marks import mark_false, mark_true
from pykcp.machinery.object_keys import ObjectKey
from pykcp.machinery.resources import LOGICAL_CLUSTERS, SHARDS, WORKSPACES
from pykcp.machinery.status import AlreadyExists, NotFound, StatusError
from pykcp.machinery.terms import label_term
from pykcp.registry.codec import decode
from pykcp.registry.indexes.entries import DELETING, UNSETTLED_WORKSPACES
from pykcp.registry.lookup import ObjectLookup
from pykcp.registry.verbs.transaction import Write
from pykcp.types import Object

NAME = "kcp-workspace"
_IS_READY = label_term(lifecycle.PHASE_LABEL, lifecycle.READY)
_DELETING = b'"deletionTimestamp":"'
_ALL = ObjectKey(clusters.WILDCARD, "", "")
"""Stands for every workspace: addresses have changed."""
_PAGE = 200
_DISAPPEARED_AFTER = 60.0
_SOON = 0.5
"""Seconds after which an unfinished deletion is reported."""

_log = logging.getLogger(__name__)


class Workspaces:
    def __init__(
        self,
        lister: Lister,
        client: ShardClient,
        lookup: ObjectLookup,
        provisioning: WorkspaceProvisioning,
        shard_name: str,
        now: Callable[[], str],
        metrics: ControllerMetrics | None = None,
    ) -> None:
        self._lister, self._client, self._lookup = lister, client, lookup
        self._provisioning = provisioning
        self._shard = shard_name
        self._now = now
        self.controller: Controller[ObjectKey] = Controller(
            NAME, self.reconcile, workers=32, metrics=metrics
        )

    def follow(self, feed: Feed) -> None:
        feed.on(WORKSPACES, self._on_workspace)
        feed.on(LOGICAL_CLUSTERS, self._on_cluster)
        feed.on(SHARDS, self._on_shard)
        feed.at_start(self._resume)

    def _on_workspace(self, change: Change) -> None:
        if change.deleted:
            return
        if _IS_READY in change.terms and _DELETING not in change.value:
            return  # what is ready follows its logical cluster, of which we hear
        self.controller.add(change.key)

    def _on_cluster(self, change: Change) -> None:
        if _IS_READY in change.terms and _DELETING not in change.value and change.created:
            return  # it was provisioned together with its workspace
        owner = (decode(change.value).get("spec") or {}).get("owner") or {}
        if owner.get("resource") != WORKSPACES.resource or not owner.get("cluster"):
            return
        key = ObjectKey(owner["cluster"], "", owner["name"])
        if _DELETING in change.value and not change.deleted:
            self.controller.add_after(key, _SOON)  # most are gone by then, with their workspace
        else:
            self.controller.add(key)

    def _on_shard(self, change: Change) -> None:
        for ref in self._lister.find(UNSETTLED_WORKSPACES, WORKSPACES):
            self.controller.add(ref.key)
        if not change.created and not change.deleted and self._has_moved(change):
            self.controller.add(_ALL)

    def _has_moved(self, change: Change) -> bool:
        """Whether a shard has another address than before: only then is every workspace read."""
        before = change.previous()
        return before is None or _external_url(decode(before)) != _external_url(
            decode(change.value)
        )

    async def _resume(self) -> None:
        for index in (UNSETTLED_WORKSPACES, DELETING):
            for ref in self._lister.find(index, WORKSPACES):
                self.controller.add(ref.key)

    async def reconcile(self, key: ObjectKey) -> float | None:
        if key == _ALL:
            await self._mend_addresses()
            return None
        workspace = await self._client.get(key.cluster, WORKSPACES, key.name)
        if workspace is None:
            return None
        if meta.is_deleting(workspace):
            return await self._delete(workspace)
        spec = workspace.get("spec") or {}
        if spec.get("mount"):
            return None
        if not spec.get("cluster") or not spec.get("URL"):
            await self._place(workspace)
            return None
        return await self._mirror(workspace)

    # -- placing

    async def _place(self, workspace: Object) -> None:
        parent = self._lookup.logical_cluster(meta.cluster(workspace))
        if parent is None:
            raise Requeue("its parent has no LogicalCluster")
        try:
            shard = self._chosen(workspace) or self._choose(workspace)
        except labels.SelectorError as error:
            await self._unschedulable(workspace, f"spec.location.selector is invalid: {error}")
            return  # it cannot be scheduled until it is changed
        if shard is None:
            why = "No available shards to schedule the workspace"
            await self._unschedulable(workspace, why)
            return
        if meta.name(shard) != self._shard:
            raise Requeue(f"shard {meta.name(shard)} is not this one")
        await self._provision(workspace, shard)

    def _chosen(self, workspace: Object) -> Object | None:
        """The shard that was chosen before, if it is still there."""
        name = meta.annotation(workspace, lifecycle.SHARD_ANNOTATION)
        return self._lookup.get(SHARDS, clusters.ROOT, name) if name else None

    def _choose(self, workspace: Object) -> Object | None:
        location = workspace["spec"].get("location") or {}
        selector = labels.from_label_selector(location.get("selector") or {})
        fitting = [
            shard
            for shard in self._lookup.all(SHARDS, clusters.ROOT)
            if selector.matches(meta.labels(shard))
            and lifecycle.UNSCHEDULABLE_ANNOTATION not in meta.annotations(shard)
        ]
        return random.choice(fitting) if fitting else None  # noqa: S311  # no secret

    async def _unschedulable(self, workspace: Object, why: str) -> None:
        now = self._now()

        def mark(live: Object) -> None:
            mark_false(live, lifecycle.SCHEDULED, "Unschedulable", why, now)
            live["status"]["phase"] = lifecycle.UNAVAILABLE
            live["metadata"].setdefault("labels", {})[lifecycle.PHASE_LABEL] = lifecycle.UNAVAILABLE

        await self._change(workspace, mark)

    async def _provision(self, workspace: Object, shard: Object) -> None:
        parent = meta.cluster(workspace)
        path = clusters.join(self._lookup.canonical_path(parent), meta.name(workspace))
        existing = await self._existing_cluster(workspace)
        # Never a name that the workspace asks for: names of clusters are what keeps tenants apart.
        name = meta.cluster(existing) if existing else hashes.cluster_name(os.urandom(32))
        external = _external_url(shard)
        own_url = f"{external}{clusters.request_path(name)}"
        url = f"{external}{clusters.request_path(path)}"
        if existing is not None:
            await self._change(workspace, self._placed(name, url, shard, existing))
            return
        try:
            plan = self._provisioning.of_workspace(workspace, name, path, own_url)
        except BadType as error:
            await self._unschedulable(workspace, str(error))
            raise Requeue(str(error)) from error
        settled = self._placed(name, url, shard, plan.cluster)
        client = self._client
        writes: list[Write] = [client.to_create(name, LOGICAL_CLUSTERS, plan.cluster)]
        writes += (client.from_template(name, kind, copy) for kind, copy in plan.parts)
        try:
            await client.transaction(
                [*writes, client.to_update(parent, WORKSPACES, meta.name(workspace), settled)]
            )
        except AlreadyExists as error:
            raise Requeue("its logical cluster's name is taken") from error

    async def _existing_cluster(self, workspace: Object) -> Object | None:
        """The logical cluster that was made for the workspace already."""
        name = meta.annotation(workspace, lifecycle.CLUSTER_ANNOTATION)
        found = await self._client.get(name, LOGICAL_CLUSTERS, "cluster") if name else None
        return found if found is not None and _is_owned(found, workspace) else None

    def _placed(
        self, cluster: str, url: str, shard: Object, logical_cluster: Object
    ) -> Callable[[Object], None]:
        now = self._now()

        def place(live: Object) -> None:
            if meta.is_deleting(live):
                raise Requeue("it is being deleted")
            metadata = live["metadata"]
            annotations = metadata.setdefault("annotations", {})
            annotations[lifecycle.SHARD_ANNOTATION] = meta.name(shard)
            annotations[lifecycle.SHARD_HASH_ANNOTATION] = hashes.shard_hash(meta.name(shard))
            annotations[lifecycle.CLUSTER_ANNOTATION] = cluster
            region = meta.labels(shard).get("region")
            if region:
                metadata.setdefault("labels", {})["region"] = region
            finalizers = metadata.setdefault("finalizers", [])
            if lifecycle.WORKSPACE_FINALIZER not in finalizers:
                finalizers.append(lifecycle.WORKSPACE_FINALIZER)
            live["spec"] |= {"cluster": cluster, "URL": url}
            mark_true(live, lifecycle.SCHEDULED, now)
            lifecycle.mirror(live, logical_cluster, now)

        return place

    # -- following

    async def _mirror(self, workspace: Object) -> float | None:
        cluster = await self._client.get(workspace["spec"]["cluster"], LOGICAL_CLUSTERS, "cluster")
        now = self._now()
        if cluster is None and not lifecycle.is_waiting_for_cluster(workspace):
            _log.warning("%s: its LogicalCluster does not exist", meta.name(workspace))
        await self._change(workspace, lambda live: lifecycle.mirror(live, cluster, now))
        return _DISAPPEARED_AFTER if cluster is None else None

    async def _change(self, workspace: Object, change: Callable[[Object], None]) -> None:
        """Metadata, spec and status in one write."""

        def checked(live: Object) -> None:
            if meta.uid(live) != meta.uid(workspace):
                raise Requeue("it is another one by now")
            change(live)

        client = self._client
        name, cluster = meta.name(workspace), meta.cluster(workspace)
        await client.transaction([client.to_update(cluster, WORKSPACES, name, checked)])

    async def _mend_addresses(self) -> None:
        """A shard has other addresses: those of its workspaces follow."""
        async for page in self._client.pages(clusters.WILDCARD, WORKSPACES, size=_PAGE):
            for workspace in page:
                await self._mend_address(workspace)

    async def _mend_address(self, workspace: Object) -> None:
        shard, spec = self._chosen(workspace), workspace.get("spec") or {}
        if shard is None or not spec.get("cluster") or spec.get("mount"):
            return
        cluster = meta.cluster(workspace)
        path = clusters.join(self._lookup.canonical_path(cluster), meta.name(workspace))
        external = _external_url(shard)
        url = f"{external}{clusters.request_path(path)}"
        if url != spec.get("URL"):
            try:
                await self._change(workspace, lambda live: live["spec"].update(URL=url))
            except NotFound:
                return

    # -- deleting

    async def _delete(self, workspace: Object) -> float | None:
        finalizers = meta.finalizers(workspace)
        if lifecycle.WORKSPACE_FINALIZER not in finalizers:
            return None
        name = (workspace.get("spec") or {}).get("cluster")
        cluster = await self._client.get(name, LOGICAL_CLUSTERS, "cluster") if name else None
        if cluster is not None and not _is_owned(cluster, workspace):
            cluster = None
        cluster = cluster or await self._existing_cluster(workspace)
        now = self._now()
        if cluster is None:
            await self._let_go(workspace)
            return None
        if len(finalizers) > 1:
            return None  # the controller's own finalizer is removed last
        if not meta.is_deleting(cluster):
            await self._client.delete(meta.cluster(cluster), LOGICAL_CLUSTERS, "cluster")
            return _SOON
        try:
            await self._change(workspace, lambda live: lifecycle.mirror(live, cluster, now))
        except NotFound:
            return None  # it went with its logical cluster
        return None

    async def _let_go(self, workspace: Object) -> None:
        def release(live: Object) -> None:
            left = [f for f in meta.finalizers(live) if f != lifecycle.WORKSPACE_FINALIZER]
            live["metadata"]["finalizers"] = left

        try:
            await self._change(workspace, release)
        except NotFound:
            return
        except StatusError as error:
            raise Requeue(str(error)) from error


def _external_url(shard: Object) -> str:
    spec = shard.get("spec") or {}
    url: str = spec.get("externalURL") or spec.get("baseURL") or ""
    return url


def _is_owned(cluster: Object, workspace: Object) -> bool:
    owner = (cluster.get("spec") or {}).get("owner") or {}
    return bool(owner.get("uid") == meta.uid(workspace))
