"""The commands `kubectl kcp shard …`."""

from __future__ import annotations

from pykcp.cli.plugins.session import CONNECTION_FLAGS
from pykcp.cli.plugins.shell.command import Command, CommandInvocation
from pykcp.cli.plugins.shell.flags import PluginFlag

_EXAMPLES = """# shards, and how many workspaces each has
kubectl kcp shard list

# no new workspaces for a shard; then move all of its workspaces to the others
kubectl kcp shard cordon shard-1
kubectl kcp shard plan drain shard-1
kubectl kcp shard drain shard-1

# the same, approved by another person
kubectl kcp shard plan drain shard-1 --create
kubectl kcp shard plans
kubectl kcp shard approve drain-shard-1

# spread workspaces evenly
kubectl kcp shard uncordon shard-1
kubectl kcp shard rebalance --yes

# move a workspace with everything below it
kubectl kcp shard move :root:org:team --to shard-1 --recursive
"""
_DRAIN = """Cordon a shard and move all of its workspaces to the other shards.

The plan is printed and has to be approved. Workspaces are used while they move. The plan is kept
as a MovePlan in root and carried out by the server: it goes on when the command is interrupted;
run it again to follow it. Logical clusters without a workspace, such as root, stay.
"""


def _list(invocation: CommandInvocation) -> None:
    from pykcp.cli.plugins.shards.commands import list_all

    list_all(invocation)


def _cordon(invocation: CommandInvocation) -> None:
    from pykcp.cli.plugins.shards.commands import cordon

    cordon(invocation)


def _uncordon(invocation: CommandInvocation) -> None:
    from pykcp.cli.plugins.shards.commands import uncordon

    uncordon(invocation)


def _plan_drain(invocation: CommandInvocation) -> None:
    from pykcp.cli.plugins.shards.commands import plan_drain

    plan_drain(invocation)


def _plan_rebalance(invocation: CommandInvocation) -> None:
    from pykcp.cli.plugins.shards.commands import plan_rebalance

    plan_rebalance(invocation)


def _drain(invocation: CommandInvocation) -> None:
    from pykcp.cli.plugins.shards.commands import drain

    drain(invocation)


def _rebalance(invocation: CommandInvocation) -> None:
    from pykcp.cli.plugins.shards.commands import rebalance

    rebalance(invocation)


def _plans(invocation: CommandInvocation) -> None:
    from pykcp.cli.plugins.shards.commands import list_plans

    list_plans(invocation)


def _approve(invocation: CommandInvocation) -> None:
    from pykcp.cli.plugins.shards.commands import approve

    approve(invocation)


def _move(invocation: CommandInvocation) -> None:
    from pykcp.cli.plugins.shards.commands import move

    move(invocation)


def shard_command() -> Command:
    run = (
        PluginFlag("yes", "bool", "Approve the plan.", False, "y"),
        PluginFlag("timeout", "duration", "How long one move may take.", 600.0),
        *CONNECTION_FLAGS,
    )
    move = (
        PluginFlag("to", "string", "Shard to move to.", ""),
        PluginFlag("recursive", "bool", "Also move all workspaces below it.", False),
        *run,
    )
    connect, shard = CONNECTION_FLAGS, "<shard>"
    keep = (
        PluginFlag("create", "bool", "Store the plan in root; it waits for approval.", False),
        *connect,
    )
    return Command(
        "shard",
        "List, cordon and drain shards; move workspaces between them.",
        examples=_EXAMPLES,
        children=(
            Command("list", "List shards with their workspaces.", _list, flags=connect),
            Command("cordon", "Place no new workspaces on a shard.", _cordon, shard, flags=connect),
            Command("uncordon", "Place new workspaces on a shard again.", _uncordon, shard,
                    flags=connect),
            Command("plan", "Print which workspaces would be moved.", children=(
                Command("drain", "Print the moves that empty a shard.", _plan_drain, shard,
                        flags=keep),
                Command("rebalance", "Print the moves that spread workspaces evenly.",
                        _plan_rebalance, flags=keep),
            )),
            Command("plans", "List the stored plans and their progress.", _plans, flags=connect),
            Command("approve", "Let a stored plan begin, and follow it.", _approve, "<plan>",
                    flags=connect),
            Command("drain", "Move all workspaces of a shard to others.", _drain, shard, _DRAIN,
                    flags=run),
            Command("rebalance", "Spread workspaces evenly over shards.", _rebalance, flags=run),
            Command("move", "Move a workspace to a shard.", _move, "<workspace>", flags=move),
        ),
    )  # fmt: skip
