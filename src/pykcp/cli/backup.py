"""`kcp backup`, `kcp restore` and `kcp import`."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Callable, Sequence
from typing import Any

from pykcp.cli.server import refuse

BACKUP = """Save an installation while it serves: its stores, keys, certificates and other files.

Usage:
  kcp backup --to=DIRECTORY|FILE.tar [flags]          make a backup, or add to one
  kcp backup show --from=DIRECTORY|FILE.tar           list the points in time that it has, check it
"""
RESTORE = """Bring an installation, or one of its stores, back from a backup.

Usage:
  kcp restore --from=DIRECTORY|FILE.tar [flags]
"""
IMPORT = """Make a new installation from what a kcp holds: workspaces, exports, bindings, objects, users.

Usage:
  kcp import --from-etcd=URL,… [--from-root-directory=DIRECTORY] [--dry-run] [flags]
  kcp import --from-kubeconfig=FILE [--from-root-directory=DIRECTORY] [--dry-run] [flags]
"""
_NICENESS = 10
"""A backup has time: servers of the same machine come first."""
_HELP = ("--help", "-h", "help")


def backup(words: Sequence[str]) -> int:
    if words[:1] == ["show"]:
        return _show(words[1:])
    os.nice(_NICENESS)  # before the imports, which take most of the CPU of a small backup
    from pykcp.programs.backup.settings import BackupSettings

    if any(word in _HELP for word in words):
        print(BACKUP + BackupSettings.flag_set().usage(), end="")
        return 0

    def run(settings: Any) -> int:
        from pykcp.cli.progress import shown_progress, written_below
        from pykcp.programs.backup.backing_up import run

        if settings.backup.every:  # it stays, and is mostly at rest
            return run(settings, _say)
        to = pathlib.Path(settings.backup.to)
        written = written_below([to, to.with_name(f"{to.name}.unfinished")])
        with shown_progress("backing up", written) as say:
            return run(settings, say)

    return _run(BackupSettings, words, run)


def restore(words: Sequence[str]) -> int:
    from pykcp.programs.backup.settings import RestoreSettings

    if any(word in _HELP for word in words):
        print(RESTORE + RestoreSettings.flag_set().usage(), end="")
        return 0

    def run(settings: Any) -> int:
        from pykcp.cli.progress import shown_progress, written_below
        from pykcp.programs.backup.restoring import run

        root = settings.generic.root_directory.absolute() / settings.restore.member
        written = written_below([root.with_name(f"{root.name}.restoring")])
        with shown_progress("restoring", written) as say:
            return run(settings, say)

    return _run(RestoreSettings, words, run)


def import_(words: Sequence[str]) -> int:
    from pykcp.programs.importing.settings import ImportSettings

    if any(word in _HELP for word in words):
        print(IMPORT + ImportSettings.flag_set().usage(), end="")
        return 0

    def run(settings: Any) -> int:
        from pykcp.cli.progress import shown_progress, written_below
        from pykcp.programs.importing.process import run

        what = "reading" if settings.importing.dry_run else "importing"
        with shown_progress(what, written_below([settings.generic.root_directory])) as say:
            return run(settings, say)

    return _run(ImportSettings, words, run)


def _show(words: Sequence[str]) -> int:
    from pykcp.programs.backup.settings import RestoreSettings

    def run(settings: Any) -> int:
        from pykcp.cli.progress import shown_progress
        from pykcp.programs.backup.showing import show

        with shown_progress("checking the backup") as say:
            return show(settings.restore.source, say)

    return _run(RestoreSettings, words, run)


def _run(kind: Any, words: Sequence[str], run: Callable[[Any], int]) -> int:
    from pykcp.programs.kit.errors import USER_ERRORS, described
    from pykcp.programs.kit.flags import FlagError

    try:
        settings, _ = kind.parse(words)
        settings = settings.checked()
        settings.logging.set_up()
        return run(settings)
    except FlagError as error:
        return refuse(str(error).splitlines())
    except USER_ERRORS as error:
        return refuse([described(error)])


def _say(line: str) -> None:
    print(line, flush=True)


COMMANDS: dict[str, Callable[[Sequence[str]], int]] = {
    "backup": backup,
    "restore": restore,
    "import": import_,
}
