"""Which process is meant: a process id alone may belong to another program after a while.

Linux only: `/proc` gives the start time of a process, a pidfd tells when it ends, whether it is
a child of this process or not.
"""

from __future__ import annotations

import asyncio
import os
import pathlib
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass

_PROC = pathlib.Path("/proc")
_STATE, _SESSION, _STARTED, _ENVIRONMENT_END = 0, 3, 19, 48
"""Fields of `/proc/PID/stat`, counted from the one after the name of the program."""
_DEAD = frozenset("ZX")
_LOADING_SECONDS = 5.0
"""How long a process may take to load its program."""


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
            entries = environment(int(path.name)).split(b"\0")
        except OSError:  # another user's, or gone
            continue
        value = next((one[len(prefix) :] for one in entries if one.startswith(prefix)), None)
        if value is not None and (found := identify(int(path.name))) is not None:
            yield found, os.fsdecode(value)


def environment(pid: int) -> bytes:
    """Raises OSError for another user's process.

    A process that has just begun to run another program has no environment until the program is
    loaded, which takes a moment on a busy machine. Its files are closed by then: the lock of the
    supervisor that started it does not tell that there is such a process.
    """
    end = time.monotonic() + _LOADING_SECONDS
    while True:
        is_loading = _is_loading(pid)
        found = (_PROC / str(pid) / "environ").read_bytes()
        if found or not is_loading or time.monotonic() > end:
            return found
        time.sleep(0.001)


def _is_loading(pid: int) -> bool:
    fields = _stat(pid)
    return fields is not None and fields[_STATE] not in _DEAD and fields[_ENVIRONMENT_END] == "0"


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
