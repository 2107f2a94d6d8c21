"""Mounted workspaces through the proxy."""

from __future__ import annotations

import pathlib
import tempfile
from collections.abc import Iterator

import pytest

from pykcp.testing.client import TestClient, eventually
from pykcp.testing.front_proxy import FrontProxyProcess, ProxyFiles, front_proxy
from pykcp.testing.mounts import becomes, install_kind, mount, report
from pykcp.testing.server import ServerProcess
from pykcp.testing.workspaces import make_workspace

MAPS = "/api/v1/namespaces/default/configmaps"


@pytest.fixture(scope="module")
def proxy() -> Iterator[FrontProxyProcess]:
    with tempfile.TemporaryDirectory(prefix="pykcp-") as temporary:
        files = ProxyFiles(pathlib.Path(temporary))
        flags = [*files.shard_flags(), "--feature-gates=WorkspaceMounts=true"]
        shard = ServerProcess(files.root / "root", flags).start()
        trusted = f"--requestheader-client-ca-file={files.proxy_ca}"
        try:
            with front_proxy(files, shard, trusted) as process:
                install_kind(process.admin("root"))
                yield process
        finally:
            shard.stop()


@pytest.fixture
def root(proxy: FrontProxyProcess) -> TestClient:
    return proxy.admin("root")


def test_a_mount_of_a_workspace_behind_the_same_proxy(
    proxy: FrontProxyProcess, root: TestClient
) -> None:
    make_workspace(root, "target")
    url = f"https://127.0.0.1:{proxy.port}/clusters/root:target"
    name = mount(root, url)
    becomes(root, name, "Ready")
    mounted = root.in_cluster(f"root:{name}")
    assert mounted.post(MAPS, {"metadata": {"name": "one"}}).status == 201
    assert root.in_cluster("root:target").get(f"{MAPS}/one").status == 200
    alice = proxy.client("alice", cluster=f"root:{name}")
    assert alice.get(MAPS).status == 403  # her name has passed both times


def test_a_mount_that_is_not_available(root: TestClient) -> None:
    name = mount(root, "https://127.0.0.1:1", "Connecting")
    becomes(root, name, "Unavailable")
    for cluster in (f"root:{name}", f"root:{name}:below"):
        reply = root.in_cluster(cluster).get(MAPS)
        assert (reply.status, reply.body) == (503, b"Not available.\n")
    report(root, name, "https://127.0.0.1:1", "Ready")
    becomes(root, name, "Ready")
    assert eventually(lambda: root.in_cluster(f"root:{name}").get(MAPS).status == 502)
    assert root.in_cluster(f"root:{name}:below").get(MAPS).status == 403


def test_a_mount_of_itself(proxy: FrontProxyProcess, root: TestClient) -> None:
    name = mount(root, "https://127.0.0.1:1")
    report(root, name, f"https://127.0.0.1:{proxy.port}/clusters/root:{name}", "Ready")
    becomes(root, name, "Ready")
    assert eventually(lambda: root.in_cluster(f"root:{name}").get(MAPS).status == 508)
