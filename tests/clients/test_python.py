"""Python's clients, each a program of its own in an environment of their own."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import subprocess
import sysconfig
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from pykcp.testing.client import TestClient, eventually
from pykcp.testing.clusters import make_cluster
from pykcp.testing.kubeconfig import Access, read_access
from pykcp.testing.kubectl import write_kubeconfig
from pykcp.testing.server import ServerProcess

HERE = pathlib.Path(__file__).parent
SOURCE = HERE.parent.parent / "src"
ENVIRONMENT = HERE.parent.parent / ".cache" / "clients-venv"
MAPS = "/api/v1/namespaces/default/configmaps"

pytestmark = pytest.mark.skipif(
    not (ENVIRONMENT / ".made-from").exists(),
    reason="the Python clients are not installed: scripts/install-clients",
)


@pytest.mark.parametrize(
    "program", ["official.py", "official_async.py", "lightkube_client.py", "kr8s_client.py"]
)
def test_everyday_work(program: str, run_client: Callable[..., str]) -> None:
    """Create, read, list, page, watch, patch, apply, delete, elect; and mistakes told as they are."""
    run_client(str(ENVIRONMENT / "bin" / "python"), str(HERE / "python" / program))


def test_adapters_of_our_client(run_client: Callable[..., str]) -> None:
    """One workspace handed to every client; ours comes with its libraries from this environment."""
    path = os.pathsep.join((str(SOURCE), sysconfig.get_path("purelib")))
    run_client(
        str(ENVIRONMENT / "bin" / "python"),
        str(HERE / "python" / "adapters.py"),
        PYTHONPATH=path,
    )


def _access(shard: ServerProcess, cluster: str) -> Access:
    access = read_access(shard.kubeconfig, "shard-base")
    return dataclasses.replace(access, path=f"/clusters/{cluster}")


@pytest.fixture
def watched(shard: ServerProcess) -> TestClient:
    return make_cluster(shard, "kopf")


@pytest.fixture
def operator(
    shard: ServerProcess, watched: TestClient, tmp_path: pathlib.Path
) -> Iterator[Callable[[], str]]:
    """A running kopf operator; called, it tells what it has logged."""
    kubeconfig = write_kubeconfig(
        tmp_path / "kubeconfig", _access(shard, "kopf"), tmp_path / "ca.crt"
    )
    with _running(kubeconfig, tmp_path / "log") as log:
        yield log


@contextmanager
def _running(kubeconfig: pathlib.Path, log: pathlib.Path) -> Iterator[Callable[[], str]]:
    command = [
        str(ENVIRONMENT / "bin" / "kopf"),
        "run",
        "--namespace=default",
        "--standalone",
        str(HERE / "python" / "kopf_operator.py"),
    ]
    environment = {**os.environ, "KUBECONFIG": str(kubeconfig)}
    with log.open("w") as output:
        process = subprocess.Popen(command, env=environment, stdout=output, stderr=output)
    try:
        yield log.read_text
        assert process.poll() is None, log.read_text()
    finally:
        process.terminate()
        process.wait(30)


def test_kopf_operator(watched: TestClient, operator: Callable[[], str]) -> None:
    """Handlers of creation, change and deletion run; their state is kept in annotations."""
    made = watched.post(
        MAPS, {"metadata": {"name": "one", "labels": {"app": "kopf"}}, "data": {"step": "1"}}
    )
    assert made.status == 201, made

    def seen() -> str | None:
        annotations = watched.get(f"{MAPS}/one").json["metadata"].get("annotations", {})
        answer: str | None = annotations.get("pykcp.test/seen")
        return answer

    def has_seen(what: str) -> Callable[[], bool]:
        return lambda: seen() == what

    eventually(has_seen("created 1"), 30)
    metadata = watched.get(f"{MAPS}/one").json["metadata"]
    assert metadata["finalizers"] == ["pykcp.test/kopf"]
    assert "pykcp.test/last-handled-configuration" in metadata["annotations"]

    assert watched.patch(f"{MAPS}/one", {"data": {"step": "2"}}).status == 200
    eventually(has_seen("updated 1 to 2"), 30)
    events = watched.get("/api/v1/namespaces/default/events").json["items"]
    assert "Handled" in {event["reason"] for event in events}, operator()

    assert watched.delete(f"{MAPS}/one").status == 200
    eventually(lambda: watched.get(f"{MAPS}/one").status == 404, 30)
    assert watched.get(f"{MAPS}/one-was-deleted").status == 200


def test_kopf_carries_on(shard: ServerProcess, tmp_path: pathlib.Path) -> None:
    """What happened while the operator was away is handled when it is back."""
    cluster = make_cluster(shard, "kopf-away")
    kubeconfig = write_kubeconfig(
        tmp_path / "kubeconfig", _access(shard, "kopf-away"), tmp_path / "ca.crt"
    )

    def seen() -> str:
        annotations = cluster.get(f"{MAPS}/one").json["metadata"].get("annotations", {})
        return str(annotations.get("pykcp.test/seen"))

    body = {"metadata": {"name": "one", "labels": {"app": "kopf"}}, "data": {"step": "1"}}
    with _running(kubeconfig, tmp_path / "first.log"):
        assert cluster.post(MAPS, body).status == 201
        eventually(lambda: seen() == "created 1", 30)
    assert cluster.patch(f"{MAPS}/one", {"data": {"step": "2"}}).status == 200
    assert cluster.delete(f"{MAPS}/one").json["metadata"]["deletionTimestamp"]
    with _running(kubeconfig, tmp_path / "second.log"):
        eventually(lambda: cluster.get(f"{MAPS}/one").status == 404, 30)
        assert cluster.get(f"{MAPS}/one-was-deleted").status == 200
