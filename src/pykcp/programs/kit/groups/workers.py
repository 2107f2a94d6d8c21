"""Processes that compute large requests; see docs/design/workers.md."""

from __future__ import annotations

from collections.abc import Iterator

from pykcp.programs.kit.checks import not_negative, positive
from pykcp.programs.kit.options import Mapped, MappedGroup
from pykcp.workers.pool import WorkerSettings


class WorkerOptions(MappedGroup):
    TITLE = "Worker processes"
    TABLE = (
        Mapped("worker-processes", "pool.processes",
               "Most processes that compute large requests beside the server; 0: none, so that a large request can delay others."),
        Mapped("worker-job-timeout", "pool.job_seconds",
               "CPU time that a worker process may take for one step of a request."),
        Mapped("worker-idle-timeout", "pool.idle_seconds",
               "How long a worker process without work is kept."),
    )  # fmt: skip

    pool: WorkerSettings = WorkerSettings()

    def problems(self) -> Iterator[str]:
        yield from not_negative("worker-processes", self.pool.processes)
        yield from positive("worker-job-timeout", self.pool.job_seconds)
        yield from not_negative("worker-idle-timeout", self.pool.idle_seconds)
