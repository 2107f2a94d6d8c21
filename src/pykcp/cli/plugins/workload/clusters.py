"""`kubectl kcp workload cordon|uncordon|drain`: whether workloads run on a cluster."""

from __future__ import annotations

import time
from typing import Any

from pykcp.cli.plugins.access.rest import RestClient
from pykcp.cli.plugins.session import Session
from pykcp.cli.plugins.shell.command import CommandInvocation, WantsHelp
from pykcp.cli.plugins.workspace.resources import Collection
from pykcp.machinery.meta import now_rfc3339

Object = dict[str, Any]
GROUP, VERSION = "workload.kcp.dev", "v1alpha1"


def clusters(client: RestClient, workspace: str) -> Collection:
    return Collection(client, workspace, GROUP, VERSION, "clusters")


def argument(invocation: CommandInvocation) -> str:
    if len(invocation.arguments) != 1:
        raise WantsHelp
    return invocation.arguments[0]


def cordon(invocation: CommandInvocation) -> None:
    """No new workloads; those that run there stay."""
    _change(invocation, "cordoned", {"unschedulable": True})


def uncordon(invocation: CommandInvocation) -> None:
    """New workloads again; also after a drain."""
    _change(invocation, "uncordoned", {"unschedulable": False}, frozenset(("evictAfter",)))


def drain(invocation: CommandInvocation) -> None:
    """All workloads move to other clusters."""
    now = now_rfc3339(time.time())
    _change(invocation, "drained", {"unschedulable": True, "evictAfter": now})


def _change(
    invocation: CommandInvocation, word: str, fields: Object, removed: frozenset[str] = frozenset()
) -> None:
    name = argument(invocation)
    session = Session(invocation)
    objects = clusters(session.client, session.current())
    found = objects.get(name)
    before = found.get("spec") or {}
    spec = {key: value for key, value in before.items() if key not in removed}
    is_drained = "evictAfter" in fields and before.get("evictAfter")
    if is_drained or {**spec, **fields} == {"unschedulable": False, **before}:
        print(f"cluster {name} is {word} already")
        return
    objects.replace({**found, "spec": {**spec, **fields}})
    print(f"cluster {name} {word}")
