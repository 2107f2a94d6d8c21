"""The program `kcp`: `kcp start` runs a server, `kcp admin` administers one."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pykcp.cli.output import ends_quietly
from pykcp.cli.server import HELP, ServerCommand, print_version, start, unknown_command

if TYPE_CHECKING:
    from pykcp.programs.kit.settings import ProgramSettings

USAGE = """kcp serves many isolated Kubernetes-style API spaces from one lightweight process.

Usage:
  kcp start [flags]     run a server; its state is in .kcp in this directory
  kcp start options     list all flags of `kcp start`
  kcp up [DIRECTORY]    run a whole installation on this machine, as manifests describe it
  kcp status            show what runs, where and how it fares; see also: logs, restart, upgrade,
                        down, doctor, kubeconfig, cert, export, import, get, describe, apply, delete
  kcp sharded [flags]   run several shards, a cache server and a front-proxy on this machine
  kcp operator [flags]  run installations in a Kubernetes cluster from their manifests
  kcp envtest DIR       write programs for tests of operators with controller-runtime's envtest
  kcp admin fsck        check the store for consistency
  kcp backup --to PATH  save an installation while it serves, or add to a backup
  kcp restore --from PATH  bring an installation back from a backup
  kcp import --from-etcd|--from-kubeconfig  make an installation from what a kcp holds
  kcp completion SHELL  print a script that completes commands and flags: bash, zsh or fish
  kcp version [-o json] print the version
  kcp --help            print this text

When it is running:
  export KUBECONFIG=.kcp/admin.kubeconfig
  kubectl api-resources
"""
HOST_COMMANDS = (
    "up", "status", "logs", "restart", "upgrade", "down", "doctor", "kubeconfig", "cert", "export",
    "import", "get", "describe", "apply", "delete",
)  # fmt: skip
"""Those that run an installation on this machine."""
_COMMANDS = (
    "start", "sharded", *HOST_COMMANDS, "operator", "envtest", "admin", "backup", "restore",
    "completion", "version", "help",
)  # fmt: skip


@ends_quietly
def main(arguments: Sequence[str] | None = None) -> int:
    words = list(sys.argv[1:] if arguments is None else arguments)
    if not words or words[0] in HELP:
        print(USAGE, end="")
        return 0
    command, *rest = words
    if command in ("--version", "version"):
        return print_version("kcp", rest)
    if command == "completion":
        from pykcp.cli.completion import main as completion

        return completion("kcp", rest)
    if command == "operator":
        from pykcp.cli.operator import main as operator

        return operator(rest)
    if command == "admin":
        from pykcp.cli.admin import main as admin

        return admin(rest)
    if command in ("backup", "restore") or (command == "import" and _is_from_kcp(rest)):
        from pykcp.cli import backup

        return backup.COMMANDS[command](rest)
    if command == "envtest":
        from pykcp.cli.envtest import main as envtest

        return envtest(rest)
    if command == "sharded":
        return start(SHARDED, rest)
    if command in HOST_COMMANDS:
        from pykcp.cli.operate.all import main as operate

        return operate(command, rest)
    if command != "start":
        return unknown_command(command, "kcp", _COMMANDS)
    if rest[:1] == ["options"]:
        flags = shard_settings().flag_set()
        print("Flags of `kcp start`:\n" + flags.usage(), end="")
        return 0
    return start(START, rest)


def _is_from_kcp(words: Sequence[str]) -> bool:
    """Without such a flag, the archive of a shard of another host is imported."""
    return any(word.startswith("--from-") for word in words)


def shard_settings() -> type[ProgramSettings]:
    from pykcp.programs.shard.settings import ShardSettings

    return ShardSettings


def _run(settings: Any, warnings: list[str]) -> int:
    from pykcp.programs.shard.process import run

    return run(settings, warnings)


START = ServerCommand("Run a kcp server.\n\nUsage:\n  kcp start [flags]\n", shard_settings, _run)


def sharded_settings() -> type[ProgramSettings]:
    from pykcp.programs.sharded.settings import ShardedSettings

    return ShardedSettings


def _run_sharded(settings: Any, warnings: list[str]) -> int:
    from pykcp.programs.sharded.process import run

    return run(settings, warnings)


SHARDED = ServerCommand(
    "Run an installation of several shards on this machine.\n\nUsage:\n  kcp sharded [flags]\n",
    sharded_settings,
    _run_sharded,
)

if __name__ == "__main__":
    sys.exit(main())
