"""`/services/initializingworkspaces/<initializer>/…`: workspaces on their way to Ready."""

from __future__ import annotations

from pykcp.apis.kcp.logical_clusters import INITIALIZING, PHASE_LABEL, phase_of
from pykcp.auth.user import INITIALIZER_PREFIX
from pykcp.machinery.kcp.hashes import initializer_label
from pykcp.machinery.terms import Condition, label_term
from pykcp.registry.watch.selection import Selection
from pykcp.types import Object
from pykcp.virtual.framework import Parts
from pykcp.virtual.lifecycle import Lifecycle, LifecycleWorkspace


def _scope(initializer: str) -> Selection:
    key, value = initializer_label(initializer)
    conditions = (
        Condition((label_term(PHASE_LABEL, INITIALIZING),)),
        Condition((label_term(key, value),)),
    )
    return Selection(f"initializing {initializer}", conditions)


def _is_initializing(cluster: Object) -> bool:
    return phase_of(cluster) == INITIALIZING


def initializing_workspaces(parts: Parts) -> LifecycleWorkspace:
    lifecycle = Lifecycle(
        role="initializer",
        verb="initialize",
        group=INITIALIZER_PREFIX,
        error_group="tenancy.kcp.io",
        scope=_scope,
        is_open=_is_initializing,
        discovers_itself=False,
    )
    return LifecycleWorkspace("initializingworkspaces", lifecycle, parts)
