"""Tasks with an owner: restarted when they fail, reported when they keep failing, stopped in reverse."""

from __future__ import annotations

import asyncio
import logging
import time

import pytest

from pykcp.aio import owner as owners
from pykcp.aio.owner import TaskOwner, spawn, spawn_detached
from pykcp.observe.metrics import Registry
from pykcp.observe.process import process_metrics
from pykcp.server.health import Health


async def forever() -> None:
    await asyncio.Event().wait()


async def until(is_so: object) -> None:
    """Give the loop turns until something is so."""
    assert callable(is_so)
    for _ in range(10_000):
        if is_so():
            return
        await asyncio.sleep(0)
    raise AssertionError("it never came to be")


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Failed tasks are restarted without a pause."""
    monkeypatch.setattr(owners, "_FIRST_PAUSE", 0.0)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time that owners read."""
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


class Flaky:
    """Fails so often, then runs until it is stopped."""

    def __init__(self, failures: int) -> None:
        self.left = failures
        self.runs = 0

    async def run(self) -> None:
        self.runs += 1
        if self.left:
            self.left -= 1
            raise OSError("no disk")
        await forever()


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
            owner.start_restartable(name, body(name))
        await asyncio.sleep(0)
    assert ended == ["third", "second", "first"]


async def test_names_are_unique_while_a_task_runs() -> None:
    """A second task of the same name is refused; a finished one makes room."""
    done = asyncio.Event()

    async def wait() -> None:
        await done.wait()

    async with TaskOwner("test") as owner:
        owner.start_restartable("one", wait)
        with pytest.raises(ValueError, match="task one is already running"):
            owner.start_restartable("one", forever)
        assert owner.is_running("one")
        done.set()
        await until(lambda: not owner.is_running("one"))
        owner.start_restartable("one", forever)


@pytest.mark.usefixtures("at_once")
async def test_a_failed_task_is_restarted(caplog: pytest.LogCaptureFixture) -> None:
    """It is logged with its name and counted; a task that returns is not run again."""
    flaky, runs = Flaky(2), []

    async def once() -> None:
        runs.append(1)

    async with TaskOwner("test") as owner:
        owner.start_restartable("flaky", flaky.run)
        owner.start_restartable("once", once)
        await until(lambda: flaky.runs == 3)
        assert owners.restarts() == {"test/flaky": 2, "test/once": 0}
        assert "flaky" in owner.describe()
        assert not owner.is_running("once")
        assert owners.problem() is None
    assert len(runs) == 1
    assert "task test/flaky failed (1 in a row), restarting it in 0.0 s" in caplog.text
    assert "OSError: no disk" in caplog.text


@pytest.mark.usefixtures("at_once")
async def test_a_task_that_keeps_failing_is_reported(
    clock: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    """After five failures in a row, until it has run for half a minute again."""
    flaky = Flaky(5)
    async with TaskOwner("test") as owner:
        owner.start_restartable("flaky", flaky.run)
        owner.start_restartable("well", forever)
        await until(lambda: flaky.runs == 6)
        assert owners.problem() == "test/flaky failed 5 times in a row: OSError: no disk"
        assert Health().checks("readyz")["tasks"]() == owners.problem()
        assert "tasks" not in Health().checks("livez")
        assert "failing: OSError: no disk" in owners.describe()
        assert "task test/flaky keeps failing: the process is not ready" in caplog.text
        metrics = Registry()
        metrics.add(*process_metrics())
        assert "\npykcp_tasks_failing 1\n" in metrics.exposition()
        assert '\npykcp_task_restarts_total{task="test/flaky"} 5\n' in metrics.exposition()
        clock[0] += 31
        assert owners.problem() is None
        assert "\npykcp_tasks_failing 0\n" in metrics.exposition()


@pytest.mark.usefixtures("at_once")
async def test_a_long_run_ends_a_row_of_failures(clock: list[float]) -> None:
    """A task that fails now and then is not one that keeps failing."""
    runs: list[int] = []

    async def long_runs() -> None:
        runs.append(1)
        clock[0] += 60
        if len(runs) < 10:
            raise OSError("once a minute")
        await forever()

    async with TaskOwner("test") as owner:
        owner.start_restartable("long", long_runs)
        await until(lambda: len(runs) == 10)
        assert owners.problem() is None


async def test_pauses_grow(clock: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    """Twice as long each time, up to half a minute."""
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 10:
            await forever()

    flaky = Flaky(100)
    async with TaskOwner("test") as owner:
        with monkeypatch.context() as patched:
            real = asyncio.sleep
            patched.setattr(owners.asyncio, "sleep", sleep)
            owner.start_restartable("flaky", flaky.run)
            for _ in range(100):
                await real(0)
    assert pauses == [0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30.0, 30.0]


@pytest.mark.usefixtures("at_once")
async def test_something_else_being_cancelled_does_not_end_a_task() -> None:
    """Awaiting what another cancelled is a failure like any other."""
    runs: list[int] = []

    async def await_cancelled() -> None:
        runs.append(1)
        if len(runs) > 1:
            await forever()
        cancelled = asyncio.get_running_loop().create_future()
        cancelled.cancel()
        await cancelled

    async with TaskOwner("test") as owner:
        owner.start_restartable("one", await_cancelled)
        await until(lambda: len(runs) == 2)


async def test_finishing() -> None:
    """Tasks may end by themselves for a while; then they are stopped."""
    ended: list[str] = []
    finishing = asyncio.Event()

    async def quick() -> None:
        await finishing.wait()
        ended.append("quick")

    async def slow() -> None:
        try:
            await forever()
        except asyncio.CancelledError:
            ended.append("slow was cancelled")
            raise

    owner = TaskOwner("test")
    owner.start_restartable("quick", quick)
    owner.start_restartable("slow", slow)
    await asyncio.sleep(0)
    finishing.set()
    await owner.finish(0.01)
    assert ended == ["quick", "slow was cancelled"]


async def test_description() -> None:
    """A line per task: for /debug/tasks."""
    async with TaskOwner("test") as owner:
        owner.start_restartable("one", forever)
        first, second = owners.describe().splitlines()
        assert first == "test: 1 tasks"
        assert second.split()[0] == "one"
        assert second.endswith("restarts 0")
    del owner


async def test_stopping_does_not_swallow_a_cancellation_from_outside() -> None:
    """A task that is cancelled while it stops its own tasks is cancelled."""
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
            owner.start_restartable("stubborn", stubborn)
            await asyncio.sleep(0)

    task = spawn(run(), "run")
    await entered.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_one_shots(caplog: pytest.LogCaptureFixture) -> None:
    """The failure of one that is not awaited is logged with its name; being cancelled is none."""

    async def fail() -> None:
        raise LookupError("broken")

    with pytest.raises(LookupError, match="broken"):
        await spawn(fail(), "awaited")
    detached, cancelled = spawn_detached(fail(), "unawaited"), spawn_detached(forever(), "other")
    cancelled.cancel()
    await until(lambda: detached.done() and cancelled.done())
    await asyncio.sleep(0)
    assert [r.getMessage() for r in caplog.records if r.levelno >= logging.ERROR] == [
        "task unawaited failed"
    ]
    assert "LookupError: broken" in caplog.text
