"""Ports of workloads on this host: chosen once, in order, and kept in a file."""

from __future__ import annotations

import errno
import json
import pathlib
import socket

from pykcp.auth.files import write_public
from pykcp.programs.kit.errors import SettingsError

FIRST_PORT = 7443
_LAST_PORT = 65535


class PortRegistry:
    """Ports by name: the same name gets the same port for as long as the file exists."""

    def __init__(self, path: pathlib.Path, first: int = FIRST_PORT) -> None:
        self._path, self._first = path, first
        self._ports: dict[str, int] = _loaded(path)

    def port(self, name: str, host: str = "127.0.0.1") -> int:
        """The port of a name; the lowest that is free on this host when it is first asked for.

        Raises SettingsError if there is none.
        """
        found = self._ports.get(name)
        if found is None:
            taken = set(self._ports.values())
            candidates = range(self._first, _LAST_PORT + 1)
            found = next((n for n in candidates if n not in taken and is_free(host, n)), 0)
            if not found:
                raise SettingsError(f"no free port on {host} for {name}")
            self._ports[name] = found
            self._save()
        return found

    def keep_only(self, names: set[str]) -> None:
        """Forget the ports of names that do not exist any more."""
        gone = self._ports.keys() - names
        for name in gone:
            del self._ports[name]
        if gone:
            self._save()

    def _save(self) -> None:
        write_public(self._path, json.dumps(self._ports, indent=1).encode() + b"\n")


def _loaded(path: pathlib.Path) -> dict[str, int]:
    if not path.exists():
        return {}
    try:
        found = json.loads(path.read_bytes())
        return {str(name): int(port) for name, port in found.items()}
    except (ValueError, AttributeError, TypeError) as error:
        raise SettingsError(f"{path} is not a table of ports: {error}") from error


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
