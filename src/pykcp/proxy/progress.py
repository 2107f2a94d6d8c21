"""How far a shard is: asked for by many at the same time, one question after the other."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from pykcp.aio.owner import spawn


class ShardProgress:
    """Asks a shard how far it is, for many who want to know."""

    def __init__(self, send: Callable[[int], Coroutine[Any, Any, int]]) -> None:
        self._send = send
        self._asked: asyncio.Task[int] | None = None
        self._wanted = 0
        self._next: asyncio.Future[int] | None = None

    async def ask(self, revision: int) -> int:
        """Only an answer to a question that was asked later than this one counts."""
        self._wanted = max(self._wanted, revision)
        answer = self._next
        if answer is None:
            answer = self._next = asyncio.get_running_loop().create_future()
            if self._asked is None:
                self._send_next()
        return await asyncio.shield(answer)

    def _send_next(self) -> None:
        wanted, self._wanted = self._wanted, 0
        answer, self._next = self._next, None
        assert answer is not None
        self._asked = spawn(self._send(wanted), "progress of a shard")
        self._asked.add_done_callback(lambda asked: self._on_answer(asked, answer))

    def _on_answer(self, asked: asyncio.Task[int], answer: asyncio.Future[int]) -> None:
        self._asked = None
        if asked.cancelled():
            answer.cancel()
        elif (error := asked.exception()) is not None:
            answer.set_exception(error)
            answer.exception()  # those who asked may be gone
        else:
            answer.set_result(asked.result())
        if self._next is not None:
            self._send_next()
