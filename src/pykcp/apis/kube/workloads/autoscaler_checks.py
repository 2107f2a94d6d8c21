"""Checks of the metrics and the behaviour of autoscalers. The texts are Kubernetes'."""

from __future__ import annotations

from pykcp.apis.kube.workloads.container_checks import Errors
from pykcp.machinery.status import forbidden, invalid, not_supported, required
from pykcp.types import Object

_SOURCES = {
    "ContainerResource": "containerResource",
    "External": "external",
    "Object": "object",
    "Pods": "pods",
    "Resource": "resource",
}
_POLICIES = ("Percent", "Pods")
_SELECT = ("Disabled", "Max", "Min")
_TARGETS = ("Utilization", "Value", "AverageValue")
_LONGEST = 3600
_LONGEST_PERIOD = 1800


def metric_errors(spec: Object) -> Errors:
    metrics = spec.get("metrics") or ()
    for index, metric in enumerate(metrics):
        yield from _metric(metric, f"spec.metrics[{index}]")
    if spec.get("minReplicas") == 0:
        kinds = {metric.get("type") for metric in metrics}
        if not kinds & {"Object", "External"}:
            why = "must specify at least one Object or External metric to support scaling to zero replicas"
            yield forbidden("spec.metrics", why)


def _metric(metric: Object, path: str) -> Errors:
    kind = metric.get("type") or ""
    if kind not in _SOURCES:
        wrong = not_supported(f"{path}.type", kind, tuple(_SOURCES))
        yield from (wrong, wrong)
    present = [name for name in _SOURCES.values() if metric.get(name) is not None]
    expected = _SOURCES.get(kind, "")
    if len(present) == 1 and present[0] in ("resource", "containerResource"):
        yield from _resource(metric[present[0]], f"{path}.{present[0]}")
    if expected and expected not in present:
        why = "must populate information for the given metric source"
        yield required(f"{path}.{expected}", why)
    if len(present) > 1:
        why = "must populate the given metric source only"
        yield from (forbidden(f"{path}.{one}", why) for one in present if one != expected)


def _resource(source: Object, path: str) -> Errors:
    if not source.get("name"):
        yield required(f"{path}.name", "must specify a resource name")
    target, at = source.get("target") or {}, f"{path}.target"
    if target.get("type") not in _TARGETS:
        why = "must be either Utilization, Value, or AverageValue"
        yield invalid(f"{at}.type", target.get("type") or "", why)
    share, value = target.get("averageUtilization"), target.get("averageValue")
    if share is not None and share < 1:
        yield invalid(f"{at}.averageUtilization", share, "must be greater than 0")
    if share is None and value is None:
        why = "must set either a target raw value or a target utilization"
        yield required(f"{at}.averageUtilization", why)
    if share is not None and value is not None:
        why = "may not set both a target raw value and a target utilization"
        yield forbidden(f"{at}.averageValue", why)


def behaviour_errors(spec: Object) -> Errors:
    behaviour = spec.get("behavior") or {}
    for name in ("scaleUp", "scaleDown"):
        if behaviour.get(name) is not None:
            yield from _scaling(behaviour[name], f"spec.behavior.{name}")


def _scaling(rules: Object, path: str) -> Errors:
    window = rules.get("stabilizationWindowSeconds")
    if window is not None and window < 0:
        why = "must be greater than or equal to zero"
        yield invalid(f"{path}.stabilizationWindowSeconds", window, why)
    if window is not None and window > _LONGEST:
        why = f"must be less than or equal to {_LONGEST}"
        yield invalid(f"{path}.stabilizationWindowSeconds", window, why)
    chosen = rules.get("selectPolicy")
    if chosen not in (None, *_SELECT):
        yield not_supported(f"{path}.selectPolicy", chosen, _SELECT)
    for index, policy in enumerate(rules.get("policies") or ()):
        at = f"{path}.policies[{index}]"
        if policy.get("type") not in _POLICIES:
            yield not_supported(f"{at}.type", policy.get("type") or "", _POLICIES)
        for name in ("value", "periodSeconds"):
            if (policy.get(name) or 0) <= 0:
                yield invalid(f"{at}.{name}", policy.get(name) or 0, "must be greater than zero")
        if (policy.get("periodSeconds") or 0) > _LONGEST_PERIOD:
            why = f"must be less than or equal to {_LONGEST_PERIOD}"
            yield invalid(f"{at}.periodSeconds", policy["periodSeconds"], why)
