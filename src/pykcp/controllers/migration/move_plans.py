"""pykcp-move-plans: carries out MovePlans, on the shard that has them.

Each move is a LogicalClusterMigration that the plan owns. To delete a plan is to cancel it: its
migrations are deleted with it, which cancels those whose logical clusters were not taken over.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from pykcp.apis.kcp.logical_clusters import UNSCHEDULABLE_ANNOTATION
from pykcp.clients.interface import Change, Client, Feed, Lister
from pykcp.clients.peers import Peers
from pykcp.controllers.migration.plan_progress import PlanStep, migration_name, next_step
from pykcp.controllers.runtime.controller import Controller, Requeue
from pykcp.controllers.runtime.metrics import ControllerMetrics
from pykcp.machinery import meta
from pykcp.machinery.kcp.clusters import ROOT
from pykcp.machinery.kcp.condition_marks import mark_false, mark_true
from pykcp.machinery.metadata import metadata_of
from pykcp.machinery.object_keys import ObjectKey
from pykcp.machinery.resources import (
    LOGICAL_CLUSTER_MIGRATIONS,
    LOGICAL_CLUSTERS,
    MOVE_PLANS,
    SHARDS,
)
from pykcp.machinery.status import AlreadyExists, NotFound, ServiceUnavailable, StatusError
from pykcp.registry.clock import Timestamps
from pykcp.types import Object

NAME = "pykcp-move-plans"
BEGUN = "MigrationsCreated"
_KIND = "MovePlan"
_UNBOUND = "LogicalClusterMigrations are not served here: bind the export migration.kcp.io of root"


class MovePlans:
    def __init__(
        self,
        lister: Lister,
        client: Client,
        peers: Peers | None,
        now: Timestamps,
        clock: Callable[[], float] = time.time,
        metrics: ControllerMetrics | None = None,
    ) -> None:
        self._lister, self._client, self._peers = lister, client, peers
        self._now, self._clock = now, clock
        self.controller: Controller[ObjectKey] = Controller(NAME, self.reconcile, metrics=metrics)

    def follow(self, feed: Feed) -> None:
        feed.on(MOVE_PLANS, self._on_plan)
        feed.on(LOGICAL_CLUSTER_MIGRATIONS, self._on_migration)
        feed.at_start(self._resume)

    def _on_plan(self, change: Change) -> None:
        if not change.deleted:
            self.controller.add(change.key)

    def _on_migration(self, change: Change) -> None:
        for owner in metadata_of(change.value).owner_references or ():
            if owner.kind == _KIND:
                self.controller.add(ObjectKey(change.cluster, "", owner.name))

    async def _resume(self) -> None:
        for key in self._lister.keys(MOVE_PLANS):
            self.controller.add(key)

    async def reconcile(self, key: ObjectKey) -> float | None:
        plan = await self._client.get(key.cluster, MOVE_PLANS, key.name)
        if plan is None or meta.is_deleting(plan):
            return None
        try:
            step = next_step(plan, await self._migrations(plan), self._clock())
            if step.begin:
                await self._cordon(plan)
            await self._write(key, step, "")
            for name in step.remove:
                await self._client.delete(key.cluster, LOGICAL_CLUSTER_MIGRATIONS, name)
            for move in step.begin:
                await self._begin(plan, move)
        except NotFound as error:
            await self._write(key, None, _UNBOUND)
            raise Requeue(_UNBOUND) from error
        return step.look_after

    async def _migrations(self, plan: Object) -> list[Object]:
        found = await self._client.list(meta.cluster(plan), LOGICAL_CLUSTER_MIGRATIONS)
        return [one for one in found if _is_owned(one, plan)]

    async def _begin(self, plan: Object, move: Object) -> None:
        cluster = meta.cluster(plan)
        body: Object = {
            "apiVersion": "migration.kcp.io/v1alpha1",
            "kind": "LogicalClusterMigration",
            "metadata": {
                "name": migration_name(meta.name(plan), move["logicalCluster"]),
                "ownerReferences": [
                    {
                        "apiVersion": "moving.pykcp.io/v1alpha1",
                        "kind": _KIND,
                        "name": meta.name(plan),
                        "uid": meta.uid(plan),
                        "controller": True,
                    }
                ],
            },
            "spec": {
                "logicalCluster": move["logicalCluster"],
                "destinationShard": move["destination"],
            },
        }
        try:
            await self._client.create(cluster, LOGICAL_CLUSTER_MIGRATIONS, body)
        except AlreadyExists as error:
            raise Requeue(f"{meta.name(body)} exists") from error

    async def _cordon(self, plan: Object) -> None:
        """From the beginning on, the shard that is emptied gets no new workspaces."""
        shard = plan["spec"].get("cordon") or ""
        if not shard:
            return

        def change(live: Object) -> None:
            annotations = {UNSCHEDULABLE_ANNOTATION: "true", **meta.annotations(live)}
            live["metadata"]["annotations"] = annotations

        client: Client | None = self._client
        if not self._lister.has(ROOT, LOGICAL_CLUSTERS, "cluster"):
            client = self._peers.root() if self._peers is not None else None
        if client is None:
            return
        try:
            await client.change(ROOT, SHARDS, shard, change)
        except NotFound:
            return  # the moves say what there is to say about it
        except ServiceUnavailable as error:
            raise Requeue(str(error)) from error

    async def _write(self, key: ObjectKey, step: PlanStep | None, problem: str) -> None:
        """`step`: None if the status is that of before."""

        def change(live: Object) -> None:
            status = live.setdefault("status", {})
            if step is not None:
                status.update(step.status)
            if problem:
                mark_false(live, BEGUN, "NotBound", problem, self._now())
            elif step is not None and step.begin:
                mark_true(live, BEGUN, self._now())

        try:
            await self._client.change(
                key.cluster, MOVE_PLANS, key.name, change, subresource="status"
            )
        except StatusError as error:
            if not isinstance(error, NotFound):
                raise


def _is_owned(migration: Object, plan: Object) -> bool:
    owner = meta.controller_of(migration) or {}
    return bool(owner.get("uid") == meta.uid(plan))
