"""The settings of `kcp backup` and `kcp restore`."""

from __future__ import annotations

import datetime as dt
import pathlib
from collections.abc import Iterator

from pykcp.programs.kit.groups.logging import LoggingOptions
from pykcp.programs.kit.groups.root_directory import RootDirectoryOptions
from pykcp.programs.kit.groups.store import StoreOptions
from pykcp.programs.kit.options import OptionGroup, option
from pykcp.programs.kit.settings import ProgramSettings


class BackupOptions(OptionGroup):
    TITLE = "Backup"

    to: str = option(
        "Directory or file (ending with .tar) of the backup. If it exists, what was written since is added to it.",
        "",
    )
    every: float = option(
        "Stay in the foreground and add to the backup at this interval. Each addition is a point in time that can be restored. 0 makes one backup and ends.",
        0.0,
    )
    full: bool = option("Save everything, even if the backup could be continued.", False)
    include: tuple[str, ...] = option(
        "Files and directories outside of the root directory to save as well, such as keys.", ()
    )

    def problems(self) -> Iterator[str]:
        yield from super().problems()
        if not self.to:
            yield "--to must name the directory or the file of the backup"
        if self.every < 0:
            yield "--every must not be negative"
        for path in self.include:
            if not pathlib.Path(path).exists():
                yield f"--include: {path} does not exist"


class RestoreOptions(OptionGroup):
    TITLE = "Restore"

    source: str = option("Directory or file of the backup.", "", flag="from")
    to_time: str = option(
        "Restore the last state before this time, such as 2026-11-16T14:00:00Z. The newest state if not given.",
        "",
    )
    to_revision: int = option(
        "Restore the state at this revision of the store (a resourceVersion). For one store; see --member.",
        0,
    )
    member: str = option(
        "Restore only the store of this directory of the installation, such as shard-1.", ""
    )
    replace_existing: bool = option(
        "If the root directory is not empty, move it aside and put the restored one in its place.",
        False,
        flag="replace",
    )
    accept_problems: bool = option(
        "Complete the restore even if the check of the restored store finds problems.", False
    )

    def problems(self) -> Iterator[str]:
        yield from super().problems()
        if not self.source:
            yield "--from must name the directory or the file of the backup"
        if self.to_time and self.to_revision:
            yield "--to-time and --to-revision exclude each other"
        if self.to_time:
            try:
                self.moment()
            except ValueError:
                yield f"--to-time: {self.to_time!r} is not a time such as 2026-11-16T14:00:00Z"

    def moment(self) -> float | None:
        """--to-time in seconds of Unix time; None if not given. Raises ValueError."""
        if not self.to_time:
            return None
        found = dt.datetime.fromisoformat(self.to_time)
        if found.tzinfo is None:
            found = found.replace(tzinfo=dt.UTC)
        return found.timestamp()


class BackupSettings(ProgramSettings):
    COMMAND = "kcp backup"

    backup: BackupOptions = BackupOptions()
    generic: RootDirectoryOptions = RootDirectoryOptions()
    store: StoreOptions = StoreOptions()
    logging: LoggingOptions = LoggingOptions()


class RestoreSettings(ProgramSettings):
    COMMAND = "kcp restore"

    restore: RestoreOptions = RestoreOptions()
    generic: RootDirectoryOptions = RootDirectoryOptions()
    store: StoreOptions = StoreOptions()
    logging: LoggingOptions = LoggingOptions()
