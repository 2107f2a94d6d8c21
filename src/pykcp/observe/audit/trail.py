"""The audit trail of a process: its policy, its backends and its metrics."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine, Sequence
from typing import Any

from pykcp.aio.owner import spawn
from pykcp.observe.audit.lines import legacy
from pykcp.observe.audit.logfile import LogFile, StandardOutput
from pykcp.observe.audit.modes import (
    Awaited,
    Backend,
    BatchedEvents,
    Blocking,
    Failures,
    Truncation,
)
from pykcp.observe.audit.policy import (
    AuditLevel,
    AuditOutcome,
    AuditPolicy,
    PolicyError,
    load_policy,
)
from pykcp.observe.audit.settings import AuditSettings, LogSettings, WebhookSettings
from pykcp.observe.audit.webhook import AuditWebhook, load_target
from pykcp.observe.metrics import Counter, Gauge, Metric

STOP_SECONDS = 5.0
_LABELS = tuple((level.word,) for level in AuditLevel)


class AuditTrail:
    def __init__(
        self, policy: AuditPolicy, backends: Sequence[Backend], failures: Failures | None = None
    ) -> None:
        self.policy = policy
        self._backends = tuple(backends)
        self.waits = any(backend.waits for backend in backends)
        """Whether answers may have to wait for an event to be taken."""
        self._only = self._backends[0] if len(self._backends) == 1 else None
        self._behind: set[asyncio.Task[bool]] = set()
        self._closers: list[Any] = []
        self._failures = failures or Failures()
        self._events = Counter("apiserver_audit_event_total", "Audit events generated.")
        self._levels = Counter(
            "apiserver_audit_level_total", "Requests by audit level.", ("level",)
        )
        self.rejected = Counter(
            "apiserver_audit_requests_rejected_total",
            "Requests rejected because their audit event could not be recorded.",
        )

    @property
    def metrics(self) -> tuple[Metric, ...]:
        return (
            self._events,
            self._levels,
            self.rejected,
            self._failures.total,
            Gauge(
                "pykcp_audit_buffered_events",
                "Audit events waiting in the buffer.",
                lambda: sum(b.waiting for b in self._backends if isinstance(b, BatchedEvents)),
            ),
        )

    def count_level(self, outcome: AuditOutcome) -> None:
        self._levels.add(_LABELS[outcome.level])

    def process(self, line: bytes) -> asyncio.Task[bool] | bool:
        """Pass one event to all backends; False if the request must be rejected.

        A slow delivery continues in the background, even if the request that waits for it is
        cancelled or no request waits for it.
        """
        self._events.add()
        if self._only is not None:
            answer = self._only.process(line)
            return answer if isinstance(answer, bool) else self._started([answer], True)
        answers = [backend.process(line) for backend in self._backends]
        pending = [answer for answer in answers if not isinstance(answer, bool)]
        so_far = False not in answers
        return self._started(pending, so_far) if pending else so_far

    def _started(self, pending: list[Awaitable[bool]], so_far: bool) -> asyncio.Task[bool]:
        task = spawn(_all(pending, so_far), "audit-event")
        self._behind.add(task)
        task.add_done_callback(self._behind.discard)
        return task

    def start(self) -> None:
        for backend in self._backends:
            backend.start()

    async def stop(self, seconds: float = STOP_SECONDS) -> None:
        if self._behind:
            await asyncio.wait(self._behind, timeout=seconds)
        for backend in self._backends:
            await backend.stop(seconds)
        for closer in self._closers:
            closed = closer.close()
            if isinstance(closed, Coroutine):
                await closed


async def _all(pending: list[Awaitable[bool]], so_far: bool) -> bool:
    answers = await asyncio.gather(*pending)
    return so_far and all(answers)


def make_trail(settings: AuditSettings) -> AuditTrail:
    """The trail that the settings ask for. Raises PolicyError."""
    policy = load_policy(settings.policy_file)
    failures = Failures()
    backends: list[Backend] = []
    closers: list[Any] = []
    if settings.log.path:
        sink, backend = _log_backend(settings.log, failures)
        closers.append(sink)
        backends.append(backend)
    if settings.webhook.config_file:
        webhook, backend = _webhook_backend(settings.webhook, failures)
        closers.append(webhook)
        backends.append(backend)
    trail = AuditTrail(policy, backends, failures)
    trail._closers = closers
    return trail


def _log_backend(
    settings: LogSettings, failures: Failures
) -> tuple[LogFile | StandardOutput, Backend]:
    sink = StandardOutput() if settings.path == "-" else LogFile(settings)
    try:
        sink.open()
    except OSError as error:
        raise PolicyError(f"--audit-log-path: {error}") from error
    truncation = Truncation(settings.truncate, failures)

    def write(lines: list[bytes]) -> None:
        sink.write([legacy(line) for line in lines] if settings.format == "legacy" else lines)

    async def write_behind(lines: list[bytes]) -> None:
        await asyncio.to_thread(write, lines)

    if settings.batch.mode == "batch":
        batch = BatchedEvents(
            "log", write_behind, settings.batch, truncation, failures, merges=True
        )
        return sink, batch
    is_strict = settings.batch.mode == "blocking-strict"
    return sink, Blocking("log", write, truncation, failures, is_strict=is_strict)


def _webhook_backend(settings: WebhookSettings, failures: Failures) -> tuple[AuditWebhook, Backend]:
    webhook = AuditWebhook(load_target(settings.config_file), settings.initial_backoff)
    truncation = Truncation(settings.truncate, failures)
    if settings.batch.mode == "batch":
        return webhook, BatchedEvents("webhook", webhook.send, settings.batch, truncation, failures)
    is_strict = settings.batch.mode == "blocking-strict"
    return webhook, Awaited("webhook", webhook.send, truncation, failures, is_strict=is_strict)
