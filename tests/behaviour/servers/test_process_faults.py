"""Processes of a shard that die or are stopped."""

from __future__ import annotations

import os
import pathlib
import signal
import threading
from collections.abc import Iterator

import pytest

from pykcp.testing.client import TestClient, eventually
from pykcp.testing.processes import (
    client_per_process,
    read_metrics,
    ready_processes,
    wait_for_processes,
)
from pykcp.testing.server import ServerProcess, server
from pykcp.types import Object

MAPS = "/api/v1/namespaces/default/configmaps"


@pytest.fixture
def shard() -> Iterator[ServerProcess]:
    with server("--serving-processes=2") as process:
        wait_for_processes(process, 2)
        yield process


def followers(shard: ServerProcess) -> list[int]:
    children = pathlib.Path(f"/proc/{shard.pid}/task/{shard.pid}/children").read_text().split()
    names = {int(pid): pathlib.Path(f"/proc/{pid}/cmdline").read_text() for pid in children}
    return [pid for pid, name in names.items() if "servers.follower" in name]


def is_gone(pid: int) -> bool:
    try:
        return " Z " in pathlib.Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return True


def config_map(name: str) -> Object:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}


def test_a_follower_that_is_killed_is_replaced_and_nothing_acknowledged_is_lost(
    shard: ServerProcess,
) -> None:
    acknowledged: list[str] = []
    stop = threading.Event()

    def write(number: int) -> None:
        """A client that goes on with another connection when it loses one."""
        client = TestClient(shard.client().access, "root")
        count = 0
        while not stop.is_set():
            count += 1
            name = f"writer{number}-{count}"
            try:
                if client.post(MAPS, config_map(name)).status == 201:
                    acknowledged.append(name)
                    assert client.get(f"{MAPS}/{name}").status == 200
            except OSError:
                client.drop()
        client.close()

    writing = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in writing:
        thread.start()
    (victim,) = followers(shard)
    eventually(lambda: len(acknowledged) > 20)
    os.kill(victim, signal.SIGKILL)
    eventually(lambda: followers(shard) not in ([], [victim]))
    wait_for_processes(shard, 2)
    count = len(acknowledged)
    eventually(lambda: len(acknowledged) > count + 20)
    stop.set()
    for thread in writing:
        thread.join()
    for client in client_per_process(shard, 2).values():
        listed = {one["metadata"]["name"] for one in client.get(MAPS).json["items"]}
        assert listed.issuperset(acknowledged)
        client.close()
    assert 'pykcp_serving_process_restarts_total{process="writer"} 1' in read_metrics(shard)


def test_followers_end_with_the_writer(shard: ServerProcess) -> None:
    (follower,) = followers(shard)
    shard.kill()
    eventually(lambda: is_gone(follower))
    shard.start()
    wait_for_processes(shard, 2)


def test_all_processes_finish_what_is_in_progress_when_the_program_is_stopped(
    shard: ServerProcess,
) -> None:
    clients = client_per_process(shard, 2)
    watches = [client.watch(MAPS, timeoutSeconds=60) for client in clients.values()]
    clients["writer"].post(MAPS, config_map("seen"))
    for watch in watches:
        assert next(watch)
    (follower,) = followers(shard)
    os.kill(follower, signal.SIGTERM)  # signals are for the writer
    assert clients["follower-1"].get(f"{MAPS}/seen").status == 200
    assert ready_processes(shard) == 2
    for client in clients.values():
        client.close()
    codes: list[int] = []
    stopping = threading.Thread(target=lambda: codes.append(shard.stop()))
    stopping.start()
    for watch in watches:
        assert all(event["type"] != "ERROR" for event in watch)  # ended, not broken off
    stopping.join()
    assert codes == [0]
    assert is_gone(follower)


def test_a_stopped_follower_does_not_stop_the_others(shard: ServerProcess) -> None:
    clients = client_per_process(shard, 2)
    (follower,) = followers(shard)
    os.kill(follower, signal.SIGSTOP)
    try:
        for number in range(50):
            assert clients["writer"].post(MAPS, config_map(f"n{number}")).status == 201
    finally:
        os.kill(follower, signal.SIGCONT)
    listed = clients["follower-1"].get(MAPS).json["items"]
    assert len([one for one in listed if one["metadata"]["name"].startswith("n")]) == 50
    for client in clients.values():
        client.close()
