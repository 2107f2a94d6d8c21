"""Conversion webhooks of large objects: a worker process asks, the server calls.

A worker has no connections. Where its job needs a conversion, the job ends with the question, and
is run again with the answer. Since a job has no effects, it comes to the same question again and
finds the answer there; the next question is a new one.
"""

from __future__ import annotations

import uuid
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar

from pykcp.registry.clock import random_uid
from pykcp.registry.conversion.review import ConversionCallFailed, ConversionEndpoint

Result = TypeVar("Result")


class ConversionAsked(Exception):
    """A job needs an answer of the webhook."""

    def __init__(self, body: bytes, cluster: str) -> None:
        super().__init__(body, cluster)
        self.body, self.cluster = body, cluster


class ConversionAnswer(NamedTuple):
    body: bytes
    failure: str = ""
    """Why there is none."""


class ConversionAnswers(NamedTuple):
    """What the webhook answered to the questions of a job so far, in order."""

    seed: str
    """A UUID, of which those of the questions are made: each time the same."""
    answers: tuple[ConversionAnswer, ...] = ()


class ReplayedCalls:
    """In a worker: stands for the webhook, and knows the answers of one job at a time."""

    def __init__(self) -> None:
        self._given = ConversionAnswers("")
        self._asked = 0

    @contextmanager
    def knowing(self, given: ConversionAnswers) -> Iterator[None]:
        self._given, self._asked = given, 0
        try:
            yield
        finally:
            self._given = ConversionAnswers("")

    def uid(self) -> str:
        if not self._given.seed:
            return random_uid()
        return str(uuid.uuid5(uuid.UUID(self._given.seed), str(self._asked)))

    async def __call__(self, _endpoint: ConversionEndpoint, body: bytes, cluster: str) -> bytes:
        if self._asked == len(self._given.answers):
            raise ConversionAsked(body, cluster)
        answer = self._given.answers[self._asked]
        self._asked += 1
        if answer.failure:
            raise ConversionCallFailed(answer.failure)
        return answer.body


def finished(coroutine: Coroutine[Any, Any, Result]) -> Result:
    """The result of a coroutine that never waits, because all that it needs is known."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        result: Result = end.value
        return result
    coroutine.close()
    raise AssertionError("a job of a worker process cannot wait")
