"""The command: runs the steps of a scenario, or undoes them with `--cleanup`."""

from __future__ import annotations

import sys
import time
from urllib.parse import urlsplit

from pykcp.cli.plugins.errors import PluginError, Prefixed, Unreachable, root_cause
from pykcp.cli.plugins.go_text import bracketed, quote
from pykcp.cli.plugins.quickstart.scenario import Scenario, Stage
from pykcp.cli.plugins.session import Session
from pykcp.cli.plugins.shell.command import CommandInvocation
from pykcp.cli.plugins.workspace.use import go

_HINT = """
Cannot reach kcp at {server}.
Make sure kcp is running. To start it:
  kcp start --bind-address=127.0.0.1

Then set your kubeconfig:
  export KUBECONFIG=.kcp/admin.kubeconfig

"""
_NAMES = ("api-provider", "workspaces")


def quickstart(invocation: CommandInvocation) -> None:
    if invocation.arguments:
        raise PluginError(f"unexpected arguments: {bracketed(invocation.arguments)}")
    scenario = _scenario(invocation)
    prefix = invocation["name-prefix"]
    if not prefix:
        raise PluginError("--name-prefix must not be empty")
    scenario.check(prefix)
    session = Session(invocation)
    try:
        host = session.target().host
        clock = time.monotonic
        stage = Stage(session.client, prefix, clock, clock() + invocation["timeout"])
    except PluginError as error:
        raise Prefixed("failed to get client config", error) from error
    try:
        if invocation["cleanup"]:
            _clean_up(session, scenario, stage)
        else:
            _set_up(session, scenario, stage, invocation)
    except PluginError as error:
        if isinstance(root_cause(error), Unreachable):
            server = "{0.scheme}://{0.netloc}".format(urlsplit(host))
            print(_HINT.format(server=server), end="", file=sys.stderr)
        raise


def _scenario(invocation: CommandInvocation) -> Scenario:
    name = invocation["scenario"]
    if name == "api-provider":
        from pykcp.cli.plugins.quickstart.api_provider import ApiProvider

        return ApiProvider()
    if name == "workspaces":
        from pykcp.cli.plugins.quickstart.workspace_tree import WorkspaceTree

        seed = invocation["tree-seed"] or time.time_ns()
        return WorkspaceTree(invocation["tree-depth"], invocation["tree-count"], seed)
    raise PluginError(
        f"failed to get scenario: unknown scenario {quote(name)}, available: {bracketed(_NAMES)}"
    )


def _set_up(
    session: Session, scenario: Scenario, stage: Stage, invocation: CommandInvocation
) -> None:
    steps = scenario.steps(stage.prefix)
    if invocation["with-samples"]:
        steps += scenario.samples(stage.prefix)
    print(f"Setting up {quote(scenario.name)} scenario with prefix {quote(stage.prefix)}...\n")
    for number, step in enumerate(steps, 1):
        print(f"Step {number}/{len(steps)}: {step.description}...", flush=True)
        try:
            step.run(stage)
        except PluginError as error:
            raise Prefixed(f"step {number}/{len(steps)} failed", error) from error
    print(scenario.summary(stage), end="", flush=True)
    if invocation["enter"]:
        place = scenario.place_to_enter(stage)
        try:
            go(session, f":{place}")
        except PluginError as error:
            raise Prefixed("entering workspace", error) from error


def _clean_up(session: Session, scenario: Scenario, stage: Stage) -> None:
    print(f"Cleaning up quickstart resources with prefix {quote(stage.prefix)}...\n", flush=True)
    problems: list[Prefixed] = []
    undoable = [step for step in reversed(scenario.steps(stage.prefix)) if step.undo]
    for number, step in enumerate(undoable, 1):
        description = step.undo_description or step.description
        print(f"Step {number}: {description}...", flush=True)
        assert step.undo is not None
        try:
            step.undo(stage)
        except PluginError as error:
            words = f"cleanup of step {quote(description)}"
            print(f"  {words} failed: {error}", file=sys.stderr)
            problems.append(Prefixed(words, error))
    if problems:
        if len(problems) == 1:
            raise problems[0]
        raise PluginError("\n".join(str(problem) for problem in problems))
    print("\nCleanup complete.", flush=True)
    try:
        go(session, ":root")
    except PluginError as error:
        words = "Warning: cleanup succeeded but could not switch kubeconfig to :root"
        print(f"{words}: {error}", file=sys.stderr)
