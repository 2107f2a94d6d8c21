"""A server under measurement, told by a kubeconfig, and what its processes spend."""

from __future__ import annotations

import base64
import os
import pathlib
import ssl
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import urlsplit

import yaml
from http2client import Connection, connect

_TICK = os.sysconf("SC_CLK_TCK")


@dataclass(slots=True)
class Target:
    """Any Kubernetes-style server."""

    name: str
    host: str
    port: int
    prefix: str
    token: str
    context: ssl.SSLContext
    pids: tuple[int, ...]

    async def connect(self) -> Connection:
        headers = [("accept", "application/json"), ("user-agent", "bench/1")]
        if self.token:
            headers.append(("authorization", f"Bearer {self.token}"))
        return await connect(self.host, self.port, self.context, headers)

    def cpu(self) -> float:
        return processes_cpu(self.pids)

    def memory(self) -> float:
        return processes_memory(self.pids)


def processes_cpu(pids: Iterable[int]) -> float:
    """Seconds of CPU that processes have used."""
    total = 0.0
    for pid in pids:
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        total += (int(fields[11]) + int(fields[12])) / _TICK
    return total


def threads_cpu(pids: Iterable[int]) -> float:
    """The same to the nanosecond, of the threads that run now.

    For measurements of less than a second, which ticks of 10 ms are too coarse for.
    """
    files = (file for pid in pids for file in pathlib.Path(f"/proc/{pid}/task").glob("*/schedstat"))
    return sum(int(file.read_text().split()[0]) for file in files) / 1e9


def processes_memory(pids: Iterable[int]) -> float:
    """Resident memory in MiB."""
    total = 0
    for pid in pids:
        for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                total += int(line.split()[1])
    return total / 1024


def load(path: str, context: str = "", cluster: str = "", pids: str = "", name: str = "") -> Target:
    config = yaml.safe_load(pathlib.Path(path).expanduser().read_text())
    found = {
        k: {e["name"]: e[k[:-1]] for e in config[k]} for k in ("clusters", "contexts", "users")
    }
    chosen = found["contexts"][context or config["current-context"]]
    server, user = found["clusters"][chosen["cluster"]], found["users"][chosen["user"]]
    url = urlsplit(server["server"])
    tls = ssl.create_default_context()
    if "certificate-authority-data" in server:
        tls.load_verify_locations(
            cadata=base64.b64decode(server["certificate-authority-data"]).decode()
        )
    else:
        tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    if "client-certificate-data" in user:
        _load_certificate(tls, user)
    tls.set_alpn_protocols(["h2"])
    prefix = f"/clusters/{cluster}" if cluster else url.path.rstrip("/")
    numbers = tuple(int(p) for p in pids.split(",") if p)
    return Target(
        name or path,
        url.hostname or "",
        url.port or 443,
        prefix,
        user.get("token", ""),
        tls,
        numbers,
    )


def _load_certificate(tls: ssl.SSLContext, user: dict[str, str]) -> None:
    with tempfile.NamedTemporaryFile("wb", suffix=".pem") as file:
        for key in ("client-certificate-data", "client-key-data"):
            file.write(base64.b64decode(user[key]) + b"\n")
        file.flush()
        tls.load_cert_chain(file.name)
