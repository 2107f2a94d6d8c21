"""The program `virtual-workspaces`: serves the virtual workspaces of a shard at another address."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pykcp.cli.server import ServerCommand, main_of

if TYPE_CHECKING:
    from pykcp.programs.kit.settings import ProgramSettings

USAGE = """virtual-workspaces serves the virtual workspaces of a kcp shard at an address of their own.

Usage:
  virtual-workspaces --kubeconfig FILE [flags]
  virtual-workspaces completion SHELL
  virtual-workspaces version [-o json]
  virtual-workspaces --help
"""


def main(arguments: Sequence[str] | None = None) -> int:
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words and words[0] == "workspaces":  # the name of kcp's own root command; both forms work
        del words[0]
    return main_of("virtual-workspaces", COMMAND, words)


def _settings() -> type[ProgramSettings]:
    from pykcp.programs.virtual.settings import VirtualWorkspacesSettings

    return VirtualWorkspacesSettings


def _run(settings: Any, warnings: list[str]) -> int:
    from pykcp.programs.virtual.process import run

    return run(settings, warnings)


COMMAND = ServerCommand(USAGE, _settings, _run)

if __name__ == "__main__":
    sys.exit(main())
