"""The flags of the audit trail, with kube-apiserver's names, defaults and meanings."""

from __future__ import annotations

from typing import Any

from pykcp.cli.flags import Flag
from pykcp.observe.audit.settings import (
    LOG_BATCH,
    AuditSettings,
    BatchSettings,
    LogSettings,
    TruncateSettings,
    WebhookSettings,
)


def _batch_flags(plugin: str, defaults: BatchSettings) -> list[Flag]:
    name = f"audit-{plugin}"
    return [
        Flag(
            f"{name}-mode",
            "string",
            defaults.mode,
            "How events are sent: batch (behind the requests' backs), blocking (answers wait), blocking-strict (and requests fail that cannot be recorded).",
        ),
        Flag(
            f"{name}-batch-buffer-size",
            "int",
            defaults.buffer_size,
            "Events that may wait to be sent in batch mode; more are dropped, counted and logged.",
        ),
        Flag(f"{name}-batch-max-size", "int", defaults.max_size, "Events in a batch at most."),
        Flag(
            f"{name}-batch-max-wait",
            "duration",
            defaults.max_wait,
            "How long a batch may wait to become full.",
        ),
        Flag(
            f"{name}-batch-throttle-enable",
            "bool",
            defaults.throttle,
            "Limit the number of batches per second.",
        ),
        Flag(
            f"{name}-batch-throttle-qps",
            "float",
            defaults.throttle_qps,
            "Batches per second on average.",
        ),
        Flag(
            f"{name}-batch-throttle-burst",
            "int",
            defaults.throttle_burst,
            "Batches at once after a quiet time.",
        ),
    ]


def _truncate_flags(plugin: str) -> list[Flag]:
    name, defaults = f"audit-{plugin}-truncate", TruncateSettings()
    return [
        Flag(f"{name}-enabled", "bool", defaults.enabled, "Shorten events that are too large."),
        Flag(
            f"{name}-max-batch-size",
            "int",
            defaults.max_batch_size,
            "Bytes in a batch at most; larger ones are split.",
        ),
        Flag(
            f"{name}-max-event-size",
            "int",
            defaults.max_event_size,
            "Bytes in an event at most; larger ones lose request and response, and are dropped if that is not enough.",
        ),
    ]


_LOG, _WEBHOOK = LogSettings(), WebhookSettings()

AUDIT_FLAGS: list[Flag] = [
    Flag(
        "audit-policy-file",
        "string",
        "",
        "File with the audit policy; nothing is recorded without one.",
    ),
    Flag("audit-log-path", "string", "", "File to write audit events to; - is standard output."),
    Flag(
        "audit-log-maxage",
        "int",
        _LOG.max_age,
        "Days that old audit log files are kept; 0 keeps them for ever.",
    ),
    Flag(
        "audit-log-maxbackup",
        "int",
        _LOG.max_backups,
        "Old audit log files that are kept; 0 keeps all.",
    ),
    Flag(
        "audit-log-maxsize",
        "int",
        _LOG.max_size,
        "Megabytes of an audit log file before a new one is begun; 0 never begins a new one.",
    ),
    Flag("audit-log-compress", "bool", _LOG.compress, "Compress old audit log files with gzip."),
    Flag("audit-log-format", "string", _LOG.format, "Form of the audit log: json or legacy."),
    Flag(
        "audit-log-version",
        "string",
        "audit.k8s.io/v1",
        "Version of the events in the log; there is only one.",
        is_ignored=True,
    ),
    *_batch_flags("log", LOG_BATCH),
    *_truncate_flags("log"),
    Flag(
        "audit-webhook-config-file",
        "string",
        "",
        "Kubeconfig of a server that audit events are sent to.",
    ),
    Flag(
        "audit-webhook-initial-backoff",
        "duration",
        _WEBHOOK.initial_backoff,
        "Pause before a failed send is tried again; it grows with every try.",
    ),
    Flag(
        "audit-webhook-version",
        "string",
        "audit.k8s.io/v1",
        "Version of the events that are sent; there is only one.",
        is_ignored=True,
    ),
    *_batch_flags("webhook", _WEBHOOK.batch),
    *_truncate_flags("webhook"),
]


def audit_settings(values: dict[str, Any]) -> AuditSettings:
    return AuditSettings(
        policy_file=values["audit-policy-file"],
        log=LogSettings(
            path=values["audit-log-path"],
            max_age=values["audit-log-maxage"],
            max_backups=values["audit-log-maxbackup"],
            max_size=values["audit-log-maxsize"],
            compress=values["audit-log-compress"],
            format=values["audit-log-format"],
            batch=_batch(values, "log"),
            truncate=_truncate(values, "log"),
        ),
        webhook=WebhookSettings(
            config_file=values["audit-webhook-config-file"],
            initial_backoff=values["audit-webhook-initial-backoff"],
            batch=_batch(values, "webhook"),
            truncate=_truncate(values, "webhook"),
        ),
    )


def _batch(values: dict[str, Any], plugin: str) -> BatchSettings:
    name = f"audit-{plugin}"
    return BatchSettings(
        mode=values[f"{name}-mode"],
        buffer_size=values[f"{name}-batch-buffer-size"],
        max_size=values[f"{name}-batch-max-size"],
        max_wait=values[f"{name}-batch-max-wait"],
        throttle=values[f"{name}-batch-throttle-enable"],
        throttle_qps=values[f"{name}-batch-throttle-qps"],
        throttle_burst=values[f"{name}-batch-throttle-burst"],
    )


def _truncate(values: dict[str, Any], plugin: str) -> TruncateSettings:
    name = f"audit-{plugin}-truncate"
    return TruncateSettings(
        enabled=values[f"{name}-enabled"],
        max_batch_size=values[f"{name}-max-batch-size"],
        max_event_size=values[f"{name}-max-event-size"],
    )
