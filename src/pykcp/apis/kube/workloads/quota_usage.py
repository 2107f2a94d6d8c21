"""What pods, services and claims use of a quota, and which of them its scopes select.

Kinds that are not here use one of their count and nothing else. The names and sums are those of
Kubernetes' evaluators, which a quota of a Kubernetes cluster expects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from typing import NamedTuple

from pykcp.apis.kube.workloads.forms import WRONG_FORM
from pykcp.apis.kube.workloads.limit_ranges import Amounts, total
from pykcp.apis.kube.workloads.pod_rules import quality_of_service
from pykcp.machinery.quantity import Quantity, parse
from pykcp.types import Object

ZERO, _ONE = Quantity(0, 0), Quantity(1, 0)
_REQUESTS, _LIMITS = "requests.", "limits."
_COMPUTE = ("cpu", "memory", "ephemeral-storage")
_HUGE_PAGES = "hugepages-"
_OF_CLASS = "requests.deviceclass.resource.kubernetes.io/"
_POD_NAMES = frozenset(
    (
        *("pods", "count/pods", *_COMPUTE),
        *(f"{kind}{name}" for kind in (_REQUESTS, _LIMITS) for name in _COMPUTE),
    )
)
_EACH_CONTAINER = frozenset(
    ("cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory")
)
"""If a quota limits one of these, each container has to name it."""
_SERVICE_NAMES = frozenset(
    ("services", "count/services", "services.loadbalancers", "services.nodeports")
)
_CLAIM_NAMES = ("persistentvolumeclaims", "requests.storage")
_CLAIM_COUNT = "count/persistentvolumeclaims"
_STORAGE_CLASS = ".storageclass.storage.k8s.io/"
_DEVICE_CLASS = ".deviceclass.resource.k8s.io/devices"
_DEVICE_CLAIM_COUNT = "count/resourceclaims.resource.k8s.io"
_MOST_DEVICES = 32
"""Of a request for all of them: no more are allocated."""
_ENDED = frozenset(("Succeeded", "Failed"))


def _misses_nothing(_names: Iterable[str], _obj: Object) -> str:
    return ""


class QuotaMeter(NamedTuple):
    """How objects of one kind use quotas."""

    measures: Callable[[str], bool]
    """Whether the kind uses what has this name."""
    usage: Callable[[Object, float], Amounts]
    """What an object uses at a time (seconds since the epoch), by name."""
    is_selected: Callable[[Object, Object], bool]
    """Whether an object is of the scope that a selector names."""
    charges: Callable[[str, Object, Object], bool]
    """Whether an update through a subresource, from one object to another, may use more."""
    missing: Callable[[Iterable[str], Object], str] = _misses_nothing
    """What an object has to name of what a quota limits, and does not, as a text."""


def selectors(quota: Object) -> Iterator[Object]:
    """The scopes of a quota, all in one form."""
    spec = quota.get("spec") or {}
    for scope in spec.get("scopes") or ():
        yield {"scopeName": scope, "operator": "Exists"}
    yield from (spec.get("scopeSelector") or {}).get("matchExpressions") or ()


def is_in_scopes(meter: QuotaMeter, quota: Object, obj: Object) -> bool:
    return all(meter.is_selected(selector, obj) for selector in selectors(quota))


def added(into: Amounts, more: Amounts) -> None:
    for name, amount in more.items():
        into[name] = into[name] + amount if name in into else amount


def growth(meter: QuotaMeter, new: Object, old: Object, now: float) -> Amounts:
    """What an object uses more than before."""
    before = meter.usage(old, now)
    return {
        name: amount - before[name] if name in before else amount
        for name, amount in meter.usage(new, now).items()
    }


# --- pods


def _is_pod_name(name: str) -> bool:
    return (
        name in _POD_NAMES
        or name.startswith((_HUGE_PAGES, _REQUESTS + _HUGE_PAGES, _OF_CLASS))
        or (name.startswith(_REQUESTS) and not _is_native(name))
    )


def _is_native(name: str) -> bool:
    return "/" not in name or "kubernetes.io/" in name


def _pod_usage(pod: Object, now: float) -> Amounts:
    used: Amounts = {"count/pods": _ONE}
    if _has_ended(pod, now):
        return used
    used["pods"] = _ONE
    spec = _actual_spec(pod)
    overhead = {name: parse(value) for name, value in (spec.get("overhead") or {}).items()}
    requests, limits = total(spec, "requests"), total(spec, "limits")
    added(requests, overhead)
    added(limits, {n: q for n, q in overhead.items() if n in limits and limits[n].sign})
    for name, amount in requests.items():
        if name in _COMPUTE or name.startswith(_HUGE_PAGES):
            used[name] = used[_REQUESTS + name] = amount
        elif not _is_native(name) or name.startswith(_OF_CLASS.removeprefix(_REQUESTS)):
            used[_REQUESTS + name] = amount
    return used | {_LIMITS + name: limits[name] for name in _COMPUTE if name in limits}


def _has_ended(pod: Object, now: float) -> bool:
    """Also a pod that is stuck: its node may never say that it is gone."""
    if (pod.get("status") or {}).get("phase") in _ENDED:
        return True
    metadata = pod["metadata"]
    deleted, seconds = metadata.get("deletionTimestamp"), metadata.get("deletionGracePeriodSeconds")
    if not deleted or seconds is None:
        return False
    return now > datetime.fromisoformat(deleted).timestamp() + float(seconds)


def _actual_spec(pod: Object) -> Object:
    """A container that is being resized uses the larger one of what it has and is to have."""
    spec: Object = pod["spec"]
    status = pod.get("status") or {}
    statuses = {
        one["name"]: one
        for group in ("containerStatuses", "initContainerStatuses")
        for one in status.get(group) or ()
        if one.get("resources")
    }
    if not statuses:
        return spec
    resized: Object = {**spec}
    for group in ("containers", "initContainers"):
        resized[group] = [
            _resized(container, statuses[container["name"]])
            if container["name"] in statuses
            and (group == "containers" or container.get("restartPolicy") == "Always")
            else container
            for container in spec.get(group) or ()
        ]
    return resized


def _resized(container: Object, status: Object) -> Object:
    wanted, actual = container.get("resources") or {}, status["resources"]
    sources = {
        "requests": (wanted.get("requests"), actual.get("requests"), status.get("allocatedResources")),
        "limits": (wanted.get("limits"), actual.get("limits")),
    }  # fmt: skip
    most = {name: _most(amounts) for name, amounts in sources.items()}
    return {**container, "resources": {**wanted, **most}}


def _most(sources: Iterable[Mapping[str, str] | None]) -> dict[str, str]:
    found: dict[str, str] = {}
    for amounts in sources:
        for name, value in (amounts or {}).items():
            if name not in found or parse(value) > parse(found[name]):
                found[name] = value
    return found


def _is_of_pod_scope(selector: Object, pod: Object) -> bool:
    spec, scope = pod["spec"], selector.get("scopeName")
    if scope in ("Terminating", "NotTerminating"):
        return _is_bounded(spec) is (scope == "Terminating")
    if scope in ("BestEffort", "NotBestEffort"):
        return (quality_of_service(spec) == "BestEffort") is (scope == "BestEffort")
    if scope == "PriorityClass":
        name = spec.get("priorityClassName")
        return _fits(selector, (name,) if name else ())
    return scope == "CrossNamespacePodAffinity" and _looks_elsewhere(spec)


def _is_bounded(spec: Object) -> bool:
    seconds = spec.get("activeDeadlineSeconds")
    return seconds is not None and seconds >= 0


def _fits(selector: Object, names: tuple[str, ...]) -> bool:
    """Whether one of the names, or having none, is what a selector asks for."""
    operator, values = selector.get("operator"), selector.get("values") or ()
    if operator == "Exists":
        return bool(names)
    if operator == "DoesNotExist":
        return not names
    if operator == "In":
        return any(name in values for name in names)
    return not names or any(name not in values for name in names)


def _looks_elsewhere(spec: Object) -> bool:
    affinity = spec.get("affinity") or {}
    for kind in ("podAffinity", "podAntiAffinity"):
        rules = affinity.get(kind) or {}
        weighted = rules.get("preferredDuringSchedulingIgnoredDuringExecution") or ()
        terms = [
            *(rules.get("requiredDuringSchedulingIgnoredDuringExecution") or ()),
            *(one.get("podAffinityTerm") or {} for one in weighted),
        ]
        if any(t.get("namespaces") or t.get("namespaceSelector") is not None for t in terms):
            return True
    return False


def _missing(names: Iterable[str], pod: Object) -> str:
    """What containers of a pod have to name and do not, as a text; "" if nothing."""
    spec = pod["spec"]
    if spec.get("resources"):
        return ""
    required = sorted(_EACH_CONTAINER.intersection(names))
    found: dict[str, set[str]] = {}
    for group in ("containers", "initContainers"):
        for container in spec.get(group) or ():
            for name in required:
                if not _names(container.get("resources") or {}, name):
                    found.setdefault(name, set()).add(container["name"])
    texts = (f"{name} for: {','.join(sorted(found[name]))}" for name in sorted(found))
    return f"must specify {'; '.join(texts)}" if found else ""


def _names(resources: Object, name: str) -> bool:
    kind = "limits" if name.startswith(_LIMITS) else "requests"
    return name.rpartition(".")[2] in (resources.get(kind) or {})


def _charges_pod(subresource: str, new: Object, old: Object) -> bool:
    if subresource == "resize":
        return True
    return not subresource and _is_bounded(new["spec"]) != _is_bounded(old["spec"])


# --- services


def _service_usage(service: Object, _: float) -> Amounts:
    spec = service["spec"]
    ports, kind = spec.get("ports") or (), spec.get("type")
    is_balanced = kind == "LoadBalancer"
    number = len(ports) if kind == "NodePort" or is_balanced else 0
    if is_balanced and spec.get("allocateLoadBalancerNodePorts") is False:
        number = sum(1 for port in ports if port.get("nodePort"))
    return {
        "count/services": _ONE,
        "services": _ONE,
        "services.loadbalancers": _ONE if is_balanced else ZERO,
        "services.nodeports": Quantity(number, 0),
    }


# --- claims of volumes and of devices


def _is_claim_name(name: str) -> bool:
    by_class = tuple(_STORAGE_CLASS + one for one in _CLAIM_NAMES)
    return name == _CLAIM_COUNT or name in _CLAIM_NAMES or name.endswith(by_class)


def _claim_usage(claim: Object, _: float) -> Amounts:
    spec = claim["spec"]
    used: Amounts = {"persistentvolumeclaims": _ONE}
    requested = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
    if requested is not None:
        allocated = ((claim.get("status") or {}).get("allocatedResources") or {}).get("storage")
        amount = parse(requested)
        if allocated is not None:
            amount = max(amount, parse(allocated))
        used["requests.storage"] = amount.rounded_up(0)
    notes = claim["metadata"].get("annotations") or {}
    name = notes.get("volume.beta.kubernetes.io/storage-class") or spec.get("storageClassName")
    if name:
        used |= {f"{name}{_STORAGE_CLASS}{one}": amount for one, amount in used.items()}
    return used | {_CLAIM_COUNT: _ONE}


def _is_of_claim_scope(selector: Object, claim: Object) -> bool:
    if selector.get("scopeName") != "VolumeAttributesClass":
        return False
    status = claim.get("status") or {}
    named = (
        claim["spec"].get("volumeAttributesClassName"),
        status.get("currentVolumeAttributesClassName"),
        (status.get("modifyVolumeStatus") or {}).get("targetVolumeAttributesClassName"),
    )
    return _fits(selector, tuple(name for name in named if name))


def _is_device_name(name: str) -> bool:
    return name == _DEVICE_CLAIM_COUNT or name.endswith(_DEVICE_CLASS)


def _device_usage(claim: Object, _: float) -> Amounts:
    used: Amounts = {_DEVICE_CLAIM_COUNT: _ONE}
    for request in (claim["spec"].get("devices") or {}).get("requests") or ():
        wanted = request.get("firstAvailable") or [request.get("exactly") or {}]
        most: dict[str, int] = {}
        for one in wanted:
            name = one.get("deviceClassName")
            if name:
                most[name] = max(most.get(name, 0), _devices(one))
        added(used, {f"{name}{_DEVICE_CLASS}": Quantity(n, 0) for name, n in most.items()})
    return used


def _devices(request: Object) -> int:
    if request.get("allocationMode") == "All":
        return _MOST_DEVICES
    return int(request.get("count") or 0)


def _has_no_scopes(_selector: Object, _obj: Object) -> bool:
    return False


def _charges_object(subresource: str, _new: Object, _old: Object) -> bool:
    return not subresource


def _charges_claim(subresource: str, _new: Object, _old: Object) -> bool:
    return subresource in ("", "status")


def _of_any_form(meter: QuotaMeter) -> QuotaMeter:
    """Schemas are not trusted: objects of another form use nothing and are in no scope."""

    def usage(obj: Object, now: float) -> Amounts:
        try:
            return meter.usage(obj, now)
        except WRONG_FORM:
            return {}

    def is_selected(selector: Object, obj: Object) -> bool:
        try:
            return meter.is_selected(selector, obj)
        except WRONG_FORM:
            return False

    def charges(subresource: str, new: Object, old: Object) -> bool:
        try:
            return meter.charges(subresource, new, old)
        except WRONG_FORM:
            return False

    def missing(names: Iterable[str], obj: Object) -> str:
        try:
            return meter.missing(names, obj)
        except WRONG_FORM:
            return ""

    return meter._replace(usage=usage, is_selected=is_selected, charges=charges, missing=missing)


_BY_KIND: dict[tuple[str, str], QuotaMeter] = {
    ("", "pods"): QuotaMeter(_is_pod_name, _pod_usage, _is_of_pod_scope, _charges_pod, _missing),
    ("", "services"): QuotaMeter(
        _SERVICE_NAMES.__contains__, _service_usage, _has_no_scopes, _charges_object
    ),
    ("", "persistentvolumeclaims"): QuotaMeter(
        _is_claim_name, _claim_usage, _is_of_claim_scope, _charges_claim
    ),
    ("resource.k8s.io", "resourceclaims"): QuotaMeter(
        _is_device_name, _device_usage, _has_no_scopes, _charges_object
    ),
}
METERS: Mapping[tuple[str, str], QuotaMeter] = {
    kind: _of_any_form(meter) for kind, meter in _BY_KIND.items()
}
"""By group and plural."""
