"""Ports of this host: which are free now, and which belong to an installation."""

from __future__ import annotations

import errno
import socket
import sys
import weakref

from pykcp.programs.kit.errors import SettingsError


def is_free(host: str, port: int) -> bool:
    """Whether a program may listen there now."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            if error.errno in (errno.EADDRINUSE, errno.EACCES):
                return False
            raise SettingsError(f"cannot listen on {host}:{port}: {error.strerror}") from error
    return True


class PortClaims:
    """Ports that this process gives to its programs, from before they listen there.

    Two installations that start at the same moment see the same ports free. A claim is an
    abstract Unix socket: the kernel keeps one of a name per network namespace, as it keeps ports,
    and removes it with the process. Systems without such sockets (macOS) grant every claim.
    """

    def __init__(self) -> None:
        self._held: dict[int, socket.socket] = {}
        weakref.finalize(self, _close, self._held)

    def claim(self, port: int) -> bool:
        """False if another process has it."""
        if port in self._held or sys.platform != "linux":
            return True
        claim = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            claim.bind(f"\0pykcp-port-{port}")
        except OSError:
            claim.close()
            return False
        self._held[port] = claim
        return True

    def release(self, port: int) -> None:
        if port in self._held:
            self._held.pop(port).close()


def _close(held: dict[int, socket.socket]) -> None:
    while held:
        held.popitem()[1].close()


def free_port(host: str = "127.0.0.1") -> int:
    """A port that is free now, for a listener that may be anywhere."""
    with socket.socket() as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])
