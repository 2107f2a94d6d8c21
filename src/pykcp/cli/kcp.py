"""The program `kcp`: `kcp start` runs a server, `kcp admin` looks after one."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pykcp.programs.shard.settings import ShardSettings

USAGE = """kcp serves many isolated Kubernetes-style API spaces from one light process.

Usage:
  kcp start [flags]     run a server; state goes to .kcp in this directory
  kcp start options     list all flags of `kcp start`
  kcp admin fsck        check that what a server holds fits together
  kcp --version         say which version this is
  kcp --help            this text

Once it runs:
  export KUBECONFIG=.kcp/admin.kubeconfig
  kubectl api-resources
"""


def main(arguments: Sequence[str] | None = None) -> int:
    words = list(sys.argv[1:] if arguments is None else arguments)
    if not words or words[0] in ("--help", "-h", "help"):
        print(USAGE, end="")
        return 0
    if words[0] in ("--version", "version"):
        from pykcp.server.documents.version import GIT_VERSION

        print(f"kcp version {GIT_VERSION}")
        return 0
    if words[0] == "admin":
        from pykcp.cli.admin import main as admin

        return admin(words[1:])
    if words[0] != "start":
        print(f'Error: unknown command "{words[0]}" for "kcp"; try kcp --help', file=sys.stderr)
        return 1
    return start(words[1:])


def start(words: Sequence[str]) -> int:
    from pykcp.cli.flags import FlagError, refuse
    from pykcp.cli.start_flags import START_FLAGS
    from pykcp.programs.shard.settings import SettingsError

    if words and words[0] == "options":
        print("The following flags can be given to `kcp start`:\n" + START_FLAGS.usage(), end="")
        return 0
    if any(word in ("--help", "-h") for word in words):
        print("Run a kcp server.\n\nUsage:\n  kcp start [flags]\n" + START_FLAGS.usage(), end="")
        return 0
    try:
        settings = _settings(words)
    except (FlagError, SettingsError) as error:
        return refuse(str(error).splitlines())
    from pykcp.programs.shard.process import run

    return run(settings)


def _settings(words: Sequence[str]) -> ShardSettings:
    from pykcp.cli.flags import FlagError
    from pykcp.cli.start_flags import START_FLAGS, settings_from

    values, rest = START_FLAGS.parse(words)
    if rest:
        raise FlagError(f'unknown command "{rest[0]}" for "kcp start"')
    return settings_from(values).checked()


if __name__ == "__main__":
    sys.exit(main())
