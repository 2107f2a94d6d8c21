"""The links between a server and the members of its etcd are cut under load."""

from __future__ import annotations

import pathlib
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from pykcp.storage.testing import EtcdProcess, find_etcd, free_ports
from pykcp.testing.client import TestClient, eventually
from pykcp.testing.clusters import make_cluster
from pykcp.testing.faults.fleet import ClusterLoad
from pykcp.testing.faults.links import Fault, LinkRelay
from pykcp.testing.server import ServerProcess

MAPS = "/api/v1/namespaces/default/configmaps"
CUT_SECONDS = 4.0
TAKE_OVER_SECONDS = 8.0
"""Until another member is used."""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        find_etcd() is None, reason="needs etcd: put it on PATH or name it in PYKCP_ETCD"
    ),
]
both = pytest.mark.parametrize("fault", [Fault.RESET, Fault.SILENT], ids=lambda one: one.value)


class Installation:
    """A server that reaches each member of an etcd through a relay of its own."""

    def __init__(self, stack: ExitStack, folder: pathlib.Path, count: int) -> None:
        names = [f"etcd{number}" for number in range(count)]
        cluster = dict(zip(names, free_ports(count), strict=True))
        members = [EtcdProcess(folder / name, name=name, cluster=cluster) for name in names]
        for member in members:
            stack.callback(member.kill)
            member.start(wait=False)
        for member in members:
            member.wait_until_listening()
        self.relays = [stack.enter_context(LinkRelay(one.client_port)) for one in members]
        urls = ",".join(f"http://127.0.0.1:{relay.port}" for relay in self.relays)
        self.server = ServerProcess(folder / "server", [f"--etcd-servers={urls}"])
        stack.callback(self.server.stop)
        self.server.start()

    def load(self) -> ClusterLoad:
        return ClusterLoad(make_cluster(self.server, "loaded"), MAPS)


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as made:
        yield made


def write(client: TestClient, name: str) -> int:
    return client.post(MAPS, {"metadata": {"name": name}}).status


@both
def test_one_member_of_three(stack: ExitStack, tmp_path: pathlib.Path, fault: Fault) -> None:
    """The server goes on with another member, whichever is cut off."""
    found = Installation(stack, tmp_path, 3)
    client = make_cluster(found.server, "steady")
    load = found.load()
    for number, relay in enumerate(found.relays):
        relay.fail(fault)
        time.sleep(1.0)
        eventually(
            lambda name=f"during{number}": write(client, name) in (201, 409), TAKE_OVER_SECONDS
        )
        relay.mend()
    load.check()
    for failure in load.failures:
        assert failure.startswith(("503 ", "504 ")), failure


@both
def test_the_only_member(stack: ExitStack, tmp_path: pathlib.Path, fault: Fault) -> None:
    """Writes are refused and etcd is named; what is stored can be read; then all goes on."""
    found = Installation(stack, tmp_path, 1)
    load = found.load()
    time.sleep(1.0)
    (relay,) = found.relays
    relay.fail(fault)
    eventually(lambda: load.failures)
    anonymous = found.server.client()
    eventually(lambda: b"etcd" in anonymous.get("/readyz").body)
    loaded = found.server.client(cluster="loaded")
    assert loaded.get(f"{MAPS}/load0-0", resourceVersion=0).status == 200
    time.sleep(CUT_SECONDS)
    relay.mend()
    count = len(load.writers[0].acknowledged)
    eventually(lambda: len(load.writers[0].acknowledged) > count, TAKE_OVER_SECONDS)
    load.check()
    for failure in load.failures:
        assert failure.startswith(("503 ", "504 ")), failure
        assert "the store is not available" in failure, failure
