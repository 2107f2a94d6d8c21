"""The column Targets of HorizontalPodAutoscalers: what each metric is, and what it should be."""

from __future__ import annotations

from datetime import datetime

from pykcp.types import Object

_SHOWN = 2
_UNKNOWN = "<unknown>"
_FIELDS = {
    "External": "external",
    "Pods": "pods",
    "Object": "object",
    "Resource": "resource",
    "ContainerResource": "containerResource",
}
_OF_RESOURCES = ("Resource", "ContainerResource")


def targets(obj: Object, _now: datetime) -> str:
    metrics = (obj.get("spec") or {}).get("metrics") or ()
    found = (obj.get("status") or {}).get("currentMetrics") or ()
    if not metrics:
        return "<none>"
    texts = [
        _metric(metric, found[index] if index < len(found) else {})
        for index, metric in enumerate(metrics)
    ]
    shown = ", ".join(texts[:_SHOWN])
    return f"{shown} + {len(texts) - _SHOWN} more..." if len(texts) > _SHOWN else shown


def _metric(metric: Object, found: Object) -> str:
    kind = metric.get("type", "")
    name = _FIELDS.get(kind)
    if name is None:
        return "<unknown type>"
    given = metric.get(name) or {}
    target, current = given.get("target") or {}, (found.get(name) or {}).get("current") or {}
    if kind in _OF_RESOURCES:
        return f"{given.get('name', '')}: {_of_resource(target, current)}"
    if target.get("averageValue") is not None:
        text = f"{current.get('averageValue') or _UNKNOWN}/{target['averageValue']}"
        return text if kind == "Pods" else f"{text} (avg)"
    return f"{current.get('value') or _UNKNOWN}/{target.get('value', '0')}"


def _of_resource(target: Object, current: Object) -> str:
    if target.get("averageValue") is not None:
        return f"{current.get('averageValue') or _UNKNOWN}/{target['averageValue']}"
    used, wanted = current.get("averageUtilization"), target.get("averageUtilization")
    return (
        f"{_UNKNOWN if used is None else f'{used}%'}/{'<auto>' if wanted is None else f'{wanted}%'}"
    )
