"""Many readers on all servers of a shard, while it is written: none reads older than acknowledged.

`PYKCP_READS` sets the number of reads.
"""

from __future__ import annotations

import os
import pathlib
import random
import threading
from collections.abc import Iterator

import pytest

from pykcp.storage.testing import EtcdProcess, find_etcd
from pykcp.testing.client import TestClient
from pykcp.testing.processes import wait_for_processes
from pykcp.testing.server import ServerProcess

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

MAPS = "/api/v1/namespaces/default/configmaps"
READS = int(os.environ.get("PYKCP_READS", "3000"))
READERS = 4


@pytest.fixture(params=["processes", "etcd"])
def clients_of_all(
    request: pytest.FixtureRequest, tmp_path: pathlib.Path
) -> Iterator[list[TestClient]]:
    """Clients in `root` of three servers, or of a server with three processes."""
    etcd = EtcdProcess(tmp_path / "etcd")
    if request.param == "processes":
        servers = [ServerProcess(tmp_path / "server", ["--serving-processes=3"])]
    elif find_etcd() is None:
        pytest.skip("needs etcd: put it on PATH or name it in PYKCP_ETCD")
    else:
        etcd.start()
        flags = [f"--etcd-servers={etcd.url}"]
        servers = [ServerProcess(tmp_path / f"server{n}", flags) for n in range(3)]
    started = [server.start() for server in servers]
    made: list[TestClient] = []
    try:
        if request.param == "processes":
            wait_for_processes(started[0], 3)
        # Each thread has a connection of its own for each client, so that all processes have some.
        made += [TestClient(each.client().access, "root") for each in (started * 3)[:3]]
        yield made
    finally:
        for client in made:
            client.close()
        for server in started:
            server.stop()
        etcd.kill()


def test_no_read_is_older_than_what_was_acknowledged(clients_of_all: list[TestClient]) -> None:
    assert clients_of_all[0].post(MAPS, {"metadata": {"name": "register"}}).status == 201
    acknowledged = [0]
    is_over = threading.Event()
    stale: list[tuple[int, int]] = []
    done: list[int] = []

    def write() -> None:
        choose, number = random.Random(1), 0
        while not is_over.is_set():
            number += 1
            client = choose.choice(clients_of_all)
            changed = client.patch(f"{MAPS}/register", {"data": {"number": str(number)}})
            assert changed.status == 200, changed
            acknowledged[0] = number

    def read(seed: int) -> None:
        choose, count = random.Random(seed), 0
        for _ in range(READS // READERS):
            known = acknowledged[0]
            client = choose.choice(clients_of_all)
            found = client.get(f"{MAPS}/register")
            assert found.status == 200, found
            number = int((found.json.get("data") or {}).get("number", 0))
            if number < known:
                stale.append((number, known))
            count += 1
        done.append(count)

    writer = threading.Thread(target=write)
    readers = [threading.Thread(target=read, args=(seed,)) for seed in range(READERS)]
    for thread in (writer, *readers):
        thread.start()
    for thread in readers:
        thread.join()
    is_over.set()
    writer.join()
    assert not stale
    assert sum(done) == READERS * (READS // READERS)
    assert acknowledged[0] > 10
