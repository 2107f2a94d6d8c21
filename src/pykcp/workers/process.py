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
import threading
import time
from collections.abc import Callable
from typing import Any

from pykcp.workers.frames import HEADER, JobResult, decode_job, encode

_NICENESS = 5
"""Above the server's own. The event loop comes before long jobs where there are fewer cores than processes."""
_SHORT_SECONDS = 0.25
"""CPU time for which a job has the same priority as the event loop."""
_LOOK_SECONDS = 0.05
_STATUS = pathlib.Path("/proc/self/status")
_STACK = 8 << 20
"""As much as the main thread has on most systems: jobs recurse."""


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
    gc.freeze()
    threading.stack_size(_STACK)
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
    if sys.platform == "darwin":
        return  # macOS accepts no limit of address space that is less than what is in use
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
    """The result of a job, which is run in a thread of its own.

    Only a thread can become nice for one job and leave the next its priority: a process that has
    lowered its priority may not raise it again.
    """
    began = time.process_time()
    done: list[bytes] = []
    try:
        job = decode_job(text)
        function = _function(job.function)  # imports: at the server's priority
    except MemoryError:
        return _result(None, WorkerMemoryError("out of memory"), began)
    except Exception as raised:
        return _result(None, raised, began)

    def run() -> None:
        done.append(_run(function, job.args, began))

    thread = threading.Thread(target=run)
    thread.start()
    _yield_to_others(thread)
    thread.join()
    return done[0]


def _run(function: Callable[..., Any], args: tuple[Any, ...], began: float) -> bytes:
    value: Any = None
    error: Exception | None = None
    try:
        value = function(*args)
    except MemoryError:
        error = WorkerMemoryError("out of memory")
    except Exception as raised:  # raised again in the server
        error = raised
    return _result(value, error, began)


def _yield_to_others(thread: threading.Thread) -> None:
    """Make a job nice once it has proved to be long."""
    began = time.process_time()
    while thread.is_alive():
        thread.join(_LOOK_SECONDS)
        if time.process_time() - began > _SHORT_SECONDS:
            _lower_priority(thread)
            return


def _lower_priority(thread: threading.Thread) -> None:
    if sys.platform != "linux":
        return  # threads have no priority of their own there: the number could be a process's
    with contextlib.suppress(ProcessLookupError):  # it has just ended
        own = os.getpriority(os.PRIO_PROCESS, 0)
        os.setpriority(os.PRIO_PROCESS, thread.native_id or 0, own + _NICENESS)


def _result(value: Any, error: Exception | None, began: float) -> bytes:
    peak = _peak_memory()
    try:
        return encode(JobResult(value, error, time.process_time() - began, peak))
    except Exception as unfit:  # an error that cannot be pickled is described instead
        described = RuntimeError(f"{error!r} ({unfit})")
        return encode(JobResult(None, described, time.process_time() - began, peak))


def _peak_memory() -> int:
    """Most octets that this process ever held."""
    try:
        with _STATUS.open("rb") as status:
            for line in status:
                if line.startswith(b"VmHWM:"):
                    return int(line.split()[1]) * 1024
    except FileNotFoundError:
        pass  # no Linux
    # On Linux this would count what the parent held before it started this process.
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


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
