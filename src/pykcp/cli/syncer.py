"""The program `syncer`: synchronizes a workspace with one of its clusters."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pykcp.cli.server import ServerCommand, main_of

if TYPE_CHECKING:
    from pykcp.programs.kit.settings import ProgramSettings

USAGE = """syncer runs the objects that a workspace assigns to a cluster there, and reports their status.

Usage:
  syncer --from-kubeconfig FILE --workload-cluster-name NAME [--to-kubeconfig FILE] [flags]
  syncer completion SHELL
  syncer version [-o json]
  syncer --help
"""


def main(arguments: Sequence[str] | None = None) -> int:
    return main_of("syncer", COMMAND, list(sys.argv[1:] if arguments is None else arguments))


def _settings() -> type[ProgramSettings]:
    from pykcp.programs.syncer.settings import SyncerSettings

    return SyncerSettings


def _run(settings: Any, warnings: list[str]) -> int:
    from pykcp.programs.syncer.process import run

    return run(settings, warnings)


COMMAND = ServerCommand(USAGE, _settings, _run)

if __name__ == "__main__":
    sys.exit(main())
