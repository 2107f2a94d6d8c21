"""The aggregator: reports of leaves become the status of the Binding and of the workload."""

from __future__ import annotations

from collections.abc import Callable

from pykcp.controllers.runtime.controller import Controller
from pykcp.machinery import conditions, meta
from pykcp.machinery.resources import GroupVersionResource
from pykcp.machinery.status import NotFound
from pykcp.multicluster.interpreter.aggregation import aggregate
from pykcp.multicluster.interpreter.reports import LeafReport, report_of
from pykcp.multicluster.names import WORKLOAD_BINDINGS, leaf_name
from pykcp.multicluster.splitting.keys import RootKey
from pykcp.multicluster.splitting.parts import SplitterParts
from pykcp.types import Object

NAME = "workload-aggregator"
_WITH_PROGRESS = ("deployments.apps",)
"""Kinds whose condition Progressing says why nothing happens."""


class WorkloadAggregator:
    def __init__(self, parts: SplitterParts, on_progress: Callable[[RootKey], None]) -> None:
        """`on_progress`: called when reports changed of a workload that is being moved."""
        self._parts, self._on_progress = parts, on_progress
        self.controller: Controller[RootKey] = Controller(
            NAME, self.reconcile, workers=16, metrics=parts.metrics
        )

    def add(self, key: RootKey) -> None:
        """Soon; what arrives meanwhile is handled with it."""
        self.controller.add_after(key, self._parts.settings.status_delay)

    async def reconcile(self, key: RootKey) -> None:
        parts = self._parts
        kind = parts.territory.listed_kind(key.cluster, key.type)
        if parts.is_too_large(key):
            return
        root, binding = parts.root(key), parts.binding(key)
        if kind is None or root is None or binding is None or meta.is_deleting(root):
            return
        reports = self._reports(key, kind, root, binding)
        await self._write_binding(key, root, binding, reports)
        await self._write_root(key, kind, root, binding, reports)

    def _reports(
        self, key: RootKey, kind: GroupVersionResource, root: Object, binding: Object
    ) -> list[LeafReport]:
        parts, spec = self._parts, binding.get("spec") or {}
        rules, views = parts.rules(key, root), parts.territory.clusters(key.cluster)
        chosen = {one["name"] for one in spec.get("clusters") or ()}
        found = []
        for cluster in sorted(parts.inventory.leaves(key)):
            name = leaf_name(key.name, cluster)
            leaf = parts.get(key.cluster, kind, name, key.namespace)
            if leaf is None or meta.is_deleting(leaf):
                continue
            view = views.get(cluster)
            is_stale = view is None or not view.is_ready
            found.append(
                report_of(leaf, rules, cluster, is_stale=is_stale, is_leaving=cluster not in chosen)
            )
        return found

    async def _write_binding(
        self, key: RootKey, root: Object, binding: Object, reports: list[LeafReport]
    ) -> None:
        status = binding.get("status") or {}
        before = {one["name"]: one for one in status.get("clusters") or ()}
        moment = meta.now_rfc3339(self._parts.clock())
        clusters = [_row(report, before.get(report.cluster), moment) for report in reports]
        generation = meta.generation(root)
        observed = status.get("observedGeneration") or 0
        if reports and all(report.generation >= generation for report in reports):
            observed = generation
        is_same = clusters == (status.get("clusters") or [])
        if is_same and observed == (status.get("observedGeneration") or 0):
            return

        def set_reports(live: Object) -> None:
            state = live.setdefault("status", {})
            state["clusters"] = clusters
            if observed:
                state["observedGeneration"] = observed

        await self._parts.client.change(
            key.cluster,
            WORKLOAD_BINDINGS,
            meta.name(binding),
            set_reports,
            key.namespace,
            "status",
        )
        if (binding.get("spec") or {}).get("evicting"):
            self._on_progress(key)

    async def _write_root(
        self,
        key: RootKey,
        kind: GroupVersionResource,
        root: Object,
        binding: Object,
        reports: list[LeafReport],
    ) -> None:
        wanted = aggregate(root, reports)
        if not wanted:
            wanted = self._refusal(key, binding, root)
        if not wanted or wanted == (root.get("status") or {}):
            return

        def set_status(live: Object) -> None:
            if meta.uid(live) == meta.uid(root):
                live["status"] = wanted

        try:
            await self._parts.client.change(
                key.cluster, kind, key.name, set_status, key.namespace, "status"
            )
        except NotFound:
            return  # it is gone, or its kind has no status

    def _refusal(self, key: RootKey, binding: Object, root: Object) -> Object:
        """Why a workload runs nowhere, where users look for it."""
        scheduled = conditions.find(conditions.conditions_of(binding), "Scheduled")
        if key.type not in _WITH_PROGRESS or scheduled is None:
            return {}
        if scheduled.get("status") != conditions.FALSE:
            return {}
        return {
            "conditions": conditions.with_condition(
                conditions.conditions_of(root),
                "Progressing",
                conditions.FALSE,
                reason=str(scheduled.get("reason") or ""),
                message=str(scheduled.get("message") or ""),
                now=self._parts.clock(),
            )
        }


def _row(report: LeafReport, before: Object | None, moment: str) -> Object:
    """A report as it is listed; its time is that of the last difference."""
    made: Object = {"name": report.cluster, "health": report.health}
    if report.generation:
        made["observedGeneration"] = report.generation
    if report.message:
        made["message"] = report.message
    if report.is_stale:
        made["stale"] = True
    if report.status:
        made["status"] = report.status
    known = {k: v for k, v in (before or {}).items() if k != "lastReport"}
    same = before is not None and known == made and before.get("lastReport")
    made["lastReport"] = before["lastReport"] if before and same else moment
    return made
