"""The whole server killed at random moments: what was acknowledged is there, nothing is half."""

from __future__ import annotations

import pathlib
import random
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from pykcp.storage.testing import EtcdProcess, find_etcd
from pykcp.testing.client import TestClient
from pykcp.testing.server import ServerProcess, server

MAPS = "/api/v1/namespaces/default/configmaps"
WRITERS = 4
ROUNDS, MANY = 3, 200
needs_etcd = pytest.mark.skipif(find_etcd() is None, reason="there is no etcd on this machine")


@dataclass
class Writer:
    """Creates, changes and deletes objects of its own, and remembers what was acknowledged."""

    client: TestClient
    number: int
    known: dict[str, str | None] = field(default_factory=dict)
    """By name: the value that was acknowledged last; None: its deletion was."""
    doubtful: set[str] = field(default_factory=set)
    """Names whose last request was not answered: either state will do."""
    attempts: dict[str, set[str | None]] = field(default_factory=dict)
    newest: int = 0
    answered: int = 0

    def run(self, stopping: threading.Event, seed: str) -> None:
        pick = random.Random(seed)
        while not stopping.is_set():
            name = f"w{self.number}-{pick.randint(0, 30)}"
            try:
                self._one(pick, name)
            except OSError:
                return  # the server is gone

    def _one(self, pick: random.Random, name: str) -> None:
        value = str(pick.getrandbits(64)) * 40
        self.doubtful.add(name)
        tried = self.attempts.setdefault(name, set())
        if self.known.get(name) is None:
            tried.add(value)
            reply = self.client.post(MAPS, {"metadata": {"name": name}, "data": _content(value)})
            good = {201}
        elif pick.random() < 0.3:
            tried.add(None)
            reply, value, good = self.client.delete(f"{MAPS}/{name}"), "", {200}
        else:
            tried.add(value)
            reply = self.client.put(
                f"{MAPS}/{name}", {"metadata": {"name": name}, "data": _content(value)}
            )
            good = {200}
        if reply.status >= 500:
            return  # not acknowledged: it may or may not have happened
        assert reply.status in good, reply
        self.known[name] = value or None
        self.doubtful.discard(name)
        tried.clear()
        self.answered += 1
        if value:
            self.newest = max(self.newest, int(reply.json["metadata"]["resourceVersion"]))

    def check(self, found: dict[str, dict[str, Any]]) -> None:
        """Everything acknowledged is as it was; the rest is one of the things it may be."""
        for name in {*self.known, *self.doubtful}:
            data = found.get(name, {}).get("data")
            value = data["a"] if data else None
            if data:
                assert data == _content(data["a"]), f"{name} is half written"
            allowed = {self.known.get(name)}
            if name in self.doubtful:
                allowed |= self.attempts[name]
            assert value in allowed, f"{name} was acknowledged otherwise"
            self.known[name] = value
        self.doubtful.clear()
        self.attempts.clear()


def _content(value: str) -> dict[str, str]:
    """Two places that must agree: an object is written whole or not at all."""
    return {"a": value, "b": value[::-1]}


def read_all(client: TestClient) -> tuple[dict[str, dict[str, Any]], int]:
    listed = client.get(MAPS).json
    found = {i["metadata"]["name"]: i for i in listed["items"]}
    return found, int(listed["metadata"]["resourceVersion"])


def storm(process: ServerProcess, rounds: int, seed: int) -> None:
    """Write, kill, start, compare; again and again on the same directory."""
    pick = random.Random(seed)
    writers = [Writer(process.client(cluster="root"), n) for n in range(WRITERS)]
    for number in range(rounds):
        stopping = threading.Event()
        threads = []
        for writer in writers:
            writer.client = process.client(cluster="root")
            words = (stopping, f"{seed}/{number}/{writer.number}")
            threads.append(threading.Thread(target=writer.run, args=words))
        for thread in threads:
            thread.start()
        stopping.wait(pick.uniform(0.05, 0.3))  # nothing sets it: the moment of the kill
        process.kill()
        for thread in threads:
            thread.join()
        process.start()
        found, version = read_all(process.client(cluster="root"))
        assert version >= max(w.newest for w in writers), "versions went back"
        for writer in writers:
            writer.check(found)
        made = process.client(cluster="root").post(MAPS, {"metadata": {"generateName": "after-"}})
        assert int(made.json["metadata"]["resourceVersion"]) > version
    assert sum(w.answered for w in writers) > rounds
    assert "Traceback" not in process.log()


@pytest.fixture
def on_sqlite(tmp_path: pathlib.Path) -> Iterator[ServerProcess]:
    with server(directory=tmp_path) as process:
        yield process


@pytest.fixture
def on_etcd(tmp_path: pathlib.Path) -> Iterator[ServerProcess]:
    etcd = EtcdProcess(tmp_path / "etcd")
    etcd.start()
    try:
        with server(f"--etcd-servers={etcd.url}", directory=tmp_path) as process:
            yield process
    finally:
        etcd.kill()


def test_kills_on_sqlite(on_sqlite: ServerProcess) -> None:
    """Every acknowledged write survives kill -9; nothing is half; versions only go up."""
    storm(on_sqlite, ROUNDS, 1)


@needs_etcd
def test_kills_on_etcd(on_etcd: ServerProcess) -> None:
    """The same with etcd as the store."""
    storm(on_etcd, ROUNDS, 2)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_hundreds_of_kills_on_sqlite(on_sqlite: ServerProcess) -> None:
    """Two hundred rounds on one directory."""
    storm(on_sqlite, MANY, 3)


@needs_etcd
@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_hundreds_of_kills_on_etcd(on_etcd: ServerProcess) -> None:
    """Two hundred rounds with one etcd."""
    storm(on_etcd, MANY, 4)
