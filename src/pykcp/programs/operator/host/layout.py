"""The files of an installation on this host.

manifests/           the objects, if the installation was begun from a variant
secrets/ configmaps/ what the configuration stage made: certificates, keys, kubeconfigs
kubeconfigs/         a kubeconfig for each Kubeconfig object
<namespace>/<workload>/files, data   what each program reads, and what it keeps
logs/ run/           of the processes
imported/            workloads that were exported on another host
up.json ports.json status.json up.lock up.sock
"""

from __future__ import annotations

import fcntl
import json
import os
import pathlib
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import IO

from pykcp.auth.files import ensure_directory, write_private
from pykcp.programs.kit.errors import SettingsError
from pykcp.programs.operator.compiled import CONFIG_MAP, SECRET, CompiledWorkload
from pykcp.programs.operator.drivers.process.ports import PortClaims, is_free
from pykcp.programs.operator.records import ConfigRecord, Records
from pykcp.types import Object

_FOLDERS = {SECRET: "secrets", CONFIG_MAP: "configmaps"}


@dataclass(frozen=True, slots=True)
class HostChoices:
    """What was asked for when the installation was begun; kept for the next start."""

    manifests: str = ""
    host: str = ""
    """The name of this host in the annotation `operator.kcp.io/host`; "" runs everything."""
    bind_address: str = "127.0.0.1"
    exposed_address: str = "0.0.0.0"  # noqa: S104  # of what a manifest exposes
    first_port: int = 6444
    host_names: tuple[str, ...] = ()
    version: str = ""
    """Of the programs, in place of `image.tag`: set by `kcp upgrade`."""
    metrics_bind_address: str = "0"
    systemd: str = ""
    """The directory of the units, if systemd runs the programs."""
    systemd_user: str = ""


class HostFiles:
    """Paths of an installation, and the small files in its directory."""

    def __init__(self, root: pathlib.Path) -> None:
        self.root = root.absolute()

    @property
    def manifests(self) -> pathlib.Path:
        return self.root / "manifests"

    @property
    def status(self) -> pathlib.Path:
        return self.root / "status.json"

    @property
    def imported(self) -> pathlib.Path:
        return self.root / "imported"

    @property
    def admin_kubeconfig(self) -> pathlib.Path:
        return self.root / "admin.kubeconfig"

    @property
    def log(self) -> pathlib.Path:
        return self.root / "logs" / "up.log"

    def kubeconfig(self, name: str) -> pathlib.Path:
        return self.root / "kubeconfigs" / f"{name}.kubeconfig"

    def make(self) -> None:
        ensure_directory(self.root)

    # -- choices ---------------------------------------------------------------------------------

    def choices(self) -> HostChoices | None:
        found = read_json(self.root / "up.json")
        if found is None:
            return None
        try:
            return HostChoices(**{**found, "host_names": tuple(found["host_names"])})
        except (TypeError, KeyError) as error:
            raise SettingsError(f"{self.root / 'up.json'} is of another version: {error}") from None

    def save_choices(self, choices: HostChoices) -> None:
        write_json(self.root / "up.json", asdict(choices))

    # -- records ---------------------------------------------------------------------------------

    def records(self) -> Records:
        """Secrets and ConfigMaps of earlier runs."""
        found = []
        for folder in _FOLDERS.values():
            for path in sorted((self.root / folder).glob("*.json")):
                obj = read_json(path)
                if obj is not None:
                    found.append(ConfigRecord.from_object(obj))
        return Records(found)

    def save_record(self, record: ConfigRecord, namespace: str) -> None:
        path = self.root / _FOLDERS[record.kind] / f"{record.name}.json"
        write_json(path, record.to_object(namespace))

    def remove_record(self, kind: str, name: str) -> None:
        (self.root / _FOLDERS[kind] / f"{name}.json").unlink(missing_ok=True)

    @contextmanager
    def lock(self) -> Iterator[bool]:
        """Whether this process is the only supervisor of the installation."""
        self.make()
        with (self.root / "up.lock").open("ab") as file:
            yield _is_locked(file)


def _is_locked(file: IO[bytes]) -> bool:
    os.set_inheritable(file.fileno(), False)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def imported_workloads(files: HostFiles) -> list[CompiledWorkload]:
    """Those that another host configures. Raises SettingsError."""
    found = []
    for path in sorted(files.imported.glob("*.json")):
        obj = read_json(path)
        if obj is not None:
            found.append(CompiledWorkload.from_object(obj))
    return found


class SavedPorts(MutableMapping[str, int]):
    """Ports of workloads, kept in a file: the same name has the same port from start to start."""

    def __init__(self, path: pathlib.Path) -> None:
        self._path = path
        self._ports: dict[str, int] = {k: int(v) for k, v in (read_json(path) or {}).items()}

    def __getitem__(self, name: str) -> int:
        return self._ports[name]

    def __setitem__(self, name: str, port: int) -> None:
        self._ports[name] = port
        write_json(self._path, self._ports)

    def __delitem__(self, name: str) -> None:
        del self._ports[name]
        write_json(self._path, self._ports)

    def __iter__(self) -> Iterator[str]:
        return iter(self._ports)

    def __len__(self) -> int:
        return len(self._ports)


def first_free(host: str, port: int, taken: set[int], claims: PortClaims) -> int:
    """The lowest port from this one on that no workload, program or other installation has.

    It is claimed before it is tried, so that a program which listens there meanwhile is seen.
    Raises SettingsError.
    """
    for number in range(port, 65536):
        if number not in taken and claims.claim(number):
            if is_free(host, number):
                return number
            claims.release(number)
    raise SettingsError(f"no port from {port} on is free on {host}")


def read_json(path: pathlib.Path) -> Object | None:
    """None if there is no such file. Raises SettingsError."""
    try:
        found = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise SettingsError(f"{path} cannot be read: {error}") from error
    if not isinstance(found, dict):
        raise SettingsError(f"{path} is not an object")
    return found


def write_json(path: pathlib.Path, value: Object | dict[str, int]) -> None:
    """Raises CredentialError."""
    write_private(path, json.dumps(value, indent=1).encode() + b"\n")
