"""The lifecycle of a Workspace: scheduling, provisioning, phase, deletion.

A workspace on this shard is made with everything in one write (`provisioning`); one on another
shard is provisioned by that shard (`remote_clusters`). Its LogicalCluster is what counts from then
on; the Workspace mirrors it.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from functools import partial
from random import Random

from pykcp.apis.kcp import logical_clusters as lifecycle
from pykcp.apis.kcp.workspace_types import BadType
from pykcp.clients.interface import Change, Feed, Lister
from pykcp.controllers.runtime.controller import Controller, Requeue
from pykcp.controllers.runtime.metrics import ControllerMetrics
from pykcp.controllers.runtime.shard_changes import ShardWaiters, follow_shards
from pykcp.controllers.runtime.shard_client import ShardClient
from pykcp.controllers.tenancy.placement import (
    NO_SHARDS,
    RecentPlacements,
    ReportArrivals,
    ShardState,
    choose,
    state_of,
)
from pykcp.controllers.tenancy.provisioning import WorkspaceProvisioning
from pykcp.controllers.tenancy.remote_clusters import RemoteClusters, ShardUnreachable, is_owned
from pykcp.controllers.tenancy.settling import external_url, let_go, reserve, unreserve
from pykcp.machinery import labels, meta
from pykcp.machinery.kcp import clusters, hashes
from pykcp.machinery.kcp.condition_marks import mark_false, mark_true
from pykcp.machinery.object_keys import ObjectKey
from pykcp.machinery.resources import LOGICAL_CLUSTERS, SHARDS, WORKSPACES
from pykcp.machinery.status import AlreadyExists, NotFound, StatusError, TooManyRequests
from pykcp.machinery.terms import label_term
from pykcp.registry.codec import decode
from pykcp.registry.indexes.entries import DELETING, UNSETTLED_WORKSPACES
from pykcp.registry.lookup import ObjectLookup
from pykcp.registry.shards import KnownShards
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
_REPORTED_AFTER = 30.0
"""Seconds after which another shard is asked, if it has not reported the end of a deletion."""

_log = logging.getLogger(__name__)


class Workspaces:
    def __init__(
        self,
        lister: Lister,
        client: ShardClient,
        lookup: ObjectLookup,
        provisioning: WorkspaceProvisioning,
        remote: RemoteClusters,
        shard_name: str,
        now: Callable[[], str],
        metrics: ControllerMetrics | None = None,
        *,
        clock: Callable[[], float] = time.time,
        random: Random | None = None,
    ) -> None:
        self._lister, self._client, self._lookup = lister, client, lookup
        self._provisioning, self._remote = provisioning, remote
        self._shards = KnownShards(lookup)
        self._shard = shard_name
        self._now, self._clock = now, clock
        self._recent, self._arrivals = RecentPlacements(), ReportArrivals()
        self._random = random or Random()  # noqa: S311  # no secret
        self._external_urls: dict[str, str] = {}
        """Of other shards, as they were last seen."""
        self._unschedulable_keys: set[ObjectKey] = set()
        """Workspaces that wait for a shard; few, and looked at again when a shard changes."""
        self.controller: Controller[ObjectKey] = Controller(
            NAME, self.reconcile, workers=32, metrics=metrics
        )
        self._waiters = ShardWaiters(self.controller, lookup.replica)
        remote.on_return = self._waiters.wake

    def follow(self, feed: Feed) -> None:
        feed.on(WORKSPACES, self._on_workspace)
        feed.on(LOGICAL_CLUSTERS, self._on_cluster)
        follow_shards(feed, self._on_shard)
        feed.at_start(self._resume)
        if self._lookup.replica is not None:
            self._lookup.replica.follow(SHARDS, self._on_published_shard)

    def _on_published_shard(self, _cluster: str, name: str) -> None:
        self._retry_unschedulable()
        self._arrivals.note(name, self._shards.load(name), self._clock())
        shard = self._shards.get(name)
        url = external_url(shard) if shard is not None else ""
        if url and self._external_urls.setdefault(name, url) != url:
            self._external_urls[name] = url
            self.controller.add(_ALL)

    def _retry_unschedulable(self) -> None:
        for key in self._unschedulable_keys:
            self.controller.add(key)

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
        self._retry_unschedulable()
        if not change.created and not change.deleted and self._has_moved(change):
            self.controller.add(_ALL)

    def _has_moved(self, change: Change) -> bool:
        """Whether a shard has another address than before: only then is every workspace read."""
        before = change.previous()
        return before is None or external_url(decode(before)) != external_url(decode(change.value))

    async def _resume(self) -> None:
        for index in (UNSETTLED_WORKSPACES, DELETING):
            for ref in self._lister.find(index, WORKSPACES):
                self.controller.add(ref.key)

    async def reconcile(self, key: ObjectKey) -> float | None:
        try:
            return await self._reconcile(key)
        except ShardUnreachable as error:
            self._waiters.wait(error.shard, key)
            raise

    async def _reconcile(self, key: ObjectKey) -> float | None:
        if key == _ALL:
            await self._mend_addresses()
            return None
        self._unschedulable_keys.discard(key)
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
        refused: set[str] = set()
        shard = self._chosen(workspace)
        while True:
            try:
                shard = shard or self._choose(workspace, refused)
            except labels.SelectorError as error:
                await self._unschedulable(workspace, f"spec.location.selector is invalid: {error}")
                return None  # it cannot be scheduled until it is changed
            if shard is None:
                await self._unschedulable(workspace, NO_SHARDS)
                if refused:
                    raise Requeue(NO_SHARDS)  # no event says that there is room again
                return None
            try:
                return await self._provision_on(shard, workspace)
            except TooManyRequests:
                refused.add(meta.name(shard))
                shard = None
            except ShardUnreachable as error:
                refused.add(meta.name(shard))
                shard = self._choose(workspace, refused)
                if shard is None:  # no other shard will do: it waits for this one
                    await self._change(workspace, partial(_mark_unreachable, error, self._now()))
                    raise
            # What the shard may have made nevertheless is deleted there: see workspace_reports.
            await self._change(workspace, unreserve)
            unreserve(workspace)

    async def _provision_on(self, shard: Object, workspace: Object) -> None:
        """Raises TooManyRequests if the shard has no room."""
        if meta.name(shard) == self._shard:
            await self._provision(workspace, shard)
        else:
            await self._provision_remote(workspace, shard)

    def _chosen(self, workspace: Object) -> Object | None:
        """The shard that was chosen before, if it is still there."""
        name = meta.annotation(workspace, lifecycle.SHARD_ANNOTATION)
        return self._shards.get(name) if name else None

    def _choose(self, workspace: Object, refused: set[str]) -> Object | None:
        location = workspace["spec"].get("location") or {}
        selector = labels.from_label_selector(location.get("selector") or {})
        shards = {meta.name(shard): shard for shard in self._shards.present()}
        excluded = {name for name in shards if not self._remote.can_ask(name)} | refused
        states = [self._state(name, shard) for name, shard in shards.items()]
        name = choose(states, selector, self._clock(), self._random, excluded=excluded)
        if name is None:
            return None
        self._recent.add(name, self._shards.load(name))
        return shards[name]

    def _state(self, name: str, shard: Object) -> ShardState:
        report = self._shards.load(name)
        recent = self._recent.since(name, report)
        return state_of(shard, self._arrivals.by_own_clock(name, report), recent)

    async def _unschedulable(self, workspace: Object, why: str) -> None:
        now = self._now()
        self._unschedulable_keys.add(ObjectKey(meta.cluster(workspace), "", meta.name(workspace)))

        def mark(live: Object) -> None:
            mark_false(live, lifecycle.SCHEDULED, "Unschedulable", why, now)
            live["status"]["phase"] = lifecycle.UNAVAILABLE
            live["metadata"].setdefault("labels", {})[lifecycle.PHASE_LABEL] = lifecycle.UNAVAILABLE

        await self._change(workspace, mark)

    def _path(self, workspace: Object) -> str:
        parent = self._lookup.canonical_path(meta.cluster(workspace))
        return clusters.join(parent, meta.name(workspace))

    async def _provision(self, workspace: Object, shard: Object) -> None:
        path = self._path(workspace)
        existing = await self._existing_cluster(workspace)
        # Never a name that the workspace asks for: names of clusters are what keeps tenants apart.
        name = meta.cluster(existing) if existing else hashes.cluster_name(os.urandom(32))
        own_url = f"{external_url(shard)}{clusters.request_path(name)}"
        if existing is not None:
            await self._change(workspace, self._placed(name, path, shard, existing))
            return
        try:
            plan = self._provisioning.of_workspace(workspace, name, path, own_url)
        except BadType as error:
            await self._unschedulable(workspace, str(error))
            raise Requeue(str(error)) from error
        settled = self._placed(name, path, shard, plan.cluster)
        client, parent = self._client, meta.cluster(workspace)
        writes: list[Write] = [client.to_create(name, LOGICAL_CLUSTERS, plan.cluster)]
        writes += (client.from_template(name, kind, copy) for kind, copy in plan.parts)
        try:
            await client.transaction(
                [*writes, client.to_update(parent, WORKSPACES, meta.name(workspace), settled)]
            )
        except AlreadyExists as error:
            raise Requeue("its logical cluster's name is taken") from error

    async def _provision_remote(self, workspace: Object, shard: Object) -> None:
        """In two phases: what is going to be made, and where, is recorded before it is made."""
        target, path = meta.name(shard), self._path(workspace)
        name = meta.annotation(workspace, lifecycle.CLUSTER_ANNOTATION)
        is_reserved = meta.annotation(
            workspace, lifecycle.SHARD_ANNOTATION
        ) == target and lifecycle.WORKSPACE_FINALIZER in meta.finalizers(workspace)
        if not name or not is_reserved:
            name = hashes.cluster_name(os.urandom(32))
            await self._change(workspace, partial(reserve, shard=shard, cluster=name))
        try:
            made = await self._remote.provision(target, workspace, name, path)
        except AlreadyExists as error:
            await self._change(workspace, unreserve)
            raise Requeue("its logical cluster's name is taken") from error
        await self._change(workspace, self._placed(name, path, shard, made))

    async def _existing_cluster(self, workspace: Object) -> Object | None:
        """The logical cluster on this shard that was made for the workspace already."""
        name = meta.annotation(workspace, lifecycle.CLUSTER_ANNOTATION)
        found = await self._client.get(name, LOGICAL_CLUSTERS, "cluster") if name else None
        return found if found is not None and is_owned(found, workspace) else None

    def _placed(
        self, cluster: str, path: str, shard: Object, logical_cluster: Object
    ) -> Callable[[Object], None]:
        now, url = self._now(), f"{external_url(shard)}{clusters.request_path(path)}"

        def place(live: Object) -> None:
            if meta.is_deleting(live):
                raise Requeue("it is being deleted")
            reserve(live, shard, cluster)
            live["spec"] |= {"cluster": cluster, "URL": url}
            mark_true(live, lifecycle.SCHEDULED, now)
            lifecycle.mirror(live, logical_cluster, now)

        return place

    # -- following

    async def _mirror(self, workspace: Object) -> float | None:
        name = workspace["spec"]["cluster"]
        cluster = await self._client.get(name, LOGICAL_CLUSTERS, "cluster")
        shard = self._remote.shard_of(workspace)
        if cluster is None and shard:
            if lifecycle.phase_of(workspace) == lifecycle.READY:
                return None  # its shard reports changes
            cluster = await self._remote.get(shard, name)
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
        url = f"{external_url(shard)}{clusters.request_path(self._path(workspace))}"
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
        shard, cluster = await self._cluster_of(workspace)
        now = self._now()
        if cluster is None:
            await self._let_go(workspace)
            return None
        if len(finalizers) > 1:
            return None  # the controller's own finalizer is removed last
        if not meta.is_deleting(cluster):
            if shard:
                await self._remote.delete(shard, cluster)
                return _REPORTED_AFTER  # its shard reports the end of it
            await self._client.delete(meta.cluster(cluster), LOGICAL_CLUSTERS, "cluster")
            return _SOON
        try:
            await self._change(workspace, lambda live: lifecycle.mirror(live, cluster, now))
        except NotFound:
            return None  # it went with its logical cluster
        return _REPORTED_AFTER if shard else None

    async def _cluster_of(self, workspace: Object) -> tuple[str, Object | None]:
        """The logical cluster of a workspace, and the other shard that it is on, if it is on one."""
        name = (workspace.get("spec") or {}).get("cluster")
        name = name or meta.annotation(workspace, lifecycle.CLUSTER_ANNOTATION)
        if not name:
            return "", None
        cluster = await self._client.get(name, LOGICAL_CLUSTERS, "cluster")
        if cluster is not None and is_owned(cluster, workspace):
            return "", cluster
        shard = self._remote.shard_of(workspace)
        if not shard:
            return "", await self._existing_cluster(workspace)
        cluster = await self._remote.get(shard, name)
        if cluster is not None and is_owned(cluster, workspace):
            return shard, cluster
        # It may have been moved meanwhile: the record of it is given up only if no shard has it.
        return await self._remote.find_anywhere(workspace, name) or ("", None)

    async def _let_go(self, workspace: Object) -> None:
        try:
            await self._change(workspace, let_go)
        except NotFound:
            return
        except StatusError as error:
            raise Requeue(str(error)) from error


def _mark_unreachable(error: ShardUnreachable, now: str, live: Object) -> None:
    why = f'shard "{error.shard}" does not answer'
    mark_false(live, lifecycle.SCHEDULED, "ShardUnreachable", why, now)
