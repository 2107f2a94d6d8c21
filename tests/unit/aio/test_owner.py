"""Tasks with an owner: started by name, ended in reverse, errors heard."""

from __future__ import annotations

import asyncio

import pytest

from pykcp.aio import owner as owners
from pykcp.aio.owner import TaskOwner


async def forever() -> None:
    await asyncio.Event().wait()


async def gone(owner: TaskOwner, name: str) -> None:
    """Give the loop turns until a finished task is no longer listed."""
    for _ in range(1000):
        if name not in owner.describe():
            return
        await asyncio.sleep(0)
    raise AssertionError(f"{name} is still there")


async def test_a_failure_is_the_owners() -> None:
    """Whoever waits on the owner gets the error of the task that failed."""

    async def fail() -> None:
        raise LookupError("broken")

    async with TaskOwner("test") as owner:
        owner.start("bad", fail)
        with pytest.raises(LookupError, match="broken"):
            await owner.failure()


async def test_tasks_end_in_reverse() -> None:
    """What was started last is stopped first, and each is waited for."""
    ended: list[str] = []

    def body(name: str) -> owners.Body:
        async def run() -> None:
            try:
                await forever()
            finally:
                await asyncio.sleep(0)
                ended.append(name)

        return run

    async with TaskOwner("test") as owner:
        for name in ("first", "second", "third"):
            owner.start(name, body(name))
        await asyncio.sleep(0)
    assert ended == ["third", "second", "first"]


async def test_names_are_unique_while_a_task_runs() -> None:
    """A second task of the same name is refused; a finished one makes room."""
    done = asyncio.Event()
    async with TaskOwner("test") as owner:
        owner.start("one", done.wait)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="task one is already running"):
            owner.start("one", forever)
        done.set()
        await gone(owner, "one")
        owner.start("one", forever)


async def test_restartable_tasks_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """A failing task is run again after a pause that grows; one that ends well is not."""
    monkeypatch.setattr(owners, "_FIRST_PAUSE", 0.0)
    runs: list[int] = []
    finished = asyncio.Event()

    async def flaky() -> None:
        runs.append(1)
        if len(runs) < 3:
            raise OSError("again")
        finished.set()

    async with TaskOwner("test") as owner:
        owner.start_restartable("flaky", flaky)
        await finished.wait()
        await gone(owner, "flaky")
    assert len(runs) == 3


async def test_description() -> None:
    """A line per task: for /debug/tasks."""
    async with TaskOwner("test") as owner:
        owner.start("one", forever)
        first, second = owner.describe().splitlines()
        assert first == "test: 1 tasks"
        assert second.split()[0] == "one"
        assert second.endswith("restarts 0")


async def test_stopping_does_not_swallow_a_cancellation_from_outside() -> None:
    """Who is cancelled while stopping its tasks is cancelled."""
    entered = asyncio.Event()

    async def stubborn() -> None:
        try:
            await forever()
        except asyncio.CancelledError:
            entered.set()
            await asyncio.sleep(0.01)
            raise

    async def run() -> None:
        async with TaskOwner("test") as owner:
            owner.start("stubborn", stubborn)
            await asyncio.sleep(0)

    task = asyncio.ensure_future(run())
    await entered.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
