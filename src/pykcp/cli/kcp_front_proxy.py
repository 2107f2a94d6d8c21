"""The program `kcp-front-proxy`: one address for all shards of an installation."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pykcp.cli.server import ServerCommand, main_of

if TYPE_CHECKING:
    from pykcp.programs.kit.settings import ProgramSettings

USAGE = """kcp-front-proxy is one address for all shards of a kcp installation.

Usage:
  kcp-front-proxy --mapping-file FILE --root-kubeconfig FILE --shards-kubeconfig FILE [flags]
  kcp-front-proxy completion SHELL
  kcp-front-proxy version [-o json]
  kcp-front-proxy --help
"""


def main(arguments: Sequence[str] | None = None) -> int:
    return main_of("kcp-front-proxy", COMMAND, sys.argv[1:] if arguments is None else arguments)


def _settings() -> type[ProgramSettings]:
    from pykcp.programs.front_proxy.settings import FrontProxySettings

    return FrontProxySettings


def _run(settings: Any, warnings: list[str]) -> int:
    from pykcp.programs.front_proxy.process import run

    return run(settings, warnings)


COMMAND = ServerCommand(USAGE, _settings, _run)

if __name__ == "__main__":
    sys.exit(main())
