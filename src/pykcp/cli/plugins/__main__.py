"""`python -m pykcp.cli.plugins kubectl-ws …`: a plugin where its program is not installed."""

from __future__ import annotations

import sys

from pykcp.cli.plugins import programs

if __name__ == "__main__":
    sys.argv = sys.argv[1:]
    sys.exit(programs.by_name(sys.argv[0])())
