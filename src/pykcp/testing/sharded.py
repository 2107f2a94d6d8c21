"""A whole installation for a test: cache server, shards and front-proxy as real processes."""

from __future__ import annotations

import pathlib
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from http.client import HTTPSConnection

from pykcp.programs.sharded.files import FleetAddresses, FleetFiles
from pykcp.programs.sharded.members import FleetMember, fleet_members
from pykcp.testing.client import TestClient, trusting
from pykcp.testing.kubeconfig import Access
from pykcp.testing.server import START_SECONDS, environment

HOST = "127.0.0.1"


def free_ports(number: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(number)]
        for one in sockets:
            one.bind((HOST, 0))
        return [one.getsockname()[1] for one in sockets]


class FleetProcess:
    """One program of an installation; it can be killed, stopped for a while, and started again."""

    def __init__(self, member: FleetMember, files: FleetFiles) -> None:
        self.member, self._files = member, files
        self.log_path = files.directory / f"{member.name}.log"
        self._process: subprocess.Popen[bytes] | None = None
        self.source = ""
        """The directory of another version's packages; "" for this one."""

    @property
    def name(self) -> str:
        return self.member.name

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def is_started(self) -> bool:
        return self._process is not None

    @property
    def root(self) -> pathlib.Path:
        return self._files.directory / self.member.name

    def log(self) -> str:
        return self.log_path.read_text(errors="replace")

    def launch(self) -> None:
        """Start it without waiting."""
        with self.log_path.open("ab") as out:
            self._process = subprocess.Popen(
                [sys.executable, "-m", self.member.module, *self.member.words],
                stdout=out,
                stderr=out,
                env={**environment(), **({"PYTHONPATH": self.source} if self.source else {})},
            )

    def start(self) -> None:
        """Start it, and wait until it is ready."""
        self.launch()
        self.wait_until_ready()

    def wait_until_ready(self, seconds: float = START_SECONDS) -> None:
        assert self._process is not None
        deadline = time.monotonic() + seconds
        while not self.is_ready():
            if self._process.poll() is not None:
                raise RuntimeError(f"{self.name} ended at start:\n{self.log()[-3000:]}")
            if time.monotonic() > deadline:
                raise RuntimeError(f"{self.name} was not ready in time:\n{self.log()[-3000:]}")
            time.sleep(0.02)

    def is_ready(self) -> bool:
        context = trusting(pathlib.Path(self._files.authority("serving")).read_text())
        connection = HTTPSConnection(HOST, self.member.port, timeout=5, context=context)
        try:
            connection.request("GET", "/readyz")
            with connection.getresponse() as reply:
                return reply.status == 200
        except OSError:
            return False
        finally:
            connection.close()

    def kill(self) -> None:
        """As a crash: no chance to tidy up."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def pause(self) -> None:
        """It neither runs nor closes its connections."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def stop(self, seconds: float = 20.0) -> int:
        """Ask it to stop, if it was started; returns its exit code.

        One that does not stop in time is killed, and the test fails.
        """
        if self._process is None:
            return 0
        if self._process.poll() is None:
            self.resume()
            self._process.send_signal(signal.SIGTERM)
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise


class Fleet:
    """All programs of an installation, by name: `cache`, `root`, `shard-1`, …, `front-proxy`."""

    def __init__(
        self,
        directory: pathlib.Path,
        shards: int = 2,
        shard_flags: Sequence[str] = (),
        proxy_flags: Sequence[str] = (),
    ) -> None:
        proxy, cache, *others = free_ports(shards + 2)
        self.files = FleetFiles(directory, FleetAddresses(HOST, proxy, cache, tuple(others)))
        self.files.make(time.time())
        members = fleet_members(self.files, shard_flags, proxy_flags)
        self.processes = {one.name: FleetProcess(one, self.files) for one in members}
        self._opened: list[HTTPSConnection] = []

    def __getitem__(self, name: str) -> FleetProcess:
        return self.processes[name]

    @property
    def shards(self) -> tuple[str, ...]:
        return self.files.addresses.names

    def start(self, without: Collection[str] = ()) -> None:
        """All of them at once, except those with the names `without`."""
        started = [one for name, one in self.processes.items() if name not in without]
        for process in started:
            process.launch()
        for process in started:
            process.wait_until_ready()

    def stop(self) -> None:
        for connection in self._opened:
            connection.close()
        with ExitStack() as stopping:  # the last one first, and all of them even if one fails
            for process in self.processes.values():
                stopping.callback(process.stop)

    def client(self, name: str = "front-proxy", cluster: str = "", user: str = "") -> TestClient:
        """A client of one program: of the proxy as kcp-admin, of others as a master."""
        user = user or ("kcp-admin" if name == "front-proxy" else "shard-admin")
        authority = pathlib.Path(self.files.authority("serving")).read_text()
        pair = (self.files.certificate(user), self.files.key(user))
        access = Access(HOST, self.processes[name].member.port, "", authority, "", pair)
        return TestClient(access, cluster, self._opened)


@contextmanager
def stopped_fleet(directory: pathlib.Path, shards: int = 2) -> Iterator[Fleet]:
    """An installation of which nothing is started; what a test starts is stopped at the end."""
    made = Fleet(directory, shards)
    try:
        yield made
    finally:
        made.stop()


@contextmanager
def fleet(
    directory: pathlib.Path,
    shards: int = 2,
    shard_flags: Sequence[str] = (),
) -> Iterator[Fleet]:
    """A started installation; stopped at the end."""
    made = Fleet(directory, shards, shard_flags)
    try:
        made.start()
        yield made
    finally:
        made.stop()
