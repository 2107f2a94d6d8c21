"""Helm: found, built by scripts/test-clients, or replaced by a program that checks how it is called."""

from __future__ import annotations

import os
import pathlib
import shutil

BUILT = pathlib.Path(__file__).parents[2] / ".cache" / "helm" / "helm"


def find_helm() -> str | None:
    """The program, if this machine has it."""
    if BUILT.exists():
        return os.environ.get("PYKCP_HELM") or str(BUILT)
    return os.environ.get("PYKCP_HELM") or shutil.which("helm")


_STAND_IN = r"""#!/bin/bash
# Takes the commands of a page as Helm does, and asks the workspace of the kubeconfig for its kinds.
set -euo pipefail
command=$1; shift
words=(); while [ $# -gt 0 ]; do case "$1" in
  --set|--namespace) shift 2 ;;
  --dry-run=server|--wait|--create-namespace) shift ;;
  -*) echo "Error: unknown flag: $1" >&2; exit 1 ;;
  *) words+=("$1"); shift ;;
esac; done
case "$command" in
  create) mkdir "${words[0]}"; echo "name: ${words[0]}" > "${words[0]}/Chart.yaml"; exit ;;
  install|upgrade) test -f "${words[1]}/Chart.yaml" ;;
  rollback) test "${words[1]}" -gt 0 ;;
  history|uninstall) test -n "${words[0]}" ;;
  *) echo "Error: unknown command $command" >&2; exit 1 ;;
esac
kubectl api-resources --api-group=apps -o name | grep -x deployments.apps > /dev/null
echo . >> .reached; echo "REACHED: $(wc -l < .reached)"
"""


def helm_stand_in(folder: pathlib.Path) -> pathlib.Path:
    """A program named `helm` in a folder of its own."""
    path = folder / "helm" / "helm"
    path.parent.mkdir()
    path.write_text(_STAND_IN)
    path.chmod(0o755)
    return path
