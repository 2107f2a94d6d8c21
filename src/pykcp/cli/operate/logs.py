"""`kcp logs`: the logs of a workload's processes."""

from __future__ import annotations

import asyncio
import pathlib
import re
import sys

from pykcp.cli.operate.words import Given, HostCommand
from pykcp.programs.kit.flags import Flag


def _logs(given: Given) -> int:
    from pykcp.programs.kit.errors import SettingsError

    directory = given.root / "logs"
    everything = sorted(directory.glob("*.log"))
    paths = [path for path in everything if not given.words or _is_of(path, given.words[0])]
    if not paths:
        names = ", ".join(path.stem for path in everything)
        if not names:
            raise SettingsError(f"nothing has run in {given.root} yet; see: kcp up --help")
        raise SettingsError(f"no log of {' '.join(given.words)}; there are: {names}")
    offsets = {path: _print_last(path, given.flags["tail"], len(paths) > 1) for path in paths}
    if given.flags["follow"]:
        asyncio.run(_follow(offsets))
    return 0


def _is_of(path: pathlib.Path, name: str) -> bool:
    """Whether a log is that of a replica (`root-kcp-0`), or of a workload (`root-kcp`)."""
    return path.stem == name or re.fullmatch(re.escape(name) + r"-\d+", path.stem) is not None


def _print_last(path: pathlib.Path, count: int, with_name: bool) -> int:
    data = path.read_bytes()
    lines = data.decode(errors="replace").splitlines()
    for line in lines if count < 0 else lines[len(lines) - min(count, len(lines)) :]:
        print(f"{path.stem}: {line}" if with_name else line)
    sys.stdout.flush()
    return len(data)


async def _follow(offsets: dict[pathlib.Path, int]) -> None:
    await asyncio.gather(*(_follow_one(p, n, len(offsets) > 1) for p, n in offsets.items()))


async def _follow_one(path: pathlib.Path, offset: int, with_name: bool) -> None:
    from pykcp.programs.operator.drivers.process.logfiles import follow

    unfinished = b""
    async for piece in follow(path, offset):
        *lines, unfinished = (unfinished + piece).split(b"\n")
        for line in lines:
            text = line.decode(errors="replace")
            print(f"{path.stem}: {text}" if with_name else text, flush=True)


LOGS = HostCommand(
    "Print the logs of a workload's processes; of all, and of the supervisor, if none is named.\n\n"
    "Usage:\n  kcp logs [WORKLOAD | REPLICA] [flags]\n",
    _logs,
    (
        Flag("follow", "bool", False, "Go on printing what is logged."),
        Flag("tail", "int", -1, "Print only so many of the last lines; -1 prints all."),
    ),
    {"f": "follow"},
    most=1,
)
