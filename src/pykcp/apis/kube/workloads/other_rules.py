"""Defaults and checks of kinds of which a cluster has few: nodes, claims of devices, addresses."""

from __future__ import annotations

import time
from collections.abc import Iterator
from ipaddress import IPv6Address, ip_address
from typing import Any

from pykcp.apis.kube.workloads.scheduling_checks import NOT_AN_IP
from pykcp.machinery.meta import now_rfc3339
from pykcp.machinery.status import FieldError, required
from pykcp.types import Object

_NODE_INFO = (
    "architecture", "bootID", "containerRuntimeVersion", "kernelVersion", "kubeProxyVersion",
    "kubeletVersion", "machineID", "operatingSystem", "osImage", "systemUUID",
)  # fmt: skip
GENERATION = "deprecated.daemonset.template.generation"
_MOST_DIGITS = 18


def default_node(node: Object) -> None:
    """What a kubelet has not reported yet is empty, not absent."""
    status = node.get("status") or {}
    known = status.get("nodeInfo") or {}
    status["nodeInfo"] = {**dict.fromkeys(_NODE_INFO, ""), **known}
    if not status.get("daemonEndpoints"):
        status["daemonEndpoints"] = {"kubeletEndpoint": {"Port": 0}}
    node["status"] = status


def default_daemon_set(daemon_set: Object, old: Object | None = None) -> None:
    """Count the changes of the template in an annotation, as kube-apiserver still does."""
    number = 1
    if old is not None:
        noted = ((old.get("metadata") or {}).get("annotations") or {}).get(GENERATION) or "1"
        number = int(noted) if _is_number(noted) else 1
        before, after = ((one.get("spec") or {}).get("template") for one in (old, daemon_set))
        number += before != after
    metadata = daemon_set["metadata"]
    metadata["annotations"] = {**(metadata.get("annotations") or {}), GENERATION: str(number)}


def _is_number(text: str) -> bool:
    """Whether Go would read it as an integer; Python reads other digits, too."""
    return text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS


def default_claim_templates(stateful_set: Object) -> None:
    for claim in (stateful_set.get("spec") or {}).get("volumeClaimTemplates") or ():
        claim.setdefault("apiVersion", "v1")
        claim.setdefault("kind", "PersistentVolumeClaim")
        if not (claim.get("status") or {}).get("phase"):
            claim["status"] = {**(claim.get("status") or {}), "phase": "Pending"}


# --- devices


def default_device_claim(claim: Object) -> None:
    _default_devices(claim.get("spec") or {})


def default_device_claim_template(template: Object) -> None:
    spec = template.get("spec")
    if isinstance(spec, dict):
        spec["metadata"] = spec.get("metadata") or {}
        _default_devices(spec.get("spec") or {})


def _default_devices(spec: Object) -> None:
    for request in _device_requests(spec):
        if not request.get("allocationMode"):
            request["allocationMode"] = "ExactCount"
        if request["allocationMode"] == "ExactCount" and not request.get("count"):
            request["count"] = 1
        for toleration in request.get("tolerations") or ():
            toleration["operator"] = toleration.get("operator") or "Equal"


def _device_requests(spec: Object) -> Iterator[Object]:
    for request in (spec.get("devices") or {}).get("requests") or ():
        if request.get("exactly"):
            yield request["exactly"]
        yield from request.get("firstAvailable") or ()


def default_device_slice(devices: Object) -> None:
    """A taint without a time was added now."""
    now = now_rfc3339(time.time())
    for device in (devices.get("spec") or {}).get("devices") or ():
        for taint in device.get("taints") or ():
            taint["timeAdded"] = taint.get("timeAdded") or now


# --- network


def default_ingress_class(ingress_class: Object) -> None:
    parameters = (ingress_class.get("spec") or {}).get("parameters")
    if parameters:
        parameters["scope"] = parameters.get("scope") or "Cluster"


def default_endpoint_slice(endpoint_slice: Object) -> None:
    for endpoint in endpoint_slice.get("endpoints") or ():
        endpoint["conditions"] = endpoint.get("conditions") or {}
    for port in endpoint_slice.get("ports") or ():
        if port.get("name") is None:
            port["name"] = ""


def count_labels(endpoint_slice: Object, old: Object) -> None:
    """A change of labels is a new generation, too: other slices belong to another service."""
    before, after = (one["metadata"].get("labels") or {} for one in (old, endpoint_slice))
    if before != after:
        endpoint_slice["metadata"]["generation"] = (old["metadata"].get("generation") or 0) + 1


def address_name_errors(name: str) -> list[str]:
    """Why the name of an IPAddress is not the usual text of an address."""
    try:
        found = ip_address(name)
    except ValueError:
        has_zeros = name.count(".") == 3 and all(map(_is_number, name.split(".")))
        return ["must not have leading 0s" if has_zeros and _is_padded(name) else NOT_AN_IP]
    if isinstance(found, IPv6Address) and found.ipv4_mapped is not None:
        return ["must not be an IPv4-mapped IPv6 address"]
    return [] if str(found) == name else [f'must be in canonical form ("{found}")']


def _is_padded(name: str) -> bool:
    parts = name.split(".")
    return all(int(part) < 256 for part in parts) and any(part != str(int(part)) for part in parts)


# --- flow control


def default_flow_schema(schema: Object) -> None:
    spec = schema.get("spec")
    if isinstance(spec, dict):
        spec["matchingPrecedence"] = spec.get("matchingPrecedence") or 1000


def default_priority_level(level: Object) -> None:
    spec = level.get("spec") or {}
    for name, shares in (("exempt", 0), ("limited", 30)):
        part = spec.get(name)
        if isinstance(part, dict):
            _fill(part, nominalConcurrencyShares=shares, lendablePercent=0)
    queuing = ((spec.get("limited") or {}).get("limitResponse") or {}).get("queuing")
    if isinstance(queuing, dict):
        for field, number in (("handSize", 8), ("queues", 64), ("queueLengthLimit", 50)):
            queuing[field] = queuing.get(field) or number


def _fill(part: Object, **values: Any) -> None:
    for name, value in values.items():
        if part.get(name) is None:
            part[name] = value


def priority_level_errors(new: Object, _old: Object | None) -> list[FieldError]:
    response = ((new.get("spec") or {}).get("limited") or {}).get("limitResponse") or {}
    at = "spec.limited.limitResponse.queuing"
    if response.get("type") == "Queue" and response.get("queuing") is None:
        why = "must not be empty if limited.limitResponse.type is Limited"
        return [required(at, why)]
    return []
