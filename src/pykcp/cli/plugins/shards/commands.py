"""The commands of `kubectl kcp shard`."""

from __future__ import annotations

import sys
import time
from collections import Counter
from typing import Any

from pykcp.apis.kcp.logical_clusters import UNSCHEDULABLE_ANNOTATION
from pykcp.apis.kcp.shard_load import load_of
from pykcp.cli.plugins.errors import PluginError
from pykcp.cli.plugins.go_text import columns
from pykcp.cli.plugins.session import Session
from pykcp.cli.plugins.shards import plan as plans
from pykcp.cli.plugins.shards.moves import MoveRunner, serve_migrations
from pykcp.cli.plugins.shards.plan import PlannedMove
from pykcp.cli.plugins.shards.survey import (
    is_cordoned,
    list_shards,
    list_workspaces,
    shard_objects,
)
from pykcp.cli.plugins.shell.command import CommandInvocation, WantsHelp
from pykcp.cli.plugins.workspace.paths import resolve

Object = dict[str, Any]


def list_all(invocation: CommandInvocation) -> None:
    if invocation.arguments:
        raise WantsHelp
    client = Session(invocation).client
    counts = Counter(one.shard for one in list_workspaces(client))
    rows = ["NAME\tSTATE\tWORKSPACES\tREGION\tURL"]
    for shard in shard_objects(client).list():
        name, labels = shard["metadata"]["name"], shard["metadata"].get("labels") or {}
        region, url = labels.get("region") or "", shard["spec"].get("baseURL") or ""
        rows.append(f"{name}\t{_state(shard)}\t{counts[name]}\t{region}\t{url}")
    for line in columns(rows, padding=3):
        print(line)


def _state(shard: Object) -> str:
    load = load_of(shard)
    is_silent = load is not None and not load.is_alive(time.time())
    words = [
        word for word, is_so in (("Cordoned", is_cordoned(shard)), ("Silent", is_silent)) if is_so
    ]
    return ",".join(words) or "Ready"


def cordon(invocation: CommandInvocation) -> None:
    _mark(invocation, is_on=True)


def uncordon(invocation: CommandInvocation) -> None:
    _mark(invocation, is_on=False)


def _mark(invocation: CommandInvocation, *, is_on: bool) -> None:
    name = _argument(invocation)
    objects = shard_objects(Session(invocation).client)
    found = objects.get(name)
    word = "cordoned" if is_on else "uncordoned"
    if is_cordoned(found) == is_on:
        print(f"shard {name} is {word} already")
        return
    annotations = dict(found["metadata"].get("annotations") or {})
    if is_on:
        annotations[UNSCHEDULABLE_ANNOTATION] = "true"
    else:
        del annotations[UNSCHEDULABLE_ANNOTATION]
    objects.replace({**found, "metadata": {**found["metadata"], "annotations": annotations}})
    print(f"shard {name} {word}")


def plan_drain(invocation: CommandInvocation) -> None:
    show(_drain_moves(invocation, _argument(invocation)))


def plan_rebalance(invocation: CommandInvocation) -> None:
    show(_rebalance_moves(invocation))


def drain(invocation: CommandInvocation) -> None:
    """Cordon a shard, then move everything that can be moved."""
    name = _argument(invocation)
    moves = _drain_moves(invocation, name)
    if _is_approved(invocation, moves):
        _mark(invocation, is_on=True)
        _run(invocation, moves)


def rebalance(invocation: CommandInvocation) -> None:
    moves = _rebalance_moves(invocation)
    if _is_approved(invocation, moves):
        _run(invocation, moves)


def move(invocation: CommandInvocation) -> None:
    session, path = Session(invocation), _argument(invocation)
    if not invocation["to"]:
        raise PluginError('required flag(s) "to" not set')
    path = resolve(session.current(), path)
    client = session.client
    moves = plans.relocate(
        list_shards(client),
        list_workspaces(client),
        path,
        invocation["to"],
        is_recursive=invocation["recursive"],
    )
    if _is_approved(invocation, moves):
        _run(invocation, moves)


def _argument(invocation: CommandInvocation) -> str:
    if len(invocation.arguments) != 1:
        raise WantsHelp
    return invocation.arguments[0]


def _drain_moves(invocation: CommandInvocation, name: str) -> list[PlannedMove]:
    client = Session(invocation).client
    return plans.drain(list_shards(client), list_workspaces(client), name)


def _rebalance_moves(invocation: CommandInvocation) -> list[PlannedMove]:
    if invocation.arguments:
        raise WantsHelp
    client = Session(invocation).client
    return plans.rebalance(list_shards(client), list_workspaces(client))


def show(moves: list[PlannedMove]) -> None:
    if not moves:
        print("Nothing to move.")
        return
    rows = [f"{one.path}\t{one.cluster}\t{one.origin}\t{one.destination}" for one in moves]
    for line in columns(["WORKSPACE\tLOGICAL CLUSTER\tFROM\tTO", *rows], padding=3):
        print(line)


def _is_approved(invocation: CommandInvocation, moves: list[PlannedMove]) -> bool:
    """The plan is shown, and nothing moves without consent."""
    show(moves)
    if not moves or invocation["yes"]:
        return True
    if not sys.stdin.isatty():
        raise PluginError("the plan is not approved: use --yes, or a terminal")
    answer = input(f"Move {len(moves)} workspaces? [y/N] ")
    return answer.strip().lower() in ("y", "yes")


def _run(invocation: CommandInvocation, moves: list[PlannedMove]) -> None:
    if moves:
        client = Session(invocation).client
        serve_migrations(client)
        MoveRunner(client, moves, invocation["timeout"]).run()
