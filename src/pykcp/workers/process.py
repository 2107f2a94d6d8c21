"""The program of a worker process: one job at a time until the server closes the connection."""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import pathlib
import resource
import signal
import socket
import sys
import time
from collections.abc import Callable
from typing import Any

from pykcp.workers.frames import HEADER, JobResult, decode_job, encode

_NICENESS = 5
"""The event loop comes first where there are fewer cores than processes."""


class WorkerMemoryError(Exception):
    """A job needed more memory than one may have."""


def main(argv: list[str]) -> None:
    """`process FD MEMORY SECONDS`: serve the socket FD.

    With at most MEMORY octets of address space, and SECONDS of CPU time for each job.
    """
    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # meant for the server, which then closes the socket
    _limit_memory(int(argv[1]))
    os.nice(_NICENESS)
    gc.freeze()
    # The server may be killed at any time; then the worker exits silently.
    with (
        contextlib.suppress(ConnectionError),
        socket.socket(fileno=int(argv[0])) as connection,
    ):
        seconds = float(argv[2])
        while (text := _receive(connection)) is not None:
            # SIGPROF ends the process, also in the middle of a long call of the C library.
            signal.setitimer(signal.ITIMER_PROF, seconds)
            result = _work(text)
            signal.setitimer(signal.ITIMER_PROF, 0)
            connection.sendall(result)


def _limit_memory(octets: int) -> None:
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    allowed = octets if hard == resource.RLIM_INFINITY else min(octets, hard)
    resource.setrlimit(resource.RLIMIT_AS, (allowed, hard))


def _receive(connection: socket.socket) -> bytes | None:
    """The next frame; None if the server is gone."""
    head = _read(connection, HEADER.size)
    if head is None:
        return None
    return _read(connection, HEADER.unpack(head)[0])


def _read(connection: socket.socket, size: int) -> bytes | None:
    out = bytearray(size)
    view, got = memoryview(out), 0
    while got < size:
        count = connection.recv_into(view[got:])
        if not count:
            return None
        got += count
    return bytes(out)


def _work(text: bytes) -> bytes:
    began = time.process_time()
    value: Any = None
    error: Exception | None = None
    try:
        job = decode_job(text)
        value = _function(job.function)(*job.args)
    except MemoryError:
        error = WorkerMemoryError("out of memory")
    except Exception as raised:  # raised again in the server
        error = raised
    peak = _peak_memory()
    try:
        return encode(JobResult(value, error, time.process_time() - began, peak))
    except Exception as unfit:  # an error that cannot be pickled is described instead
        described = RuntimeError(f"{error!r} ({unfit})")
        return encode(JobResult(None, described, time.process_time() - began, peak))


def _peak_memory() -> int:
    """Most octets that this process ever held. `getrusage` would count its parent's, too."""
    with pathlib.Path("/proc/self/status").open("rb") as status:
        for line in status:
            if line.startswith(b"VmHWM:"):
                return int(line.split()[1]) * 1024
    return 0


_functions: dict[str, Callable[..., Any]] = {}


def _function(name: str) -> Callable[..., Any]:
    found = _functions.get(name)
    if found is None:
        module, _, attribute = name.partition(":")
        found = _functions[name] = getattr(importlib.import_module(module), attribute)
    return found


if __name__ == "__main__":
    # Results are unpickled under this module's real name, not under __main__.
    from pykcp.workers import process  # noqa: PLW0406

    process.main(sys.argv[1:])
