"""A real etcd for tests and benchmarks, if there is one on this machine."""

from __future__ import annotations

import os
import pathlib
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Sequence

START_SECONDS = 30.0


def find_etcd() -> str | None:
    """The program named by PYKCP_ETCD, or `etcd` on the path."""
    named = os.environ.get("PYKCP_ETCD")
    return shutil.which(named) if named else shutil.which("etcd")


def free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


class EtcdProcess:
    """One etcd server on the loopback; a member of `cluster` (names and peer ports) if given."""

    def __init__(
        self,
        directory: pathlib.Path,
        *,
        name: str = "etcd0",
        cluster: dict[str, int] | None = None,
        tls: dict[str, pathlib.Path] | None = None,
        options: Sequence[str] = (),
    ) -> None:
        self.directory = directory
        self._name = name
        self._tls = tls
        self._options = options
        self.client_port, peer_port = free_ports(2)
        self._cluster = cluster or {name: peer_port}
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{self.client_port}"

    def start(self, *, wait: bool = True) -> None:
        program = find_etcd()
        if program is None:
            raise FileNotFoundError("there is no etcd on this machine")
        self.directory.mkdir(parents=True, exist_ok=True)
        with (self.directory / f"{self._name}.log").open("ab") as log:
            self._process = subprocess.Popen(
                [program, *self._arguments()], stdout=log, stderr=subprocess.STDOUT
            )
        if wait:
            self.wait_until_listening()

    def wait_until_listening(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.client_port), timeout=1).close()
            except OSError:
                if time.monotonic() > deadline or not self.is_running():
                    log = (self.directory / f"{self._name}.log").read_text()[-2000:]
                    raise RuntimeError(f"etcd does not start:\n{log}") from None
                time.sleep(0.02)
            else:
                return

    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def kill(self) -> None:
        """As a crash would."""
        self.signal(signal.SIGKILL)
        if self._process is not None:
            self._process.wait()
            self._process = None

    def signal(self, number: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(number)

    def _arguments(self) -> list[str]:
        peer = f"http://127.0.0.1:{self._cluster[self._name]}"
        members = ",".join(
            f"{name}=http://127.0.0.1:{port}" for name, port in self._cluster.items()
        )
        arguments = [
            f"--name={self._name}", f"--data-dir={self.directory / self._name}",
            f"--listen-client-urls={self.url}", f"--advertise-client-urls={self.url}",
            f"--listen-peer-urls={peer}", f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster={members}", "--log-level=error", *self._options,
        ]  # fmt: skip
        if self._tls:
            arguments += [
                f"--cert-file={self._tls['cert']}", f"--key-file={self._tls['key']}",
                f"--trusted-ca-file={self._tls['ca']}", "--client-cert-auth",
            ]  # fmt: skip
        return arguments
