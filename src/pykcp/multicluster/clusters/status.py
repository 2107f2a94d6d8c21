"""Writes the status of Clusters."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from pykcp.clients.interface import Client
from pykcp.machinery import meta
from pykcp.machinery.conditions import conditions_of
from pykcp.machinery.object_keys import ObjectKey
from pykcp.machinery.status import NotFound
from pykcp.multicluster.clusters import report
from pykcp.multicluster.clusters.health import Readiness
from pykcp.multicluster.clusters.report import Mark
from pykcp.multicluster.names import CLUSTERS
from pykcp.types import Object


class ClusterStatus:
    def __init__(self, client: Client, clock: Callable[[], float] = time.time) -> None:
        self._client, self._clock = client, clock

    async def write(
        self,
        key: ObjectKey,
        cluster: Object,
        verdict: Readiness,
        marks: list[Mark],
        more: Object | None = None,
        imported: Sequence[Object] = (),
        gone: Sequence[Object] = (),
    ) -> None:
        """`imported`: the verdicts on imports, to add to what a syncer elsewhere reports; `gone`:
        what is listed and not true any more.
        """
        now = meta.now_rfc3339(self._clock())
        is_cordoned = bool((cluster.get("spec") or {}).get("unschedulable"))

        def change(live: Object) -> Object:
            status = {**(live.get("status") or {}), **(more or {})}
            if imported or gone:
                reported = report.without(status.get("syncedResources") or (), gone)
                others = report.without(reported, imported)
                status["syncedResources"] = report.in_order([*others, *imported])
            all_marks = [report.ready_mark(verdict), *marks]
            status["conditions"] = report.with_marks(conditions_of(live), all_marks, now)
            before = status.pop("taints", None) or []
            taints = report.health_taints(verdict, is_cordoned=is_cordoned, before=before, now=now)
            if taints:
                status["taints"] = taints
            return {**live, "status": status}

        if change(cluster).get("status") == cluster.get("status"):
            return
        try:
            await self._client.change(key.cluster, CLUSTERS, key.name, change, subresource="status")
        except NotFound:
            return
