"""Tells systemd how the program is: ready, alive, stopping (sd_notify(3)).

With `WatchdogSec=` in its unit, systemd restarts a program whose event loop no longer runs.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket

_log = logging.getLogger(__name__)


class ServiceNotifier:
    """Reports to the socket in `NOTIFY_SOCKET`; `start` and `stop` are called in the event loop."""

    def __init__(self, address: str, watchdog_seconds: float = 0.0) -> None:
        """`watchdog_seconds`: systemd expects to hear from the program that often; 0 for never."""
        # A leading @ stands for the zero byte of an abstract address.
        self._address = "\0" + address[1:] if address.startswith("@") else address
        self._pause = watchdog_seconds / 2
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
        self._socket.setblocking(False)
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        self._send("READY=1")
        if self._pause:
            self._beat()

    def _beat(self) -> None:
        self._send("WATCHDOG=1")
        self._timer = asyncio.get_running_loop().call_later(self._pause, self._beat)

    def stop(self) -> None:
        self._send("STOPPING=1")
        if self._timer is not None:
            self._timer.cancel()
        self._socket.close()

    def _send(self, text: str) -> None:
        try:
            self._socket.sendto(text.encode(), self._address)
        except OSError as error:  # the program itself is well
            _log.warning("systemd cannot be told %s: %s", text, error)


def service_notifier() -> ServiceNotifier | None:
    """As systemd has asked for it in the environment, which children do not inherit."""
    address = os.environ.pop("NOTIFY_SOCKET", "")
    period, process = os.environ.pop("WATCHDOG_USEC", ""), os.environ.pop("WATCHDOG_PID", "")
    if not address:
        return None
    is_watched = period.isdigit() and process in ("", str(os.getpid()))
    return ServiceNotifier(address, int(period) / 1e6 if is_watched else 0.0)
