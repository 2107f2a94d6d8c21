"""`/services/terminatingworkspaces/<terminator>/…`: workspaces that are being deleted."""

from __future__ import annotations

from pykcp.auth.user import TERMINATOR_PREFIX
from pykcp.machinery.kcp.hashes import terminator_label
from pykcp.machinery.terms import Condition, field_key_term, label_term
from pykcp.registry.resource import TERMINATING_FIELD
from pykcp.registry.watch.selection import Selection
from pykcp.types import Object
from pykcp.virtual.framework import Parts
from pykcp.virtual.lifecycle import Lifecycle, LifecycleWorkspace


def _scope(terminator: str) -> Selection:
    conditions = (
        Condition((field_key_term(TERMINATING_FIELD),)),
        Condition((label_term(*terminator_label(terminator)),)),
    )
    return Selection(f"terminating {terminator}", conditions)


def _is_terminating(cluster: Object) -> bool:
    return bool(cluster["metadata"].get("deletionTimestamp"))


def terminating_workspaces(parts: Parts) -> LifecycleWorkspace:
    lifecycle = Lifecycle(
        role="terminator",
        verb="terminate",
        group=TERMINATOR_PREFIX,
        error_group="core.kcp.io",
        scope=_scope,
        is_open=_is_terminating,
        discovers_itself=True,
    )
    return LifecycleWorkspace("terminatingworkspaces", lifecycle, parts)
