"""The program `cluster-controller`: the controllers of Clusters, outside of the server."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pykcp.cli.server import ServerCommand, main_of

if TYPE_CHECKING:
    from pykcp.programs.kit.settings import ProgramSettings

USAGE = """cluster-controller connects to the clusters of workspaces, and negotiates their types.

Usage:
  cluster-controller --kubeconfig FILE [--push-mode | --pull-mode] [flags]
  cluster-controller completion SHELL
  cluster-controller version [-o json]
  cluster-controller --help
"""


def main(arguments: Sequence[str] | None = None) -> int:
    return main_of("cluster-controller", COMMAND, sys.argv[1:] if arguments is None else arguments)


def _settings() -> type[ProgramSettings]:
    from pykcp.programs.cluster_controller.settings import ClusterControllerSettings

    return ClusterControllerSettings


def _run(settings: Any, warnings: list[str]) -> int:
    from pykcp.programs.cluster_controller.process import run

    return run(settings, warnings)


COMMAND = ServerCommand(USAGE, _settings, _run)

if __name__ == "__main__":
    sys.exit(main())
