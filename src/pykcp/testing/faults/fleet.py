"""An installation whose links can be cut, and load on it whose history is checked."""

from __future__ import annotations

import pathlib
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from pykcp.testing.client import TestClient, eventually
from pykcp.testing.faults.links import Fault, LinkRelay, owner_of
from pykcp.testing.moving.histories import CountingWriter
from pykcp.testing.sharded import Fleet, free_ports
from pykcp.types import Object


class LinkedFleet(Fleet):
    """Its programs reach each other through relays only; tests reach them directly."""

    def __init__(
        self, directory: pathlib.Path, shards: int = 2, shard_flags: Sequence[str] = ()
    ) -> None:
        super().__init__(directory, shards, shard_flags)
        self._relays: dict[str, LinkRelay] = {}
        for process, port in zip(
            self.processes.values(), free_ports(len(self.processes)), strict=True
        ):
            known = process.member.port
            self._relays[process.name] = LinkRelay(port, known, self._client_of)
            words = [
                f"--secure-port={port}" if word == f"--secure-port={known}" else word
                for word in process.member.words
            ]
            process.member = process.member._replace(words=words, port=port)

    def _client_of(self, port: int) -> str:
        return owner_of(
            port, {one.name: one.pid for one in self.processes.values() if one.is_started}
        )

    def fail(self, fault: Fault, *between: str) -> None:
        """Let the links between two programs fail, in both directions."""
        one, other = between
        self._relays[other].fail(fault, one)
        self._relays[one].fail(fault, other)

    def mend(self, *between: str) -> None:
        one, other = between
        self._relays[other].mend(one)
        self._relays[one].mend(other)

    def stop(self) -> None:
        try:
            super().stop()
        finally:
            for relay in self._relays.values():
                relay.close()


@contextmanager
def linked_fleet(directory: pathlib.Path) -> Iterator[LinkedFleet]:
    """A started installation of two shards; stopped at the end."""
    made = LinkedFleet(directory)
    try:
        made.start()
        yield made
    finally:
        made.stop()


class ResumingWatcher:
    """Follows a collection as clients do: a watch that ends is resumed from the last event."""

    def __init__(self, client: TestClient, path: str) -> None:
        self._client, self._path = client, path
        self._version: str = client.get(path).json["metadata"]["resourceVersion"]
        self.created: list[str] = []
        """Names, in the order of their events."""
        self.resumed = 0
        self.expired: list[Object] = []
        """Events that say that the place to resume from is forgotten."""
        self._is_stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._is_stopped.set()

    def _run(self) -> None:
        while not self._is_stopped.wait(0.05):
            try:
                self._follow()
            except (OSError, AssertionError):
                continue  # not answered, or with 502: again
            finally:
                self.resumed += 1

    def _follow(self) -> None:
        events = self._client.watch(self._path, resourceVersion=self._version, timeoutSeconds=3)
        for event in events:
            if event["type"] == "ERROR":
                self.expired.append(event["object"])
                return
            metadata = event["object"]["metadata"]
            self._version = metadata["resourceVersion"]
            if event["type"] == "ADDED":
                self.created.append(metadata["name"])
            if self._is_stopped.is_set():
                return


class ClusterLoad:
    """Writers and a watcher of one logical cluster."""

    def __init__(self, client: TestClient, path: str, writers: int = 2) -> None:
        self._client, self._path = client, path
        self.watcher = ResumingWatcher(client, path)
        self.writers = [CountingWriter(client, path, f"load{n}", 0.02) for n in range(writers)]
        self.watcher.start()
        for writer in self.writers:
            writer.start()

    @property
    def failures(self) -> list[str]:
        return [failure for writer in self.writers for failure in writer.failures]

    @property
    def slowest(self) -> float:
        return max(writer.slowest for writer in self.writers)

    def _seen(self) -> list[str]:
        return [name for name in self.watcher.created if name.startswith("load")]

    def check(self) -> None:
        """End it: all that was acknowledged is there as it was, and the watcher saw each once."""
        for writer in self.writers:
            writer.stop()
        items: list[Object] = self._client.get(self._path).json["items"]
        found = {
            one["metadata"]["name"]: one["metadata"]["resourceVersion"]
            for one in items
            if one["metadata"]["name"].startswith("load")
        }
        acknowledged = {k: v for writer in self.writers for k, v in writer.acknowledged.items()}
        assert acknowledged.items() <= found.items(), acknowledged.keys() - found.keys()
        eventually(lambda: len(self._seen()) >= len(found))
        self.watcher.stop()
        assert sorted(self._seen()) == sorted(found)
        assert not self.watcher.expired
