"""The program `cache-server`: serves what the shards of an installation publish for each other."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pykcp.cli.server import ServerCommand, main_of

if TYPE_CHECKING:
    from pykcp.programs.kit.settings import ProgramSettings

USAGE = """cache-server serves what the shards of a kcp installation publish for each other.

Usage:
  cache-server [flags]
  cache-server completion SHELL
  cache-server version [-o json]
  cache-server --help
"""


def main(arguments: Sequence[str] | None = None) -> int:
    return main_of("cache-server", COMMAND, sys.argv[1:] if arguments is None else arguments)


def _settings() -> type[ProgramSettings]:
    from pykcp.programs.cache.settings import CacheSettings

    return CacheSettings


def _run(settings: Any, warnings: list[str]) -> int:
    from pykcp.programs.cache.process import run

    return run(settings, warnings)


COMMAND = ServerCommand(USAGE, _settings, _run)

if __name__ == "__main__":
    sys.exit(main())
