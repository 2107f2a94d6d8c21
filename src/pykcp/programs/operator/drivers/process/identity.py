"""Which process is meant: a process id alone may belong to another program after a while.

Linux only: `/proc` gives the start time of a process, a pidfd tells when it ends, whether it is
a child of this process or not.
"""

from __future__ import annotations

import asyncio
import os
import pathlib
import signal
from collections.abc import Iterator
from dataclasses import dataclass

_PROC = pathlib.Path("/proc")
_STATE, _SESSION, _STARTED = 0, 3, 19
"""Fields of `/proc/PID/stat`, counted from the one after the name of the program."""
_DEAD = frozenset("ZX")


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """A process of this machine, for as long as it runs."""

    pid: int
    started: int
    """In clock ticks since the machine was started."""
    boot: str
    """Of the machine's start: process ids and ticks begin anew with each."""

    @property
    def is_alive(self) -> bool:
        return identify(self.pid) == self

    def send(self, number: int) -> bool:
        """Send a signal; False if the process has ended."""
        try:
            descriptor = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return False
        try:
            if not self.is_alive:
                return False
            signal.pidfd_send_signal(descriptor, number)
        except ProcessLookupError:
            return False
        finally:
            os.close(descriptor)
        return True

    async def ended(self) -> None:
        """Until the process has ended."""
        try:
            descriptor = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return
        loop = asyncio.get_running_loop()
        end = loop.create_future()

        def readable() -> None:
            if not end.done():
                end.set_result(None)

        loop.add_reader(descriptor, readable)
        try:
            if self.is_alive:  # otherwise the descriptor is that of another process
                await end
        finally:
            loop.remove_reader(descriptor)
            os.close(descriptor)


def identify(pid: int) -> ProcessIdentity | None:
    """The running process with this id."""
    fields = _stat(pid)
    if fields is None or fields[_STATE] in _DEAD:
        return None
    return ProcessIdentity(pid, int(fields[_STARTED]), boot_id())


def boot_id() -> str:
    return (_PROC / "sys/kernel/random/boot_id").read_text().strip()


def _stat(pid: int) -> list[str] | None:
    try:
        text = (_PROC / str(pid) / "stat").read_text(errors="replace")
    except OSError:
        return None
    return text.rpartition(")")[2].split()  # the name of the program may contain anything


def marked_processes(variable: str) -> Iterator[tuple[ProcessIdentity, str]]:
    """Leaders of sessions that have this environment variable, with its value.

    Finds a child whose supervisor was killed before it could record it.
    """
    prefix = f"{variable}=".encode()
    for path in _PROC.iterdir():
        if not path.name.isdigit():
            continue
        fields = _stat(int(path.name))
        if fields is None or fields[_SESSION] != path.name:
            continue
        try:
            entries = (path / "environ").read_bytes().split(b"\0")
        except OSError:  # another user's, or gone
            continue
        value = next((one[len(prefix) :] for one in entries if one.startswith(prefix)), None)
        if value is not None and (found := identify(int(path.name))) is not None:
            yield found, os.fsdecode(value)


def memory(pid: int) -> int:
    """Bytes of memory of a process; pages that it shares count in part. 0 if unknown."""
    try:
        for line in (_PROC / str(pid) / "smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 0


def own_memory(pid: int) -> int:
    """Bytes that a process and its children hold for themselves: not files, nor shared pages."""
    return sum(_unshared(one) for one in (pid, *_children(pid)))


def _unshared(pid: int) -> int:
    try:
        _, resident, shared, *_ = (_PROC / str(pid) / "statm").read_text().split()
    except OSError:
        return 0
    return (int(resident) - int(shared)) * os.sysconf("SC_PAGE_SIZE")


def _children(pid: int) -> Iterator[int]:
    """All processes below one."""
    for path in (_PROC / str(pid) / "task").glob("*/children"):
        try:
            found = path.read_text().split()
        except OSError:
            continue
        for child in map(int, found):
            yield child
            yield from _children(child)
