"""What a kubelet does, for one Deployment: files from Secrets, the program, its probes."""

from __future__ import annotations

import base64
import pathlib
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from tests.behaviour.operator.program import OperatorNamespace

from pykcp.testing.server import environment
from pykcp.types import Object

_MODULES = {
    "/kcp": "pykcp",
    "/kcp-front-proxy": "pykcp.cli.kcp_front_proxy",
    "/cache-server": "pykcp.cli.cache_server",
    "/virtual-workspaces": "pykcp.cli.virtual_workspaces",
}
_PATHS = ("/etc/kcp-front-proxy", "/etc/kcp/", "/etc/cache-server", "/var/lib/kcp")


@contextmanager
def running_pod(
    namespace: OperatorNamespace, name: str, folder: pathlib.Path, port: int
) -> Iterator[subprocess.Popen[bytes]]:
    """The container of a Deployment as a process on a port of this machine."""
    root = str(folder / name)
    pod = namespace.deployment(name)["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    mounts = {one["name"]: one["mountPath"] for one in container["volumeMounts"]}
    for volume in pod["volumes"]:
        directory = pathlib.Path(root + mounts[volume["name"]])
        directory.mkdir(parents=True, exist_ok=True)
        for path, content in _files(namespace, volume):
            (directory / path).write_bytes(_moved(content.decode(), root).encode())
    words = [_moved(word, root) for word in container["args"]]
    words += ["--bind-address=127.0.0.1", f"--secure-port={port}"]
    with (folder / f"{name}.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", _MODULES[container["command"][0]], *words],
            stdout=log,
            stderr=log,
            env=environment(),
        )
    try:
        yield process
    finally:
        process.terminate()
        process.wait(20)


def _moved(text: str, root: str) -> str:
    """The same with the paths of the container below a directory."""
    for path in _PATHS:
        text = text.replace(path, f"{root}{path}")
    return text


def _files(namespace: OperatorNamespace, volume: Object) -> Iterator[tuple[str, bytes]]:
    for source in volume.get("projected", {}).get("sources", ()):
        (kind, given), *_ = source.items()
        found = namespace.secret(given["name"]) if kind == "secret" else namespace.config_map(given["name"])  # fmt: skip
        for item in given["items"]:
            value = found["data"][item["key"]]
            yield item["path"], base64.b64decode(value) if kind == "secret" else value.encode()
