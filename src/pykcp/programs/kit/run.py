"""One way to run a program: logs, event loop, signals, start, readiness, drain, exit code.

A mistake of the user ends the start with one line on standard error and exit code 1; a traceback
is printed for defects only.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Protocol

from pykcp.programs.kit.errors import described, mistake_behind
from pykcp.programs.kit.groups.logging import LoggingOptions
from pykcp.server.documents.version import GIT_VERSION

if TYPE_CHECKING:
    from pykcp.programs.kit.notify import ServiceNotifier

_log = logging.getLogger(__name__)


class ServerProgram(Protocol):
    """A program that can be started and stopped: an asynchronous context."""

    NAME: str

    async def __aenter__(self) -> object:
        """Start, and return when the program is ready. A failed start leaves nothing behind."""

    async def __aexit__(self, *exc: object) -> None:
        """Let requests in progress finish, then stop."""

    def announcement(self) -> Iterable[str]:
        """What to log once the program is ready: where it serves, what to try next."""


def run_program(program: ServerProgram, logs: LoggingOptions, warnings: Iterable[str] = ()) -> int:
    """Run until SIGINT or SIGTERM; the exit code of the process."""
    logs.set_up()
    _log.info("starting %s %s", program.NAME, GIT_VERSION)
    for text in warnings:
        _log.warning("%s", text)
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        try:
            runner.run(_serve(program))
        except Exception as error:
            mistake = mistake_behind(error)
            if mistake is None:
                raise
            _log.debug("the start failed", exc_info=True)
            print(f"Error: {described(mistake)}", file=sys.stderr)  # noqa: T201
            return 1
    return 0


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop's event loop where there is one."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


async def _serve(program: ServerProgram) -> None:
    stopping = asyncio.Event()
    starting = asyncio.current_task()
    loop = asyncio.get_running_loop()

    def stop() -> None:
        if stopping.is_set():
            os._exit(1)  # asked twice: the user does not want to wait for the drain
        stopping.set()
        if starting is not None:
            starting.cancel()  # a start may wait for long, for instance for etcd

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop)
    try:
        await program.__aenter__()
    except asyncio.CancelledError:
        _log.info("stopped before %s was ready", program.NAME)
        return
    starting = None
    notifier = _notifier()
    try:
        for line in program.announcement():
            _log.info("%s", line)
        _log.info("%s is ready", program.NAME)
        if notifier is not None:
            notifier.start()
        await stopping.wait()
        _log.info("stopping")
    finally:
        if notifier is not None:
            notifier.stop()
        await program.__aexit__(None, None, None)


def _notifier() -> ServiceNotifier | None:
    if "NOTIFY_SOCKET" not in os.environ:
        return None
    from pykcp.programs.kit.notify import service_notifier

    return service_notifier()
