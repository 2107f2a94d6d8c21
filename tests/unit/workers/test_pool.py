"""Worker processes: started when needed, shared fairly, ended when idle, stuck or too large."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from pykcp.machinery.status import Invalid, StatusError, UnsupportedMediaType, invalid
from pykcp.workers.pool import JobTooLarge, JobTooLong, WorkerDied, WorkerPool, WorkerSettings

_NICENESS_OF_THREAD = "tests.unit.workers.test_pool:niceness_after"


def niceness_after(seconds: float) -> int:
    """A job: the niceness of its thread after so much CPU time."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass
    return os.getpriority(os.PRIO_PROCESS, 0)


def dies_once(mark: str) -> str:
    """A job that the system ends the first time."""
    if not Path(mark).exists():
        Path(mark).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return "done"


@pytest.fixture
async def pool() -> AsyncIterator[WorkerPool]:
    pool = WorkerPool(WorkerSettings(processes=2, idle_seconds=0.1, job_seconds=20))
    yield pool
    await pool.stop()


async def _until(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110
        await asyncio.sleep(0.01)


async def test_no_process_before_the_first_job_and_none_when_idle(pool: WorkerPool) -> None:
    assert pool.processes == 0
    worker = await pool.run("os:getpid")
    assert worker != os.getpid()
    assert pool.processes == 1
    await _until(lambda: pool.processes == 0 and pool._timer is None)
    with pytest.raises(ProcessLookupError):
        os.kill(worker, 0)


async def test_a_worker_is_used_again(pool: WorkerPool) -> None:
    assert await pool.run("os:getpid") == await pool.run("os:getpid")


async def test_errors_come_back_as_they_were(pool: WorkerPool) -> None:
    with pytest.raises(ValueError, match="invalid literal"):
        await pool.run("builtins:int", "x")
    assert await pool.run("builtins:int", "7") == 7


async def test_statuses_come_back_whole(pool: WorkerPool) -> None:
    for error in (
        Invalid.fields("g", "K", "n", [invalid("spec.x", "v", "is wrong")]),
        UnsupportedMediaType(("application/json",)),
        StatusError("odd", code=418, reason="Teapot", details=False),
    ):
        back = await pool.run("copy:copy", error)
        assert type(back) is type(error)
        assert back.to_json() == error.to_json()
        assert str(back) == str(error)


async def test_a_job_that_takes_too_long_is_ended() -> None:
    pool = WorkerPool(WorkerSettings(processes=1, job_seconds=0.5))
    with pytest.raises(JobTooLong):
        await pool.run("time:sleep", 60)
    assert pool.failures == 1
    await pool.stop()


async def test_a_job_that_computes_too_long_is_ended() -> None:
    """The CPU time counts: how long the job waited for a core does not."""
    pool = WorkerPool(WorkerSettings(processes=1, job_seconds=0.5))
    with pytest.raises(JobTooLong):
        await pool.run("builtins:sum", range(10**15))
    assert await pool.run("time:sleep", 0.6) is None
    await pool.stop()


async def test_long_jobs_yield_to_others_and_short_ones_do_not(pool: WorkerPool) -> None:
    own = os.getpriority(os.PRIO_PROCESS, 0)
    assert await pool.run(_NICENESS_OF_THREAD, 0) == own
    assert await pool.run(_NICENESS_OF_THREAD, 0.6) == own + 5
    assert await pool.run(_NICENESS_OF_THREAD, 0) == own


async def test_a_worker_that_dies_fails_only_its_job(pool: WorkerPool) -> None:
    with pytest.raises(WorkerDied):
        await pool.run("os:_exit", 3)
    assert await pool.run("builtins:int", "7") == 7


async def test_a_job_is_done_again_if_its_worker_dies(pool: WorkerPool, tmp_path: Path) -> None:
    mark = tmp_path / "tried"
    assert await pool.run("tests.unit.workers.test_pool:dies_once", str(mark)) == "done"
    assert pool.failures == 1


async def test_a_job_has_bounded_memory() -> None:
    pool = WorkerPool(WorkerSettings(processes=1, memory=512 << 20))
    with pytest.raises(JobTooLarge):
        await pool.run("builtins:bytearray", 1 << 30)
    assert await pool.run("builtins:len", b"abc") == 3
    await pool.stop()


async def test_a_worker_that_grew_is_not_kept() -> None:
    pool = WorkerPool(WorkerSettings(processes=1, keep_memory=64 << 20))
    first = await pool.run("os:getpid")
    assert len(await pool.run("operator:mul", b"x", 100 << 20)) == 100 << 20
    assert await pool.run("os:getpid") != first
    await pool.stop()


async def test_one_tenant_never_has_all_workers(pool: WorkerPool) -> None:
    slow = [asyncio.create_task(pool.run("time:sleep", 0.3, tenant="a")) for _ in range(6)]
    await asyncio.sleep(0)
    await pool.run("builtins:int", "1", tenant="b")
    assert not all(task.done() for task in slow)
    assert sum(task.done() for task in slow) <= 3  # while b's process was started
    await asyncio.gather(*slow)
    assert not pool._tenants
    assert not pool._turns


async def test_waiting_jobs_take_turns_by_tenant() -> None:
    pool = WorkerPool(WorkerSettings(processes=1))
    order: list[str] = []

    async def job(tenant: str) -> None:
        await pool.run("time:sleep", 0, tenant=tenant)
        order.append(tenant)

    await pool.run("time:sleep", 0)
    await asyncio.gather(*(job(tenant) for tenant in "aaaab"))
    assert order.index("b") <= 2
    await pool.stop()


async def test_a_caller_that_gives_up_leaves_the_pool_in_order(pool: WorkerPool) -> None:
    running = asyncio.create_task(pool.run("time:sleep", 0.2, tenant="a"))
    waiting = asyncio.create_task(pool.run("time:sleep", 0.2, tenant="a"))
    await asyncio.sleep(0.05)
    for task in (running, waiting):
        task.cancel()
    await asyncio.gather(running, waiting, return_exceptions=True)
    assert await pool.run("builtins:int", "7", tenant="a") == 7
    await _until(lambda: not pool._tenants)


async def test_cpu_time_is_charged_to_the_tenant() -> None:
    charged: list[tuple[str, float]] = []
    pool = WorkerPool(charge=lambda tenant, seconds: charged.append((tenant, seconds)))
    await pool.run("builtins:sorted", list(range(10)), tenant="a")
    await pool.stop()
    assert [tenant for tenant, _ in charged] == ["a"]
    assert charged[0][1] >= 0
