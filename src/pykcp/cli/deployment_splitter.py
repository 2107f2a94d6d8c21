"""The program `deployment-splitter`: places workloads of a workspace on its clusters."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pykcp.cli.server import ServerCommand, main_of

if TYPE_CHECKING:
    from pykcp.programs.kit.settings import ProgramSettings

USAGE = """deployment-splitter places the workloads of a workspace on the clusters behind it.

A server does this itself, unless it is started with --split-workloads=false.

Usage:
  deployment-splitter --kubeconfig FILE [flags]
  deployment-splitter completion SHELL
  deployment-splitter version [-o json]
  deployment-splitter --help
"""


def main(arguments: Sequence[str] | None = None) -> int:
    given = list(sys.argv[1:] if arguments is None else arguments)
    return main_of("deployment-splitter", COMMAND, given)


def _settings() -> type[ProgramSettings]:
    from pykcp.programs.deployment_splitter.settings import SplitterProgramSettings

    return SplitterProgramSettings


def _run(settings: Any, warnings: list[str]) -> int:
    from pykcp.programs.deployment_splitter.process import run

    return run(settings, warnings)


COMMAND = ServerCommand(USAGE, _settings, _run)

if __name__ == "__main__":
    sys.exit(main())
