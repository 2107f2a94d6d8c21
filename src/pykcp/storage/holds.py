"""Writes that wait, or fail, because their logical cluster is being moved to another shard."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from pykcp.storage.errors import MovedAway
from pykcp.storage.keys import part_of
from pykcp.storage.operations import Operation

Answer = Callable[[MovedAway | None], None]
"""Called when the wait is over: with None to go on."""


class Hold:
    """Of one part."""

    __slots__ = ("moved_to", "waiting")

    def __init__(self) -> None:
        self.moved_to = ""
        self.waiting: list[Answer] = []


class Holds:
    """Empty (and false) except while something is moved."""

    def __init__(self) -> None:
        self._held: dict[str, Hold] = {}

    def __bool__(self) -> bool:
        return bool(self._held)

    def hold(self, part: str) -> None:
        self._held.setdefault(part, Hold())

    def release(self, part: str) -> None:
        hold = self._held.pop(part, None)
        for answer in hold.waiting if hold is not None else ():
            answer(None)

    def release_held(self, part: str) -> None:
        """Let them go on, unless they fail because the part has moved."""
        hold = self._held.get(part)
        if hold is not None and not hold.moved_to:
            self.release(part)

    def release_all(self) -> None:
        for part in tuple(self._held):
            self.release(part)

    def refuse(self, part: str, shard: str) -> None:
        hold = self._held.setdefault(part, Hold())
        hold.moved_to = shard
        waiting, hold.waiting = hold.waiting, []
        for answer in waiting:
            answer(MovedAway(part, shard))

    def keeps(self, operations: Sequence[Operation], answer: Answer) -> bool:
        """Whether a transaction has to wait. Raises MovedAway if it cannot succeed any more."""
        found = None
        for operation in operations:
            part = part_of(operation.key)
            hold = self._held.get(part)
            if hold is None:
                continue
            if hold.moved_to:
                raise MovedAway(part, hold.moved_to)
            found = hold
        if found is not None:
            found.waiting.append(answer)
        return found is not None

    async def wait(self, operations: Sequence[Operation]) -> None:
        """Return when a transaction may go on; for stores whose writes are coroutines."""
        while self._held:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

            def answer(error: MovedAway | None, future: asyncio.Future[None] = future) -> None:
                if future.done():
                    return
                if error is None:
                    future.set_result(None)
                else:
                    future.set_exception(error)

            if not self.keeps(operations, answer):
                return
            await future
