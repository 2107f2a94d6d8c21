"""The supervisor of processes: start, restart, adoption, rolling updates, stop."""

from __future__ import annotations

import asyncio
import os
import pathlib
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

from pykcp.aio.owner import spawn
from pykcp.programs.operator.compiled import CompiledWorkload, InitStep, Probe, Probes
from pykcp.programs.operator.drivers.process.identity import identify
from pykcp.programs.operator.drivers.process.state import (
    BACK_OFF,
    WorkloadReport,
    conditions,
)
from pykcp.programs.operator.drivers.process.supervisor import Supervisor
from pykcp.testing.server import environment

from .conftest import MakeWorkload


@asynccontextmanager
async def supervising(
    directory: pathlib.Path, *wanted: CompiledWorkload
) -> AsyncIterator[Supervisor]:
    made = Supervisor(directory / "up", environment=environment())
    made.adopt(wanted)
    await made.apply(wanted)
    try:
        yield made
    finally:
        await made.stop()


async def until(
    supervisor: Supervisor, condition: Callable[[WorkloadReport], bool]
) -> WorkloadReport:
    """The state of the only workload, when it is as expected."""
    async with asyncio.timeout(60):
        await supervisor.until(lambda: all(condition(one) for one in supervisor.states()))
    return supervisor.states()[0]


def _is_up(state: WorkloadReport) -> bool:
    return state.is_available and len(state.replicas) == state.desired


def _is_failing(state: WorkloadReport) -> bool:
    return any(one.phase == BACK_OFF for one in state.replicas)


async def test_it_starts_a_program_and_stops_it(
    tmp_path: pathlib.Path, make_workload: MakeWorkload
) -> None:
    async with supervising(tmp_path, make_workload("--logging-format=json")) as supervisor:
        state = await until(supervisor, _is_up)
        (replica,) = state.replicas
        assert conditions(state)[0]["reason"] == "ReplicasUp"
        process = identify(replica.pid)
        assert process is not None
        log = tmp_path / "up" / "logs" / "c-cache-server-0.log"
        assert '"msg":"cache-server is ready"' in log.read_text()
    assert not process.is_alive
    assert not list((tmp_path / "up" / "run").glob("*/*.json"))


async def test_a_killed_program_is_restarted(
    tmp_path: pathlib.Path, make_workload: MakeWorkload
) -> None:
    async with supervising(tmp_path, make_workload()) as supervisor:
        first = (await until(supervisor, _is_up)).replicas[0]
        os.kill(first.pid, signal.SIGKILL)
        down = await until(supervisor, lambda state: not state.is_available)
        assert down.replicas[0].exit_code == -signal.SIGKILL
        second = (await until(supervisor, _is_up)).replicas[0]
        assert second.pid != first.pid
        assert second.restarts == 1
        assert second.restart_reason == "ended by signal SIGKILL"


async def test_a_program_that_cannot_start_shows_its_log(
    tmp_path: pathlib.Path, make_workload: MakeWorkload
) -> None:
    async with supervising(tmp_path, make_workload("--no-such-flag")) as supervisor:
        state = await until(supervisor, _is_failing)
        available, crash = conditions(state)[:2]
        assert available["status"] == "False"
        assert crash["type"] == "CrashLoop"
        assert crash["status"] == "True"
        assert "exit code 1" in crash["message"]
        assert "Error: unknown flag: --no-such-flag" in crash["message"]
        # A corrected workload does not wait for the pause to end.
        await supervisor.apply([make_workload()])
        assert (await until(supervisor, _is_up)).replicas[0].restarts == 0


async def test_a_port_in_use_is_named(tmp_path: pathlib.Path, make_workload: MakeWorkload) -> None:
    workload = make_workload()
    with socket.socket() as other:
        other.bind((workload.listen.host, workload.listen.port))
        other.listen()
        async with supervising(tmp_path, workload) as supervisor:
            state = await until(supervisor, _is_failing)
            for one in conditions(state)[:2]:
                assert f"{workload.listen.port} is in use by another program" in one["message"]
            again = await until(supervisor, lambda state: state.replicas[0].phase == "Starting")
            assert "is in use by another program" in conditions(again)[0]["message"]


async def test_a_program_over_its_memory_limit_is_restarted(
    tmp_path: pathlib.Path, make_workload: MakeWorkload
) -> None:
    workload = replace(make_workload(), resources={"limits": {"memory": "4Mi", "cpu": "1"}})
    async with supervising(tmp_path, workload) as supervisor:
        state = await until(supervisor, _is_failing)
        crash = conditions(state)[1]
        assert crash["status"] == "True"
        assert "MiB of memory; resources.limits.memory is 4 MiB" in crash["message"]
        assert "resources.limits.cpu" in conditions(state)[2]["message"]
        # one that it can hold
        await supervisor.apply([replace(workload, resources={"limits": {"memory": "1Gi"}})])
        assert (await until(supervisor, _is_up)).replicas[0].restarts == 0


async def test_the_reason_of_a_restart_stays_visible(
    tmp_path: pathlib.Path, make_workload: MakeWorkload
) -> None:
    """The condition is over as soon as the program is back."""
    workload = replace(make_workload(), resources={"limits": {"memory": "1Gi"}})
    async with supervising(tmp_path, workload) as supervisor:
        pid = (await until(supervisor, _is_up)).replicas[0].pid
        workload = replace(workload, resources={"limits": {"memory": "4Mi"}})
        await supervisor.apply([workload])
        await until(supervisor, _is_failing)
        state = await until(supervisor, lambda state: not _is_failing(state))
        (replica,) = state.replicas
        assert conditions(state)[1]["status"] == "False"
        assert replica.pid != pid
        assert "MiB of memory; resources.limits.memory is 4 MiB" in replica.restart_reason


async def test_a_program_over_its_memory_limit_need_not_be_ready(
    tmp_path: pathlib.Path, make_workload: MakeWorkload
) -> None:
    """One that answers no probe any more may have too little memory to do so."""
    probes = Probes(readiness=Probe("/never", delay=0, period=1, failures=1000))
    workload = make_workload(probes=probes, resources={"limits": {"memory": "4Mi"}})
    async with supervising(tmp_path, workload) as supervisor:
        crash = conditions(await until(supervisor, _is_failing))[1]
        assert "MiB of memory; resources.limits.memory is 4 MiB" in crash["message"]


async def test_programs_survive_their_supervisor_and_are_adopted(
    tmp_path: pathlib.Path, make_workload: MakeWorkload
) -> None:
    workload = make_workload()
    first = Supervisor(tmp_path / "up", environment=environment())
    await first.apply([workload])
    before = (await until(first, _is_up)).replicas[0]
    await first.leave()
    for record in (tmp_path / "up" / "run").glob("*/*.json"):
        record.unlink()  # as if it had been killed before it could write it
    async with supervising(tmp_path, workload) as second:
        after = (await until(second, _is_up)).replicas[0]
        assert after.pid == before.pid
        os.kill(after.pid, signal.SIGKILL)
        down = await until(second, lambda state: not state.is_available)
        assert down.replicas[0].exit_code is None  # it was the child of another process
        assert (await until(second, _is_up)).replicas[0].pid != before.pid


async def test_a_workload_that_is_removed_is_stopped_and_also_after_a_crash(
    tmp_path: pathlib.Path, make_workload: MakeWorkload
) -> None:
    workload = make_workload()
    first = Supervisor(tmp_path / "up", environment=environment())
    await first.apply([workload])
    process = identify((await until(first, _is_up)).replicas[0].pid)
    assert process is not None
    await first.leave()
    async with supervising(tmp_path) as second:
        async with asyncio.timeout(30):
            await process.ended()
        assert second.states() == []


async def test_an_update_replaces_replicas_one_by_one_without_a_gap(
    tmp_path: pathlib.Path, make_shared: MakeWorkload
) -> None:
    port = make_shared().listen.port
    async with supervising(tmp_path, make_shared()) as supervisor:
        before = await until(supervisor, _is_up)
        refused = 0
        newer = make_shared("--v=3")
        await supervisor.apply([newer])

        def is_new(state: WorkloadReport) -> bool:
            return _is_up(state) and state.revision != before.revision

        waiting = spawn(until(supervisor, is_new), "update")
        while not waiting.done():
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.close()
            except ConnectionRefusedError:
                refused += 1
            await asyncio.sleep(0.01)
        after = waiting.result()
        assert refused == 0
        assert not {one.pid for one in before.replicas} & {one.pid for one in after.replicas}
        await supervisor.restart("c-cache-server")
        restarted = await until(
            supervisor, lambda one: _is_up(one) and one.revision != after.revision
        )
        assert not {one.pid for one in after.replicas} & {one.pid for one in restarted.replicas}


async def test_changed_files_do_not_restart_a_program_that_reloads_them(
    tmp_path: pathlib.Path, make_workload: MakeWorkload
) -> None:
    workload = make_workload()
    async with supervising(tmp_path, workload) as supervisor:
        before = (await until(supervisor, _is_up)).replicas[0]
        extra = replace(workload.files[0], content=workload.files[0].content + b"\n")
        await supervisor.apply([replace(workload, files=(extra, *workload.files[1:]))])
        path = pathlib.Path(extra.path)
        await supervisor.until(lambda: path.read_bytes() == extra.content)
        assert (await until(supervisor, _is_up)).replicas[0].pid == before.pid


async def test_steps_before_the_start_must_succeed(
    tmp_path: pathlib.Path, make_workload: MakeWorkload
) -> None:
    def step(code: int) -> InitStep:
        script = f"print('prepared {code}'); raise SystemExit({code})"
        return InitStep("prepare", (sys.executable, "-u", "-c", script))

    workload = make_workload(init=(step(4),))
    async with supervising(tmp_path, workload) as supervisor:
        state = await until(supervisor, _is_failing)
        message = conditions(state)[1]["message"]
        assert "step prepare ended with exit code 4" in message
        assert "prepared 4" in message
        await supervisor.apply([make_workload(init=(step(0),))])
        await until(supervisor, _is_up)


async def test_a_custom_program_and_an_unknown_version(
    tmp_path: pathlib.Path, make_workload: MakeWorkload
) -> None:
    sleeper = make_workload(
        program=sys.executable, probes=Probes(), replicas=2, is_single=False,
    )  # fmt: skip
    sleeper = replace(sleeper, arguments=("-c", "import signal; signal.pause()"))
    async with supervising(tmp_path, sleeper) as supervisor:
        state = await until(supervisor, _is_up)
        assert state.desired == 1
        assert state.ignored == ("replicas (the program cannot share its port)",)
        await supervisor.apply([make_workload(version="v9.9.9")])
        state = await until(supervisor, lambda one: bool(one.problem))
        assert "version v9.9.9 of cache-server is not installed" in conditions(state)[0]["message"]
