"""Entry points of `kubectl-ws`, `kubectl-kcp` and the other plugin programs."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

from pykcp.cli.plugins.session import LOG_FLAGS
from pykcp.cli.plugins.shell.command import Command
from pykcp.cli.plugins.shell.program import run
from pykcp.cli.plugins.ws import create_command, workspace_command
from pykcp.server.documents.version import GIT_VERSION


def kubectl_ws() -> int:
    return run(_ws(), sys.argv[1:], program="kubectl-ws")


def kubectl_create_workspace() -> int:
    return run(_create(), sys.argv[1:], program="kubectl-create-workspace")


def kubectl_kcp() -> int:
    return run(_kcp(), sys.argv[1:], program="kubectl-kcp", error_word="error")


def complete() -> int:
    """`kubectl_complete-ws` and similar programs, which kubectl calls for completions."""
    program = os.path.basename(sys.argv[0]).replace("kubectl_complete-", "kubectl-")
    roots = {
        "kubectl-ws": _ws,
        "kubectl-create-workspace": _create,
        "kubectl-create_workspace": _create,
        "kubectl-kcp": _kcp,
    }
    return run(roots[program](), ["__complete", *sys.argv[1:]], program=program)


def by_name(program: str) -> Callable[[], int]:
    if program.startswith("kubectl_complete-"):
        return complete
    found: Callable[[], int] = globals()[program.replace("-", "_")]
    return found


def roots() -> dict[str, Command]:
    """The programs as users call them."""
    return {"kubectl ws": _ws(), "kubectl create workspace": _create(), "kubectl kcp": _kcp()}


def _ws() -> Command:
    return workspace_command(GIT_VERSION)._replace(inherited=LOG_FLAGS)


def _create() -> Command:
    command = create_command("kubectl create workspace", version=GIT_VERSION)
    return command._replace(inherited=LOG_FLAGS)


def _kcp() -> Command:
    from pykcp.cli.plugins.kcp import kcp_command

    return kcp_command(GIT_VERSION)._replace(inherited=LOG_FLAGS)
