"""A server of one's own for a test: a real process on a free port, gone afterwards."""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.client import HTTPSConnection

from pykcp.testing.client import TestClient, trusting
from pykcp.testing.kubeconfig import Access, read_access

START_SECONDS = 30.0
_COMPILED = pathlib.Path("~/.cache/pykcp/compiled")


class ServerProcess:
    """`kcp start` as a child process; it can be killed and started again on its directory."""

    def __init__(self, root: pathlib.Path, flags: Sequence[str] = ()) -> None:
        self.root = root
        self.flags = tuple(flags)
        self.log_path = root.parent / f"{root.name}.log"
        self._process: subprocess.Popen[bytes] | None = None
        self.port = 0
        self.start_seconds = START_SECONDS
        self._opened: list[HTTPSConnection] = []

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def kubeconfig(self) -> pathlib.Path:
        return self.root / "admin.kubeconfig"

    def start(self) -> ServerProcess:
        """Start and wait until it is ready."""
        port_flags = (
            [f"--secure-port={self.port}"]
            if self.port
            else ["--secure-port=0", "--experimental-bind-free-port"]
        )
        before = self.kubeconfig.stat().st_mtime_ns if self.kubeconfig.exists() else 0
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "pykcp",
                    "start",
                    f"--root-directory={self.root}",
                    "--bind-address=127.0.0.1",
                    *port_flags,
                    *self.flags,
                ],
                stdout=log,
                stderr=log,
                env=environment(),
            )
        try:
            self._wait_until_ready(before)
        except RuntimeError:
            self.kill()  # nobody else knows of it
            raise
        return self

    def _wait_until_ready(self, before: int) -> None:
        deadline = time.monotonic() + self.start_seconds
        while time.monotonic() < deadline:
            assert self._process is not None
            if self._process.poll() is not None:
                raise RuntimeError(f"the server ended at start:\n{self.log()}")
            if self.kubeconfig.exists() and self.kubeconfig.stat().st_mtime_ns != before:
                access = read_access(self.kubeconfig, "shard-base")
                if _is_ready(access):
                    self.port = access.port
                    return
            time.sleep(0.02)
        what = f"the server was not ready in {self.start_seconds} s"
        raise RuntimeError(f"{what}:\n{self.log()[-3000:]}")

    def log(self) -> str:
        return self.log_path.read_text(errors="replace")

    def kill(self) -> None:
        """As a crash: no chance to tidy up."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def stop(self, seconds: float = 20.0) -> int:
        """Ask it to stop; returns its exit code."""
        assert self._process is not None
        for connection in self._opened:
            connection.close()
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        return self._process.wait(seconds)

    def client(self, context: str = "shard-base", cluster: str = "") -> TestClient:
        """A client with a context of the admin kubeconfig, optionally in some logical cluster."""
        return TestClient(read_access(self.kubeconfig, context), cluster, self._opened)


def environment() -> dict[str, str]:
    """For child processes: they find this very package, whether it is installed or not.

    They keep compiled modules, as an installed program has them, wherever that is not allowed
    in the source tree: compiling is most of a start.
    """
    source = str(pathlib.Path(__file__).parents[2])
    path = os.pathsep.join(p for p in (source, os.environ.get("PYTHONPATH", "")) if p)
    made = {**os.environ, "PYTHONPATH": path, "PYTHONUNBUFFERED": "1"}
    if made.pop("PYTHONDONTWRITEBYTECODE", ""):
        made.setdefault("PYTHONPYCACHEPREFIX", str(_COMPILED.expanduser()))
    return made


def _is_ready(access: Access) -> bool:
    connection = HTTPSConnection(access.host, access.port, timeout=5, context=trusting(access.ca))
    try:
        connection.request("GET", "/readyz")
        with connection.getresponse() as reply:
            return reply.status == 200
    except OSError:
        return False
    finally:
        connection.close()


@contextmanager
def server(
    *flags: str, directory: pathlib.Path | None = None, port: int = 0
) -> Iterator[ServerProcess]:
    """A ready server, on a free port unless told otherwise; stopped and removed at the end."""
    with tempfile.TemporaryDirectory(prefix="pykcp-") as temporary:
        root = (directory or pathlib.Path(temporary)) / ".kcp"
        process = ServerProcess(root, flags)
        process.port = port
        process.start()
        try:
            yield process
        finally:
            process.stop()
