"""How the units of workloads fare: systemd's word for their processes, and a probe of each."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from pykcp.aio.owner import spawn
from pykcp.programs.operator.compiled import CompiledWorkload
from pykcp.programs.operator.drivers.process import state
from pykcp.programs.operator.drivers.process.commands import can_share_port
from pykcp.programs.operator.drivers.process.ignored import ignored_fields
from pykcp.programs.operator.drivers.process.probing import probe
from pykcp.programs.operator.drivers.process.replica import reached_host
from pykcp.programs.operator.drivers.process.state import ReplicaState, WorkloadReport
from pykcp.programs.operator.drivers.systemd.systemctl import UnitState, unit_states
from pykcp.programs.operator.drivers.systemd.units import health_port, replica_count, unit_name

_LOCAL = "127.0.0.1"
_LIMITED = "resources"
"""systemd limits memory and CPU."""


async def unit_reports(workloads: Sequence[CompiledWorkload]) -> list[WorkloadReport]:
    """The reports that a supervisor would give, as of now."""
    names = [_instance(one, n) for one in workloads for n in range(replica_count(one))]
    states = await asyncio.to_thread(unit_states, names)
    tasks = [spawn(_report(one, states), f"probe of {one.name}") for one in workloads]
    return list(await asyncio.gather(*tasks))


async def _report(workload: CompiledWorkload, states: Mapping[str, UnitState]) -> WorkloadReport:
    count = replica_count(workload)
    replicas = [
        await _replica(workload, number, states.get(_instance(workload, number), UnitState()))
        for number in range(count)
    ]
    ignored = (one for one in ignored_fields(workload) if not one.startswith(_LIMITED))
    return WorkloadReport(
        workload.name,
        workload.component,
        f"{workload.owner.kind}/{workload.owner.name}",
        f"{workload.listen.host}:{workload.listen.port}",
        count,
        workload.restart_revision,
        tuple(replicas),
        "",
        tuple(ignored),
    )


async def _replica(workload: CompiledWorkload, number: int, unit: UnitState) -> ReplicaState:
    host, port = reached_host(workload), workload.listen.port
    if can_share_port(workload):
        host, port = _LOCAL, int(health_port(workload, number))
    what = workload.probes.readiness or workload.probes.startup
    if what is not None:
        problem = (await probe(workload.listen, host, port, what)).problem
    else:
        problem = await _connection_problem(host, port)
    if problem and unit.state not in ("", "active"):
        problem = f"{_instance(workload, number)} is {unit.state}; {problem}"
    return ReplicaState(
        number,
        state.NOT_READY if problem else state.READY,
        workload.restart_revision,
        True,
        unit.pid,
        host,
        port,
        restarts=unit.restarts,
        message=problem,
    )


async def _connection_problem(host: str, port: int) -> str:
    """Of a program without probes: whether it listens."""
    try:
        _, writer = await asyncio.wait_for(asyncio.open_connection(host, port), 5.0)
    except TimeoutError:
        return f"{host}:{port} does not answer"
    except OSError as error:
        return f"{host}:{port}: {error}"
    writer.close()
    return ""


def _instance(workload: CompiledWorkload, number: int) -> str:
    return f"{unit_name(workload)}@{number}.service"
