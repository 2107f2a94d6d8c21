"""Settings of the connection to etcd."""

from __future__ import annotations

import pathlib
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class EtcdSettings:
    servers: tuple[str, ...]
    """`http://host:port` or `https://host:port`; the first that answers is used."""
    prefix: str = "/registry"
    """Everything this server keeps in etcd is below this key."""
    certfile: str = ""
    """Client certificate, if etcd asks for one."""
    keyfile: str = ""
    cafile: str = ""
    """Who signed etcd's certificate; empty: whom the system trusts."""
    mirror_path: pathlib.Path | None = None
    """Where the local copy is kept. It may be deleted; then it is fetched again. None: a
    temporary file, fetched at every start."""
    write_seconds: float = 5.0
    """How long a write may take before it is reported as failed."""
    start_seconds: float = 20.0
    """How long `start` waits for etcd."""
    recent_bytes: int = 16 << 20
    """Events kept in memory for watches that start a little in the past."""
    most_bytes: int = 0
    """What may be stored, by the size of the local copy; 0: as much as etcd takes."""
    readers: int = 8
    """Scans that may be under way at once; more wait."""
