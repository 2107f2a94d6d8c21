"""A quota and two servers on one etcd: neither knows of the other's creates but by the store."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from pykcp.storage.testing import EtcdProcess, find_etcd
from pykcp.testing.client import TestClient, eventually
from pykcp.testing.clusters import make_cluster
from pykcp.testing.server import server

pytestmark = pytest.mark.skipif(
    find_etcd() is None, reason="needs etcd: put it on PATH or name it in PYKCP_ETCD"
)

CM = "/api/v1/namespaces/default/configmaps"
QUOTAS = "/api/v1/namespaces/default/resourcequotas"
COUNT = "count/configmaps"


@pytest.fixture
def clients(tmp_path: pathlib.Path) -> Iterator[tuple[TestClient, TestClient]]:
    """The same logical cluster on two servers."""
    etcd = EtcdProcess(tmp_path / "etcd")
    etcd.start()
    flag = f"--etcd-servers={etcd.url}"
    try:
        with server(flag) as one, server(flag) as other:
            first, second = make_cluster(one, "shared"), other.client(cluster="shared")
            eventually(lambda: second.get(f"{CM}/kube-root-ca.crt").status == 200)
            yield first, second
    finally:
        etcd.kill()


def test_two_servers_do_not_overshoot(clients: tuple[TestClient, TestClient]) -> None:
    first, second = clients
    body = {"metadata": {"name": "q"}, "spec": {"hard": {COUNT: "12"}}}
    assert first.post(QUOTAS, body).status == 201
    eventually(lambda: second.get(f"{QUOTAS}/q").status == 200)

    def create(number: int) -> int:
        return clients[number % 2].post(CM, {"metadata": {"name": f"m{number}"}}).status

    with ThreadPoolExecutor(16) as threads:
        answers = list(threads.map(create, range(80)))
    assert set(answers) == {201, 403}
    assert answers.count(201) == 11
    assert len(first.get(CM).json["items"]) == 12
    for number in range(80):
        first.delete(f"{CM}/m{number}")
    eventually(lambda: second.get(f"{QUOTAS}/q").json["status"]["used"] == {COUNT: "1"})
    assert second.post(CM, {"metadata": {"name": "again"}}).status == 201
