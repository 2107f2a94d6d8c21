"""The audit trail, with kube-apiserver's flags, defaults and meanings."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from pykcp.observe.audit.settings import AuditSettings
from pykcp.programs.kit.checks import readable_file
from pykcp.programs.kit.flags import PENDING, Flag, ignored
from pykcp.programs.kit.options import Mapped, MappedGroup

if TYPE_CHECKING:
    from pykcp.observe.audit.trail import AuditTrail


def _sending(plugin: str) -> tuple[Mapped, ...]:
    name, path = f"audit-{plugin}", f"audit.{plugin}"
    return (
        Mapped(f"{name}-mode", f"{path}.batch.mode",
               "How events are sent: batch (asynchronously), blocking (responses wait), blocking-strict (and requests fail that cannot be recorded)."),
        Mapped(f"{name}-batch-buffer-size", f"{path}.batch.buffer_size",
               "Events that may wait to be sent in batch mode; more are dropped, counted and logged."),
        Mapped(f"{name}-batch-max-size", f"{path}.batch.max_size", "Most events in a batch."),
        Mapped(f"{name}-batch-max-wait", f"{path}.batch.max_wait",
               "How long a batch may wait to become full."),
        Mapped(f"{name}-batch-throttle-enable", f"{path}.batch.throttle",
               "Limit the number of batches per second."),
        Mapped(f"{name}-batch-throttle-qps", f"{path}.batch.throttle_qps",
               "Batches per second on average.", "float"),
        Mapped(f"{name}-batch-throttle-burst", f"{path}.batch.throttle_burst",
               "Batches at once after a quiet time."),
        Mapped(f"{name}-truncate-enabled", f"{path}.truncate.enabled",
               "Truncate events that are too large."),
        Mapped(f"{name}-truncate-max-batch-size", f"{path}.truncate.max_batch_size",
               "Most bytes in a batch; larger ones are split."),
        Mapped(f"{name}-truncate-max-event-size", f"{path}.truncate.max_event_size",
               "Most bytes in an event; larger ones lose request and response, and are dropped if that is not enough."),
    )  # fmt: skip


class AuditOptions(MappedGroup):
    TITLE = "Audit"
    OTHER = (
        ignored("audit-log-version", "string", "audit.k8s.io/v1"),
        ignored("audit-webhook-version", "string", "audit.k8s.io/v1"),
        ignored("audit-webhook-batch-initial-backoff", "duration", 10.0, hidden=True),
    )
    TABLE = (
        Mapped("audit-policy-file", "audit.policy_file",
               "File with the audit policy; nothing is recorded without one."),
        Mapped("audit-log-path", "audit.log.path",
               "File to write audit events to; - is standard output."),
        Mapped("audit-log-maxage", "audit.log.max_age",
               "Days that old audit log files are kept; 0 keeps them for ever."),
        Mapped("audit-log-maxbackup", "audit.log.max_backups",
               "Old audit log files that are kept; 0 keeps all."),
        Mapped("audit-log-maxsize", "audit.log.max_size",
               "Megabytes of an audit log file before it is rotated; 0 never rotates it."),
        Mapped("audit-log-compress", "audit.log.compress",
               "Compress old audit log files with gzip."),
        Mapped("audit-log-format", "audit.log.format",
               "Format of the audit log: json or legacy."),
        *_sending("log"),
        Mapped("audit-webhook-config-file", "audit.webhook.config_file",
               "Kubeconfig of a server that audit events are sent to."),
        Mapped("audit-webhook-initial-backoff", "audit.webhook.initial_backoff",
               "Time before a failed send is retried; it grows with every retry."),
        *_sending("webhook"),
    )  # fmt: skip

    audit: AuditSettings = AuditSettings()

    def problems(self) -> Iterator[str]:
        yield from self.audit.problems()
        yield from readable_file("audit-webhook-config-file", self.audit.webhook.config_file)
        path = self.audit.policy_file
        found = list(readable_file("audit-policy-file", path))
        yield from found
        if path and not found:
            yield from _policy_problems(path)

    def make_trail(self) -> AuditTrail | None:
        """The trail, not started; None if nothing is to be recorded."""
        if not self.audit.is_on:
            return None
        from pykcp.observe.audit.trail import make_trail

        return make_trail(self.audit)


def _policy_problems(path: str) -> Iterator[str]:
    from pykcp.observe.audit.policy import PolicyError, load_policy

    try:
        load_policy(path)
    except PolicyError as error:
        yield f"--audit-policy-file: {error}"


class PendingAuditOptions(AuditOptions):
    """For programs that accept the flags of the audit trail and record nothing yet."""

    def flags(self) -> list[Flag]:
        return [replace(flag, effect=flag.effect or PENDING) for flag in super().flags()]
