"""What the operator counts."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable, Iterable

from pykcp.clients.errors import SendFailed
from pykcp.machinery.conditions import conditions_of
from pykcp.machinery.status import StatusError
from pykcp.observe.metrics import Counter, Histogram, LabelledGauge, Registry
from pykcp.types import Object

_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_COUNTED = ("phase", "namespace")
_VALUES = {"True": 1.0, "False": 0.0}

Objects = Callable[[], Iterable[Object]]
"""All objects of the operator's kinds."""


_REASONS = frozenset((
    "AlreadyExists", "BadRequest", "Conflict", "Expired", "Forbidden", "Gone", "InternalError",
    "Invalid", "MethodNotAllowed", "NotAcceptable", "NotFound", "RequestEntityTooLarge",
    "ServerTimeout", "ServiceUnavailable", "Timeout", "TooManyRequests", "Unauthorized",
    "UnsupportedMediaType",
))  # fmt: skip


def error_type(error: StatusError | SendFailed) -> str:
    """One of a few words, whatever the text of an error is, or the reason a server gives."""
    if isinstance(error, SendFailed):
        return "ConnectionFailed"
    return error.reason if error.reason in _REASONS else "Unknown"


class OperatorMetrics:
    """Counts of objects are read when they are asked for."""

    def __init__(self, registry: Registry, objects: Objects) -> None:
        self._objects = objects
        self._add_counts(registry)
        self.seconds = Histogram(
            "kcp_operator_reconciliation_duration_seconds",
            "How long it took to configure and apply a namespace, in seconds.",
            ("controller", "result"),
            _BUCKETS,
        )
        self.errors = Counter(
            "kcp_operator_reconciliation_errors_total",
            "Failed reconciliations by reason.",
            ("controller", "error_type"),
        )
        registry.add(
            self.seconds,
            self.errors,
            LabelledGauge(
                "kcp_operator_condition_status",
                "Conditions of objects: 1 is True, 0 False, -1 Unknown.",
                ("resource_type", "resource_name", "namespace", "condition_type"),
                self._conditions,
            ),
            LabelledGauge(
                "kcp_operator_certificate_expiration_timestamp_seconds",
                "When certificates end, in seconds since 1970.",
                ("resource_type", "resource_name", "namespace", "certificate"),
                self._certificates,
            ),
        )

    def _add_counts(self, registry: Registry) -> None:
        registry.add(
            LabelledGauge(
                "kcp_operator_rootshard_count",
                "Number of RootShard objects by phase.",
                _COUNTED,
                lambda: self._count("RootShard"),
            ),
            LabelledGauge(
                "kcp_operator_shard_count",
                "Number of Shard objects by phase.",
                _COUNTED,
                lambda: self._count("Shard"),
            ),
            LabelledGauge(
                "kcp_operator_frontproxy_count",
                "Number of FrontProxy objects by phase.",
                _COUNTED,
                lambda: self._count("FrontProxy"),
            ),
            LabelledGauge(
                "kcp_operator_cacheserver_count",
                "Number of CacheServer objects by phase.",
                _COUNTED,
                lambda: self._count("CacheServer"),
            ),
            LabelledGauge(
                "kcp_operator_virtualworkspace_count",
                "Number of VirtualWorkspace objects by phase.",
                _COUNTED,
                lambda: self._count("VirtualWorkspace"),
            ),
            LabelledGauge(
                "kcp_operator_kubeconfig_count",
                "Number of Kubeconfig objects by phase.",
                _COUNTED,
                lambda: self._count("Kubeconfig"),
            ),
        )

    def _count(self, kind: str) -> Iterable[tuple[tuple[str, ...], float]]:
        tally: Tally[tuple[str, ...]] = Tally()
        for obj in self._objects():
            if obj["kind"] == kind:
                phase = (obj.get("status") or {}).get("phase") or "Unknown"
                tally[phase, obj["metadata"]["namespace"]] += 1
        return [(key, float(number)) for key, number in tally.items()]

    def _conditions(self) -> Iterable[tuple[tuple[str, ...], float]]:
        return [
            ((*_labels(obj), condition["type"]), _VALUES.get(condition["status"], -1.0))
            for obj in self._objects()
            for condition in conditions_of(obj)
        ]

    def _certificates(self) -> Iterable[tuple[tuple[str, ...], float]]:
        from datetime import datetime

        return [
            ((*_labels(obj), one["name"]), datetime.fromisoformat(one["notAfter"]).timestamp())
            for obj in self._objects()
            for one in (obj.get("status") or {}).get("certificates") or ()
        ]


def _labels(obj: Object) -> tuple[str, str, str]:
    return obj["kind"], obj["metadata"]["name"], obj["metadata"]["namespace"]
