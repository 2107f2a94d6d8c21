"""The first stage: parts that know nothing of objects."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import NamedTuple

from pykcp.aio.costs import payer
from pykcp.observe.metrics import Gauge, Registry
from pykcp.observe.process import process_metrics
from pykcp.programs.shard.credentials import Credentials
from pykcp.programs.shard.egress import Egress, make_egress
from pykcp.programs.shard.settings import ShardSettings
from pykcp.server.health import Health
from pykcp.workers.pool import WorkerPool


class BackgroundTask(NamedTuple):
    """Something that a stage has to have run as long as the process."""

    name: str
    run: Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Foundation:
    settings: ShardSettings
    credentials: Credentials
    metrics: Registry
    health: Health
    egress: Egress
    workers: WorkerPool | None
    tasks: tuple[BackgroundTask, ...]

    def has(self, gate: str) -> bool:
        """Whether a feature is on."""
        return gate in self.settings.features.gates


def build_foundation(settings: ShardSettings, credentials: Credentials) -> Foundation:
    metrics = Registry()
    metrics.add(*process_metrics())
    egress = make_egress(settings, metrics)
    tasks = [BackgroundTask(f"egress-{name}", out.run) for name, out in egress.named()]
    workers = _worker_pool(settings, metrics)
    if workers is not None:
        tasks.append(BackgroundTask("workers", workers.serve))
    health = Health(is_fair=settings.fairness.fairness)
    return Foundation(settings, credentials, metrics, health, egress, workers, tuple(tasks))


def _worker_pool(settings: ShardSettings, metrics: Registry) -> WorkerPool | None:
    """Processes that compute large requests; None if they are switched off."""
    if not settings.workers.pool.processes:
        return None
    pool = WorkerPool(settings.workers.pool, _charge_request)
    metrics.add(
        Gauge("pykcp_worker_processes", "Worker processes.", lambda: pool.processes),
        Gauge("pykcp_worker_jobs_waiting", "Jobs waiting for a worker.", lambda: pool.waiting),
        Gauge("pykcp_worker_jobs_total", "Jobs completed by workers.", lambda: pool.jobs),
        Gauge(
            "pykcp_worker_cpu_seconds_total",
            "CPU time of worker jobs.",
            lambda: pool.cpu_seconds,
        ),
        Gauge(
            "pykcp_worker_failures_total",
            "Workers that crashed or were killed because a job took too long.",
            lambda: pool.failures,
        ),
    )
    return pool


def _charge_request(_tenant: str, seconds: float) -> None:
    # Jobs run in the context of their request, which knows who pays.
    payer().charge(seconds)
