"""Defaults and checks of services, ingresses, claims, budgets and autoscalers."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import ip_address
from typing import Any

from pykcp.apis.kube.validation.objectmeta import validate_label_selector, validate_labels
from pykcp.apis.kube.workloads.autoscaler_checks import behaviour_errors, metric_errors
from pykcp.apis.kube.workloads.container_checks import port_or_name_errors, protocol_errors
from pykcp.apis.kube.workloads.network_checks import (
    cidr_errors,
    ingress_end_errors,
    ingress_host_errors,
)
from pykcp.apis.kube.workloads.numbers import share_errors
from pykcp.apis.kube.workloads.scheduling_checks import NOT_AN_IP, is_address
from pykcp.machinery import names
from pykcp.machinery.quantity import parse
from pykcp.machinery.status import (
    FieldError,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
)
from pykcp.types import Object

_IMMUTABLE = "field is immutable"
_CLAIM_UPDATE = (
    "spec is immutable after creation except resources.requests and volumeAttributesClassName "
    "for bound claims"
)
_SET_ONCE = "may not change once set"
_HEALTH_PORT = (
    "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"
)
_SYSTEM_NAMES = (
    "priority class names with 'system-' prefix are reserved for system use only. error: "
)
_HIGHEST_PRIORITY = 1_000_000_000
SYSTEM_PRIORITIES = {
    "system-cluster-critical": 2_000_000_000,
    "system-node-critical": 2_000_001_000,
}
"""Priority classes that every cluster has."""
_CPU_TARGET = 80
_TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_CHOICES = {
    "sessionAffinity": ("ClientIP", "None"),
    "externalTrafficPolicy": ("Cluster", "Local"),
    "internalTrafficPolicy": ("Cluster", "Local"),
}
_DAY = 86400
_DISTRIBUTION = ("PreferClose", "PreferSameZone", "PreferSameNode")
_OF_BALANCERS = {
    "loadBalancerSourceRanges": "LoadBalancerSourceRanges",
    "allocateLoadBalancerNodePorts": "allocateLoadBalancerNodePorts",
    "loadBalancerClass": "loadBalancerClass",
}
"""Fields of services of the type LoadBalancer, and how errors name them."""
_BAD_PARTS = ("//", "/./", "/../", "%2f", "%2F")
_PATH_TYPES = ("Exact", "ImplementationSpecific", "Prefix")
_ACCESS = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_VOLUME_MODES = ("Block", "Filesystem")
_UNHEALTHY = ("AlwaysAllow", "IfHealthyBudget")


def default_service(service: Object) -> None:
    spec = service.get("spec")
    if not isinstance(spec, dict):
        return
    for port in spec.get("ports") or ():
        if port.get("targetPort") in (None, 0, ""):
            port["targetPort"] = port.get("port")
    kind = spec.get("type")
    if kind == "ExternalName":
        spec.pop("internalTrafficPolicy", None)
        return
    if kind in ("NodePort", "LoadBalancer"):
        spec.setdefault("externalTrafficPolicy", "Cluster")
    if kind == "LoadBalancer":
        spec.setdefault("allocateLoadBalancerNodePorts", True)
    if spec.get("sessionAffinity") == "ClientIP":
        config = spec.setdefault("sessionAffinityConfig", {})
        config.setdefault("clientIP", {}).setdefault("timeoutSeconds", 10800)


def service_errors(new: Object, old: Object | None) -> list[FieldError]:
    spec, errors = new.get("spec") or {}, []
    name = new["metadata"].get("name", "")
    errors += [invalid("metadata.name", name, why) for why in names.dns1123_label(name)]
    kind, ports = spec.get("type"), spec.get("ports") or ()
    if kind not in (None, *_TYPES):
        errors.append(not_supported("spec.type", kind, _TYPES))
    for field, allowed in _CHOICES.items():
        if spec.get(field) and spec[field] not in allowed:
            errors.append(not_supported(f"spec.{field}", spec[field], allowed))
    if not ports and kind != "ExternalName" and spec.get("clusterIP") != "None":
        errors.append(required("spec.ports"))
    if kind == "ExternalName" and not spec.get("externalName"):
        errors.append(required("spec.externalName"))
    if kind == "LoadBalancer" and spec.get("clusterIP") == "None":
        why = "may not be set to 'None' for LoadBalancer services"
        errors.append(invalid("spec.clusterIPs[0]", "None", why))
    errors += _port_errors(ports)
    if kind == "ExternalName" and spec.get("clusterIP"):
        errors.append(forbidden("spec.clusterIPs", "may not be set for ExternalName services"))
    if kind == "ClusterIP":
        why = "may not be used when `type` is 'ClusterIP'"
        errors += [
            forbidden(f"spec.ports[{index}].nodePort", why)
            for index, port in enumerate(ports)
            if port.get("nodePort")
        ]
    health_port = spec.get("healthCheckNodePort")
    is_local = kind == "LoadBalancer" and spec.get("externalTrafficPolicy") == "Local"
    if health_port and not is_local:
        errors.append(invalid("spec.healthCheckNodePort", health_port, _HEALTH_PORT))
    errors += _reach_errors(spec)
    earlier = (old or {}).get("spec") or {}
    if (
        earlier.get("clusterIP")
        and "ExternalName" not in (kind, earlier.get("type"))
        and spec.get("clusterIP") != earlier["clusterIP"]
    ):
        errors.append(invalid("spec.clusterIPs[0]", [spec.get("clusterIP")], _SET_ONCE))
    return errors


def _reach_errors(spec: Object) -> Iterator[FieldError]:
    """Who reaches a service, and how."""
    yield from validate_labels(spec.get("selector"), "spec.selector")
    kind, name = spec.get("type"), spec.get("externalName") or ""
    if kind == "ExternalName" and name:
        bare = name.removesuffix(".")
        yield from (invalid("spec.externalName", name, w) for w in names.dns1123_subdomain(bare))
    affinity = (spec.get("sessionAffinityConfig") or {}).get("clientIP") or {}
    seconds = affinity.get("timeoutSeconds")
    is_sticky = spec.get("sessionAffinity") == "ClientIP"
    if is_sticky and seconds is not None and not 0 < seconds <= _DAY:
        why = f"must be greater than 0 and less than {_DAY}"
        yield invalid("spec.sessionAffinityConfig.clientIP.timeoutSeconds", seconds, why)
    policy = spec.get("externalTrafficPolicy")
    is_open = kind in ("NodePort", "LoadBalancer") or spec.get("externalIPs")
    if policy and not is_open:
        why = "may only be set for externally-accessible services"
        yield invalid("spec.externalTrafficPolicy", policy, why)
    for index, address in enumerate(spec.get("externalIPs") or ()):
        at = f"spec.externalIPs[{index}]"
        if not is_address(address):
            yield invalid(at, address, NOT_AN_IP)
        elif ip_address(address).is_loopback:
            why = "may not be in the loopback range (127.0.0.0/8, ::1/128)"
            yield invalid(at, address, why)
    for index, port in enumerate(spec.get("ports") or ()):
        if protocol := port.get("appProtocol"):
            at, problems = f"spec.ports[{index}].appProtocol", names.qualified_name(protocol)
            yield from (invalid(at, protocol, why) for why in problems)
    chosen = spec.get("trafficDistribution")
    if chosen not in (None, *_DISTRIBUTION):
        yield not_supported("spec.trafficDistribution", chosen, _DISTRIBUTION)
    yield from _balancer_errors(spec)


def _balancer_errors(spec: Object) -> Iterator[FieldError]:
    if spec.get("type") != "LoadBalancer":
        for name, shown in _OF_BALANCERS.items():
            if spec.get(name) not in (None, []):
                why = "may only be used when `type` is 'LoadBalancer'"
                yield forbidden(f"spec.{shown}", why)
        return
    for index, text in enumerate(spec.get("loadBalancerSourceRanges") or ()):
        yield from cidr_errors(text.strip(), f"spec.LoadBalancerSourceRanges[{index}]")
    chosen = spec.get("loadBalancerClass")
    if chosen is not None:
        problems = names.qualified_name(chosen)
        yield from (invalid("spec.loadBalancerClass", chosen, why) for why in problems)


def _port_errors(ports: Any) -> list[FieldError]:
    errors, known = [], set()
    for index, port in enumerate(ports):
        at, name = f"spec.ports[{index}]", port.get("name") or ""
        if name:
            errors += [invalid(f"{at}.name", name, why) for why in names.dns1123_label(name)]
            if name in known:
                errors.append(duplicate(f"{at}.name", name))
            known.add(name)
        elif len(ports) > 1:
            errors.append(required(f"{at}.name"))
        number = port.get("port", 0)
        errors += [invalid(f"{at}.port", number, why) for why in names.port_number(number)]
        errors += protocol_errors(port.get("protocol"), f"{at}.protocol")
        errors += port_or_name_errors(port.get("targetPort"), f"{at}.targetPort")
    return errors


def ingress_errors(new: Object, _old: Object | None) -> list[FieldError]:
    spec, errors = new.get("spec") or {}, []
    rules, backend = spec.get("rules") or (), spec.get("defaultBackend")
    hosts = ingress_host_errors(spec)
    if not rules and backend is None:
        why = "either `defaultBackend` or `rules` must be specified"
        errors.append(invalid("spec", spec.get("rules"), why))
    if backend is not None:
        errors += _backend_errors(backend, "spec.defaultBackend")
    errors += hosts
    for index, rule in enumerate(rules):
        http = rule.get("http")
        if http is None:
            continue
        at = f"spec.rules[{index}].http.paths"
        if not http.get("paths"):
            errors.append(required(at))
        for number, path in enumerate(http.get("paths") or ()):
            errors += _path_errors(path, f"{at}[{number}]")
    return [*errors, *ingress_end_errors(spec)]


def _path_errors(path: Object, at: str) -> list[FieldError]:
    kind, given = path.get("pathType"), path.get("path") or ""
    if kind is None:
        return [required(f"{at}.pathType", "pathType must be specified")]
    errors = []
    if kind not in _PATH_TYPES:
        errors.append(not_supported(f"{at}.pathType", kind, _PATH_TYPES))
    if not given.startswith("/") and (given or kind != "ImplementationSpecific"):
        errors.append(invalid(f"{at}.path", given, "must be an absolute path"))
    if kind in ("Exact", "Prefix"):
        errors += [
            invalid(f"{at}.path", given, f"must not contain '{part}'")
            for part in _BAD_PARTS
            if part in given
        ]
    return errors + _backend_errors(path.get("backend") or {}, f"{at}.backend")


def _backend_errors(backend: Object, at: str) -> list[FieldError]:
    service, resource = backend.get("service"), backend.get("resource")
    if service is not None and resource is not None:
        return [invalid(at, "", "cannot set both resource and service backends")]
    if resource is not None:
        fields = (name for name in ("kind", "name") if not resource.get(name))
        return [required(f"{at}.resource.{name}") for name in fields]
    if service is None:
        return [invalid(at, "", "resource or service backend is required")]
    name = service.get("name") or ""
    errors = [] if name else [required(f"{at}.service.name")]
    if name:
        errors += [invalid(f"{at}.service.name", name, why) for why in names.dns1123_label(name)]
    port = service.get("port") or {}
    if port.get("name") and port.get("number"):
        errors.append(invalid(at, "", "cannot set both port name & port number"))
    elif not port.get("name") and not port.get("number"):
        errors.append(required(at, "port name or number is required"))
    elif number := port.get("number"):
        path = f"{at}.service.port.number"
        errors += [invalid(path, number, why) for why in names.port_number(number)]
    return errors


def claim_errors(new: Object, old: Object | None) -> list[FieldError]:
    errors = list(claim_spec_errors(new.get("spec") or {}, "spec"))
    if old is not None and _claimed(new) != _claimed(old, new):
        errors.append(forbidden("spec", _CLAIM_UPDATE))
    return errors


def claim_spec_errors(spec: Object, path: str) -> Iterator[FieldError]:
    """Of claims, and of the templates of claims that a StatefulSet has."""
    modes, at = spec.get("accessModes") or (), f"{path}.accessModes"
    if not modes:
        yield required(at, "at least 1 access mode is required")
    yield from validate_label_selector(spec.get("selector"), f"{path}.selector")
    yield from (not_supported(at, mode, _ACCESS) for mode in modes if mode not in _ACCESS)
    if "ReadWriteOncePod" in modes and len({*modes} & {*_ACCESS}) > 1:
        yield forbidden(at, "may not use ReadWriteOncePod with other access modes")
    requests = (spec.get("resources") or {}).get("requests") or {}
    if "storage" not in requests:
        yield required(f"{path}.resources[storage]")
    elif parse(requests["storage"]).sign <= 0:
        size = str(parse(requests["storage"]))
        yield invalid(f"{path}.resources[storage]", size, "must be greater than zero")
    name = spec.get("storageClassName")
    if name:
        problems = names.dns1123_subdomain(name)
        yield from (invalid(f"{path}.storageClassName", name, why) for why in problems)
    mode = spec.get("volumeMode")
    if mode not in (None, *_VOLUME_MODES):
        yield not_supported(f"{path}.volumeMode", mode, _VOLUME_MODES)


def _claimed(claim: Object, newer: Object | None = None) -> Object:
    """What may not change: not even the size, unless the claim is bound."""
    spec = dict(claim.get("spec") or {})
    is_bound = ((newer or claim).get("status") or {}).get("phase") == "Bound"
    if is_bound:
        spec.pop("resources", None)
        spec.pop("volumeAttributesClassName", None)
    if newer is not None and not spec.get("volumeName"):
        spec["volumeName"] = (newer.get("spec") or {}).get("volumeName")
    return {name: value for name, value in spec.items() if value}


def budget_errors(new: Object, _old: Object | None) -> list[FieldError]:
    spec = new.get("spec") or {}
    errors: list[FieldError] = []
    given = [name for name in ("minAvailable", "maxUnavailable") if spec.get(name) is not None]
    if len(given) > 1:
        why = "minAvailable and maxUnavailable cannot be both set"
        errors.append(invalid("spec", spec, why))
    for name in given:
        errors += share_errors(spec[name], f"spec.{name}")
    errors += validate_label_selector(spec.get("selector"), "spec.selector")
    policy = spec.get("unhealthyPodEvictionPolicy")
    if policy not in (None, *_UNHEALTHY):
        errors.append(not_supported("spec.unhealthyPodEvictionPolicy", policy, _UNHEALTHY))
    return errors


def default_autoscaler(autoscaler: Object) -> None:
    spec = autoscaler.get("spec")
    if not isinstance(spec, dict) or autoscaler.get("apiVersion") == "autoscaling/v1":
        return
    if not spec.get("metrics"):
        target = {"type": "Utilization", "averageUtilization": _CPU_TARGET}
        spec["metrics"] = [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]


def autoscaler_errors(new: Object, _old: Object | None) -> list[FieldError]:
    spec, errors = new.get("spec") or {}, []
    low, high = spec.get("minReplicas"), spec.get("maxReplicas") or 0
    if low is not None and low < 1:
        errors.append(invalid("spec.minReplicas", low, "must be greater than or equal to 1"))
    if not high:
        errors.append(required("spec.maxReplicas", "must be set and greater than 0"))
    elif high < 0:
        errors.append(invalid("spec.maxReplicas", high, "must be greater than or equal to 1"))
    if low is not None and high < low:
        why = "must be greater than or equal to `minReplicas`"
        errors.append(invalid("spec.maxReplicas", high, why))
    target = spec.get("scaleTargetRef") or {}
    for name in ("kind", "name"):
        at = f"spec.scaleTargetRef.{name}"
        if not target.get(name):
            errors.append(required(at))
        else:
            problems = names.path_segment_name(target[name])
            errors += [invalid(at, target[name], why) for why in problems]
    if "/" not in (target.get("apiVersion") or ""):
        version = target.get("apiVersion") or ""
        if target.get("kind") != "ReplicationController":
            why = "apiVersion must specify API group"
            errors.append(invalid("spec.scaleTargetRef.apiVersion", version, why))
    return [*errors, *metric_errors(spec), *behaviour_errors(spec)]


def default_network_policy(policy: Object) -> None:
    spec = policy.get("spec")
    if isinstance(spec, dict) and not spec.get("policyTypes"):
        spec["policyTypes"] = ["Ingress", *(["Egress"] if spec.get("egress") else [])]


def storage_class_errors(new: Object, old: Object | None) -> list[FieldError]:
    if old is None:
        return []
    errors = []
    if (new.get("parameters") or {}) != (old.get("parameters") or {}):
        errors.append(forbidden("parameters", "updates to parameters are forbidden."))
    if new.get("provisioner") != old.get("provisioner"):
        errors.append(forbidden("provisioner", "updates to provisioner are forbidden."))
    fixed = ("reclaimPolicy", "volumeBindingMode")
    changed = [name for name in fixed if new.get(name) != old.get(name)]
    return errors + [invalid(name, new.get(name), _IMMUTABLE) for name in changed]


def priority_class_errors(new: Object, old: Object | None) -> list[FieldError]:
    name, value = new["metadata"].get("name", ""), new.get("value") or 0
    errors = []
    if name.startswith("system-") and value != SYSTEM_PRIORITIES.get(name):
        errors.append(forbidden("metadata.name", f"{_SYSTEM_NAMES}{name} {_not_known(name)}"))
    elif value > _HIGHEST_PRIORITY and name not in SYSTEM_PRIORITIES:
        why = f"maximum allowed value of a user defined priority is {_HIGHEST_PRIORITY}"
        errors.append(forbidden("value", why))
    if old is not None and new.get("value") != old.get("value"):
        errors.append(invalid("value", new.get("value"), "may not be changed in an update."))
    return errors


def _not_known(name: str) -> str:
    if name in SYSTEM_PRIORITIES:
        return f"value must be {SYSTEM_PRIORITIES[name]}"
    return "is not a known system priority class"
