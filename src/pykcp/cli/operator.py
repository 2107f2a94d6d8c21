"""`kcp operator`: runs installations in a Kubernetes cluster, and prints its kinds."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pykcp.cli.server import ServerCommand, start

if TYPE_CHECKING:
    from pykcp.programs.kit.settings import ProgramSettings

USAGE = """Run installations of kcp in a Kubernetes cluster.

Usage:
  kcp operator [flags]  run the operator
  kcp operator crds     print the CustomResourceDefinitions of its kinds
"""


def main(words: Sequence[str]) -> int:
    if list(words) == ["crds"]:
        from pykcp.programs.operator.kinds.definitions import definitions_text

        sys.stdout.write(definitions_text())
        return 0
    return start(OPERATOR, list(words))


def operator_settings() -> type[ProgramSettings]:
    from pykcp.programs.operator.cluster.settings import OperatorSettings

    return OperatorSettings


def _run(settings: Any, warnings: list[str]) -> int:
    from pykcp.programs.operator.cluster.process import run

    return run(settings, warnings)


OPERATOR = ServerCommand(USAGE, operator_settings, _run)
