"""Filters of the API server that are made from settings: the audit log and API fairness."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykcp.observe.metrics import Registry
from pykcp.programs.shard.settings import ShardSettings
from pykcp.server.filters.flow_control import FlowControl
from pykcp.storage.interface import Store

if TYPE_CHECKING:
    from pykcp.server.filters.audit import AuditFilter


def make_audit(settings: ShardSettings, store: Store, metrics: Registry) -> AuditFilter | None:
    trail = settings.audit.make_trail()
    if trail is None:
        return None
    from pykcp.server.filters.audit import AuditFilter
    from pykcp.server.filters.workspace_paths import WorkspacePaths

    metrics.add(*trail.metrics)
    return AuditFilter(trail, WorkspacePaths(store).of)


def make_flow_control(settings: ShardSettings, metrics: Registry) -> FlowControl | None:
    limits = settings.fairness.flow_settings()
    return None if limits is None else FlowControl(limits, metrics)
