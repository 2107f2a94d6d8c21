"""Defaults and checks of services, ingresses, claims, budgets and autoscalers."""

from __future__ import annotations

from typing import Any

from pykcp.machinery import names
from pykcp.machinery.status import FieldError, duplicate, forbidden, invalid, required
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
    earlier = (old or {}).get("spec") or {}
    if (
        earlier.get("clusterIP")
        and "ExternalName" not in (kind, earlier.get("type"))
        and spec.get("clusterIP") != earlier["clusterIP"]
    ):
        errors.append(invalid("spec.clusterIPs[0]", [spec.get("clusterIP")], _SET_ONCE))
    return errors


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
        target = port.get("targetPort")
        if isinstance(target, int):
            errors += [invalid(f"{at}.targetPort", target, w) for w in names.port_number(target)]
    return errors


def ingress_errors(new: Object, _old: Object | None) -> list[FieldError]:
    spec, errors = new.get("spec") or {}, []
    rules, backend = spec.get("rules") or (), spec.get("defaultBackend")
    if not rules and backend is None:
        why = "either `defaultBackend` or `rules` must be specified"
        errors.append(invalid("spec", spec.get("rules"), why))
    if backend is not None:
        errors += _backend_errors(backend, "spec.defaultBackend")
    for index, rule in enumerate(rules):
        http = rule.get("http")
        if http is None:
            continue
        at = f"spec.rules[{index}].http.paths"
        if not http.get("paths"):
            errors.append(required(at))
        for number, path in enumerate(http.get("paths") or ()):
            errors += _path_errors(path, f"{at}[{number}]")
    return errors


def _path_errors(path: Object, at: str) -> list[FieldError]:
    kind, given = path.get("pathType"), path.get("path") or ""
    if kind is None:
        return [required(f"{at}.pathType", "pathType must be specified")]
    errors = []
    if not given.startswith("/") and (given or kind != "ImplementationSpecific"):
        errors.append(invalid(f"{at}.path", given, "must be an absolute path"))
    return errors + _backend_errors(path.get("backend") or {}, f"{at}.backend")


def _backend_errors(backend: Object, at: str) -> list[FieldError]:
    service, resource = backend.get("service"), backend.get("resource")
    if service is not None and resource is not None:
        return [invalid(at, "", "cannot set both resource and service backends")]
    if resource is not None:
        return []
    if service is None:
        return [invalid(at, "", "resource or service backend is required")]
    errors = [] if service.get("name") else [required(f"{at}.service.name")]
    port = service.get("port") or {}
    if port.get("name") and port.get("number"):
        errors.append(invalid(at, "", "cannot set both port name & port number"))
    elif not port.get("name") and not port.get("number"):
        errors.append(required(at, "port name or number is required"))
    return errors


def claim_errors(new: Object, old: Object | None) -> list[FieldError]:
    spec, errors = new.get("spec") or {}, []
    if not spec.get("accessModes"):
        errors.append(required("spec.accessModes", "at least 1 access mode is required"))
    if "storage" not in ((spec.get("resources") or {}).get("requests") or {}):
        errors.append(required("spec.resources[storage]"))
    if old is not None and _claimed(new) != _claimed(old, new):
        errors.append(forbidden("spec", _CLAIM_UPDATE))
    return errors


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
    if spec.get("minAvailable") is not None and spec.get("maxUnavailable") is not None:
        return [invalid("spec", spec, "minAvailable and maxUnavailable cannot be both set")]
    return []


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
    if high < 1:
        errors.append(invalid("spec.maxReplicas", high, "must be greater than 0"))
    if low is not None and high < low:
        why = "must be greater than or equal to `minReplicas`"
        errors.append(invalid("spec.maxReplicas", high, why))
    return errors


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
