"""A server for foreign clients, and the clients: found, or built into `.cache`, or skipped."""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import os
import pathlib
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator

import pytest

from pykcp.testing.clusters import make_cluster
from pykcp.testing.kubeconfig import read_access
from pykcp.testing.kubectl import Kubectl, write_kubeconfig
from pykcp.testing.server import ServerProcess, server

HERE = pathlib.Path(__file__).parent
CACHE = HERE.parent.parent / ".cache"
LOGICAL_CLUSTERS = "/apis/core.kcp.io/v1alpha1/logicalclusters"
BUILD_SECONDS = 1800.0
RUN_SECONDS = 100.0

_numbers = itertools.count(1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.client)


@pytest.fixture(scope="session")
def shard() -> Iterator[ServerProcess]:
    """One server for all clients; each test has a logical cluster of its own."""
    with server() as process:
        yield process


@pytest.fixture
def new_kubeconfig(shard: ServerProcess, tmp_path: pathlib.Path) -> Callable[[], pathlib.Path]:
    """Makes a kubeconfig of system:masters in a fresh logical cluster that others may enter too."""

    def make() -> pathlib.Path:
        name = f"clients{next(_numbers)}"
        cluster = make_cluster(shard, name)
        ready = cluster.patch(f"{LOGICAL_CLUSTERS}/cluster/status", {"status": {"phase": "Ready"}})
        assert ready.status == 200, ready
        access = read_access(shard.kubeconfig, "shard-base")
        access = dataclasses.replace(access, path=f"/clusters/{name}")
        folder = tmp_path / name
        folder.mkdir()
        return write_kubeconfig(folder / "kubeconfig", access, folder / "ca.crt")

    return make


@pytest.fixture
def run_client(
    new_kubeconfig: Callable[[], pathlib.Path], tmp_path: pathlib.Path
) -> Callable[..., str]:
    """Runs a program in a fresh logical cluster and the namespace `default`; returns its output."""

    def run(*command: str, **environment: str) -> str:
        kubeconfig = new_kubeconfig()
        done = subprocess.run(
            command,
            env={
                "PATH": os.environ.get("PATH", ""),
                "HOME": str(tmp_path),
                "KUBECONFIG": str(kubeconfig),
                "TEST_NAMESPACE": "default",
                **environment,
            },
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=RUN_SECONDS,
            check=False,
        )
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
        return done.stdout

    return run


def go_programs(folder: pathlib.Path) -> pathlib.Path:
    """The folder with a Go module's programs: built before, or now if that is wished for.

    A cold build takes minutes, so a run of all tests does not start one.
    """
    sources = sorted(p for p in folder.rglob("*") if p.suffix in (".go", ".mod"))
    content = hashlib.sha256(repr(_flags(folder)).encode())
    for source in sources:
        content.update(str(source.relative_to(folder)).encode() + b"\0" + source.read_bytes())
    made = CACHE / "clients-go" / f"{folder.name}-{content.hexdigest()[:16]}"
    if (made / "bin").is_dir():
        return made / "bin"
    go = shutil.which("go")
    if go is None:
        pytest.skip("there is no `go` to build the Go clients with")
    if os.environ.get("PYKCP_BUILD_CLIENTS") != "1":
        pytest.skip("the Go clients are not built yet: scripts/test-clients builds them")
    _build(go, folder, made)
    return made / "bin"


def _flags(folder: pathlib.Path) -> list[str]:
    """Tell the programs their version, as releases are told: v1.36.0 for modules at v0.36.0."""
    found = re.search(r"k8s\.io/client-go v0\.(\S+)", (folder / "go.mod").read_text())
    assert found is not None
    return [f"-ldflags=-X k8s.io/component-base/version.gitVersion=v1.{found.group(1)}"]


def _build(go: str, folder: pathlib.Path, made: pathlib.Path) -> None:
    """Build in a copy: Go writes checksums beside the sources."""
    work = made.with_name(f"{made.name}.{os.getpid()}")
    shutil.copytree(folder, work)
    programs = sorted({f"./{p.parent.relative_to(folder)}" for p in folder.rglob("main.go")})
    own = [p for p in programs if p == "." or not (folder / p / "go.mod").exists()]
    done = subprocess.run(
        [go, "build", "-o", "bin/", *_flags(folder), *own],
        cwd=work,
        env={**os.environ, "GOFLAGS": "-mod=mod -buildvcs=false -p=2", "CGO_ENABLED": "0"},
        capture_output=True,
        text=True,
        timeout=BUILD_SECONDS,
        check=False,
    )
    if done.returncode != 0:
        shutil.rmtree(work)
        pytest.fail(f"go build: {done.stderr}")
    for outdated in set(made.parent.glob(f"{folder.name}-*")) - {work}:
        shutil.rmtree(outdated)
    work.rename(made)


@pytest.fixture(scope="session")
def go_clients() -> pathlib.Path:
    """The folder with the programs under `go/`."""
    return go_programs(HERE / "go")


KUBECTLS = ("current", "path", "debian")


@pytest.fixture(scope="session", params=KUBECTLS)
def kubectl_binary(request: pytest.FixtureRequest) -> str:
    """Each kubectl that can be had: a current one, PATH's, Debian's old one."""
    if request.param == "current":
        given = os.environ.get("PYKCP_KUBECTL")
        return given or str(go_programs(HERE / "go" / "kubectl") / "kubectl")
    if request.param == "path":
        found = shutil.which("kubectl")
    else:
        found = shutil.which(str(CACHE / "clients-debian" / "usr" / "bin" / "kubectl"))
    if found is None:
        pytest.skip(f"there is no such kubectl here ({request.param}): scripts/install-clients")
    return found


@pytest.fixture
def kubectl(kubectl_binary: str, new_kubeconfig: Callable[[], pathlib.Path]) -> Kubectl:
    """A kubectl in a fresh logical cluster."""
    return Kubectl(kubectl_binary, new_kubeconfig())


@pytest.fixture
def other_kubectl(kubectl_binary: str, new_kubeconfig: Callable[[], pathlib.Path]) -> Kubectl:
    """The same kubectl in another logical cluster."""
    return Kubectl(kubectl_binary, new_kubeconfig())
