"""Ports of this host: which are free now."""

from __future__ import annotations

import errno
import socket

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


def free_port(host: str = "127.0.0.1") -> int:
    """A port that is free now, for a listener that may be anywhere."""
    with socket.socket() as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])
