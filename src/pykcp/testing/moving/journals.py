"""Writers that note every acknowledged state of every object, to be compared with a backup."""

from __future__ import annotations

import json
import threading
import time
from typing import NamedTuple, Self

from pykcp.testing.client import TestClient, eventually
from pykcp.types import Object

MAPS = "/api/v1/namespaces/default/configmaps"
_NAMES = 60
"""How many names a writer uses again and again."""


class ObjectState(NamedTuple):
    """An acknowledged state: the revision and the whole object."""

    revision: int
    obj: Object


class Journal:
    """Some writers create, change and delete config maps until the context ends.

    With a `rate` they make that many writes per second together, otherwise as many as they can.
    """

    def __init__(self, client: TestClient, writers: int = 4, rate: float = 0.0) -> None:
        self._client = client
        self._interval = writers / rate if rate else 0.0
        self.answers: dict[str, list[bytes | None]] = {}
        """The acknowledged objects of each name, in order; None for deletions, whose answer is a
        Status without a revision. They are decoded at the end, so that writers are fast.
        """
        self.taken: list[tuple[float, float]] = []
        """When each write began and how long it took, in seconds."""
        self._stop = threading.Event()
        self._failures: list[BaseException] = []
        self._threads = [threading.Thread(target=self._run, args=(n,)) for n in range(writers)]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()
        if self._failures:
            raise self._failures[0]

    @property
    def count(self) -> int:
        return len(self.taken)

    def _run(self, writer: int) -> None:
        try:
            number, due = 0, time.perf_counter() + self._interval * writer / len(self._threads)
            while not self._stop.wait(max(0.0, due - time.perf_counter())):
                number, due = number + 1, due + self._interval
                began = time.perf_counter()
                self._write(f"w{writer}-{number % _NAMES}", number)
                self.taken.append((began, time.perf_counter() - began))
        except BaseException as error:
            self._failures.append(error)

    def _write(self, name: str, number: int) -> None:
        text = f"text {number} " * 20
        answers = self.answers.setdefault(name, [])
        exists = bool(answers) and answers[-1] is not None
        if exists and number % 7 == 0:
            reply = self._client.delete(f"{MAPS}/{name}")
            assert reply.status == 200, reply
            answers.append(None)
            return
        if exists:
            reply = self._client.patch(f"{MAPS}/{name}", {"data": {"x": text}})
        else:
            reply = self._client.post(MAPS, {"metadata": {"name": name}, "data": {"x": text}})
        assert reply.status in (200, 201), reply
        answers.append(reply.body)

    def wait_for(self, writes: int) -> None:
        eventually(lambda: self.count >= writes or self._failures, 120)
        assert not self._failures, self._failures

    def rate(self, start: float, end: float) -> float:
        """Writes per second that began between two times of `perf_counter`."""
        return sum(start <= began < end for began, _ in self.taken) / (end - start)

    def check(self, revision: int, found: dict[str, Object], *, renumbered: bool = False) -> int:
        """Everything acknowledged up to a revision is there as a whole, and nothing newer.

        A restore into etcd gives new resource versions (`renumbered`). Returns how many objects
        were compared.
        """
        for name, answers in self.answers.items():
            states = [None if one is None else _decoded(one) for one in answers]
            known = [one for one in states if one is not None and one.revision <= revision]
            if name in found:
                assert known, f"{name} was created after revision {revision}"
                expected = known[-1].obj
                assert _comparable(found[name], renumbered) == _comparable(expected, renumbered)
            elif known:
                # deleted after its last known state, and not created again before the revision
                following = states[states.index(known[-1]) + 1 :]
                assert following, f"{name} is missing"
                assert following[0] is None, f"{name} is missing"
        unknown = found.keys() - self.answers.keys()
        assert not unknown, unknown
        return len(self.answers)


def _decoded(body: bytes) -> ObjectState:
    obj = json.loads(body)
    return ObjectState(int(obj["metadata"]["resourceVersion"]), obj)


def _comparable(obj: Object, renumbered: bool) -> Object:
    metadata = dict(obj["metadata"])
    if renumbered:
        del metadata["resourceVersion"]
    return {"metadata": metadata, "data": obj["data"]}


def journaled_maps(client: TestClient) -> dict[str, Object]:
    """The objects of a journal that a server has."""
    items: list[Object] = client.get(MAPS).json["items"]
    return {one["metadata"]["name"]: one for one in items if one["metadata"]["name"][0] == "w"}
