"""Writers and watchers whose histories are compared: nothing acknowledged is lost or doubled."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pykcp.testing.client import TestClient
from pykcp.types import Object

_TRIES = 300


class CountingWriter:
    """Creates objects one after the other, and counts in one that all writers share."""

    def __init__(
        self, client: TestClient, path: str, name: str, pause_seconds: float = 0.0
    ) -> None:
        self._client, self._path, self._name = client, path, name
        self._pause_seconds = pause_seconds
        self.acknowledged: dict[str, str] = {}
        """Names of objects and their resource versions, as they were answered."""
        self.failures: list[str] = []
        self.slowest = 0.0
        """Seconds until a request was answered, at most."""
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(60)

    def _run(self) -> None:
        number = 0
        while not self._stop.wait(self._pause_seconds):
            self._write(f"{self._name}-{number}")
            number += 1

    def _write(self, name: str) -> None:
        body = {"metadata": {"name": name}}
        for _ in range(_TRIES):
            began = time.monotonic()
            try:
                answer = self._client.post(self._path, body)
            except OSError as error:
                self.failures.append(str(error))
                self._stop.wait(0.05)
                continue
            finally:
                self.slowest = max(self.slowest, time.monotonic() - began)
            if answer.status in (201, 409):
                # After a broken connection, an object may be there though it was not acknowledged.
                if answer.status == 201:
                    self.acknowledged[name] = answer.json["metadata"]["resourceVersion"]
                return
            self.failures.append(f"{answer.status} {answer.body[:200]!r}")
            self._stop.wait(0.05)


class NotingWatcher:
    """Notes the events of one watch, in order."""

    def __init__(self, client: TestClient, path: str, version: str) -> None:
        self._events = client.watch(path, resourceVersion=version)
        self.seen: list[tuple[str, str, str]] = []
        """Type, name and resource version."""
        self.has_ended = False
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def _run(self) -> None:
        for event in self._events:
            metadata: Object = event["object"]["metadata"]
            self.seen.append((event["type"], metadata.get("name", ""), metadata["resourceVersion"]))
        self.has_ended = True

    def names(self) -> list[str]:
        return [name for kind, name, _ in self.seen if kind == "ADDED"]


@contextmanager
def writing(
    make: Callable[[], TestClient], path: str, writers: int
) -> Iterator[list[CountingWriter]]:
    """Some writers at work, each with a client of its own; stopped at the end."""
    made = [CountingWriter(make(), path, f"w{number}") for number in range(writers)]
    for one in made:
        one.start()
    try:
        yield made
    finally:
        for one in made:
            one.stop()
