"""Two servers on one etcd keep the limit on the logical clusters of their shard exactly."""

from __future__ import annotations

import pathlib
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from pykcp.storage.testing import EtcdProcess, find_etcd
from pykcp.testing.client import TestClient, eventually
from pykcp.testing.moving.provisioning import CLUSTERS, LIMIT, OWN_SHARD, clusters_here, wanted
from pykcp.testing.server import ServerProcess
from pykcp.testing.workspaces import LOGICAL_CLUSTER

pytestmark = pytest.mark.skipif(
    find_etcd() is None, reason="needs etcd: put it on PATH or name it in PYKCP_ETCD"
)
BIRTHS = 64


@pytest.fixture
def servers(tmp_path: pathlib.Path) -> Iterator[list[ServerProcess]]:
    """Both know how to reach other shards, so that these may ask them for logical clusters."""
    etcd = EtcdProcess(tmp_path / "etcd")
    etcd.start()
    made = [
        ServerProcess(tmp_path / f"server{n}", [f"--etcd-servers={etcd.url}"]) for n in range(2)
    ]
    try:
        for server in made:
            server.start()
            server.stop()
            copy = server.root / "shards.kubeconfig"
            copy.write_bytes(server.kubeconfig.read_bytes())
            server.flags = (*server.flags, f"--shard-kubeconfig-file={copy}")
        for server in made:
            server.start()
        yield made
    finally:
        for server in made:
            server.stop()
        etcd.kill()


def births(admins: list[TestClient], name: str, count: int) -> Counter[int]:
    """Ask all servers for logical clusters, at the same time; the answers."""

    def ask(number: int) -> int:
        return admins[number % len(admins)].post(CLUSTERS, wanted(f"{name}{number}")).status

    with ThreadPoolExecutor(BIRTHS) as pool:
        return Counter(pool.map(ask, range(count)))


def test_the_limit_is_exact(servers: list[ServerProcess]) -> None:
    admins = [server.client() for server in servers]
    root, before = servers[0].client(cluster="root"), clusters_here(admins[1])

    def allow(more: int) -> None:
        limit = {"metadata": {"annotations": {LIMIT: str(before + more)}}}
        assert root.patch(OWN_SHARD, limit).status == 200

    allow(40)
    assert births(admins, "first", BIRTHS) == {201: 40, 429: BIRTHS - 40}
    assert [clusters_here(admin) - before for admin in admins] == [40, 40]
    # None is refused while there is room.
    allow(40 + BIRTHS)
    assert births(admins, "second", BIRTHS) == {201: BIRTHS}
    assert births(admins, "third", 4) == {429: 4}
    # What is deleted makes room on every server.
    assert admins[0].in_cluster("second0").delete(LOGICAL_CLUSTER).status in (200, 202)
    eventually(lambda: births(admins[1:], "fourth", 1) == {201: 1})
    assert births(admins, "fifth", 4) == {429: 4}
