"""The commands of `kubectl kcp shard`."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from pykcp.apis.kcp.logical_clusters import UNSCHEDULABLE_ANNOTATION
from pykcp.apis.kcp.shard_load import load_of
from pykcp.cli.plugins.access.rest import RestClient
from pykcp.cli.plugins.access.status import ServerError
from pykcp.cli.plugins.errors import PluginError
from pykcp.cli.plugins.go_text import columns
from pykcp.cli.plugins.session import Session
from pykcp.cli.plugins.shards import plan as plans
from pykcp.cli.plugins.shards.moves import (
    MOST,
    PlanFollower,
    approve_plan,
    current_plan,
    phase_of,
    plan_body,
    serve_moves,
    store_plan,
)
from pykcp.cli.plugins.shards.plan import PlannedMove
from pykcp.cli.plugins.shards.survey import (
    is_cordoned,
    list_remaining,
    list_shards,
    list_workspaces,
    move_plans,
    shard_objects,
)
from pykcp.cli.plugins.shell.command import CommandInvocation, WantsHelp
from pykcp.cli.plugins.workspace.paths import resolve

Object = dict[str, Any]
_MOST_NAMED = 10


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
    name = _argument(invocation)
    _keep(invocation, f"drain-{name}", _drain_moves(invocation, name), cordon=name)


def plan_rebalance(invocation: CommandInvocation) -> None:
    _keep(invocation, "rebalance", _rebalance_moves(invocation))


def _keep(
    invocation: CommandInvocation, name: str, moves: list[PlannedMove], cordon: str = ""
) -> None:
    """Print the moves and, if asked to, store them as a plan that waits for approval."""
    show(moves)
    if not moves or not invocation["create"]:
        return
    client = Session(invocation).client
    serve_moves(client)
    store_plan(client, plan_body(name, moves[:MOST], cordon, 600.0, is_approved=False))
    print(f"plan {name} created; approve it with: kubectl kcp shard approve {name}")


def list_plans(invocation: CommandInvocation) -> None:
    if invocation.arguments:
        raise WantsHelp
    client = Session(invocation).client
    serve_moves(client)
    rows = ["NAME\tPHASE\tMOVED\tTOTAL\tMOVING\tFAILED"]
    for plan in move_plans(client).list():
        status = plan.get("status") or {}
        numbers = [status.get("moved") or 0, len(plan["spec"].get("moves") or ())]
        numbers += [len(status.get(part) or ()) for part in ("moving", "failed")]
        words = [plan["metadata"]["name"], phase_of(plan), *map(str, numbers)]
        rows.append("\t".join(words))
    for line in columns(rows, padding=3):
        print(line)


def approve(invocation: CommandInvocation) -> None:
    """Let a plan begin, or follow one that has begun."""
    name, client = _argument(invocation), Session(invocation).client
    serve_moves(client)
    approve_plan(client, name)
    PlanFollower(client, name).run()


def drain(invocation: CommandInvocation) -> None:
    """Cordon a shard, then move everything that can be moved."""
    name = _argument(invocation)
    _carry_out(invocation, f"drain-{name}", lambda: _drain_moves(invocation, name), cordon=name)
    _check_empty(Session(invocation).client, name)


def _check_empty(client: RestClient, name: str) -> None:
    """Who drains a shard wants to remove it: whatever is left there would be lost."""
    try:
        left = list_remaining(client, name)
    except ServerError as error:
        print(f"Warning: shard {name} may have other logical clusters: {error}", file=sys.stderr)
        return
    if left:
        more = f" and {len(left) - _MOST_NAMED} more" if len(left) > _MOST_NAMED else ""
        names = ", ".join(one.path for one in left[:_MOST_NAMED])
        raise PluginError(
            f"shard {name} is not empty: {names}{more}; workspaces that are being deleted cannot be "
            "moved, so drain it again when they are gone"
        )


def rebalance(invocation: CommandInvocation) -> None:
    if invocation.arguments:
        raise WantsHelp
    _carry_out(invocation, "rebalance", lambda: _rebalance_moves(invocation))


def move(invocation: CommandInvocation) -> None:
    session, path = Session(invocation), _argument(invocation)
    if not invocation["to"]:
        raise PluginError('required flag(s) "to" not set')
    path = resolve(session.current(), path)
    client = session.client

    def find() -> list[PlannedMove]:
        return plans.relocate(
            list_shards(client),
            list_workspaces(client),
            path,
            invocation["to"],
            is_recursive=invocation["recursive"],
        )

    name = path.replace(":", ".")
    _carry_out(invocation, f"move-{name}", find)


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


def _carry_out(
    invocation: CommandInvocation,
    name: str,
    find: Callable[[], list[PlannedMove]],
    cordon: str = "",
) -> None:
    """Have the server move what `find` says, in plans of at most `MOST` moves."""
    client = Session(invocation).client
    moves = find()
    if not _is_approved(invocation, moves):
        return
    if cordon:
        _mark(invocation, is_on=True)
    if not moves:
        return
    serve_moves(client)
    if current_plan(client, name) is not None:
        print(f"plan {name} has begun already", flush=True)
        approve_plan(client, name)
        PlanFollower(client, name).run()
        moves = find()
    while moves:
        body = plan_body(name, moves[:MOST], cordon, invocation["timeout"], is_approved=True)
        store_plan(client, body)
        PlanFollower(client, name).run()
        moves = moves[MOST:]
