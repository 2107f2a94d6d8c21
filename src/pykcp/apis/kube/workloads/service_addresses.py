"""Cluster IPs and node ports of services: which a service needs, keeps, asks for and gives up.

The rules are those of kube-apiserver; where addresses come from is behind `Pool`.
"""

from __future__ import annotations

from collections.abc import Collection
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import Any, NamedTuple, Protocol

from pykcp.machinery.status import (
    FieldError,
    InternalError,
    Invalid,
    duplicate,
    invalid,
    not_supported,
    required,
)
from pykcp.types import Object

_FAMILIES = {4: "IPv4", 6: "IPv6"}
_POLICIES = ("PreferDualStack", "RequireDualStack", "SingleStack")
_NONE = "None"
_OTHER_NETWORK = "the provided network does not match the current range"
_TOO_MANY_IPS = (
    "must be 'RequireDualStack' or 'PreferDualStack' when multiple cluster IPs are specified"
)
_TOO_MANY_FAMILIES = (
    "must be 'RequireDualStack' or 'PreferDualStack' when multiple IP families are specified"
)
_NO_DUAL_STACK = "this cluster is not configured for dual-stack services"
_MOST = 600
"""Of families and addresses more are not looked at: two are allowed, and no answer names as many."""
_NOT_AN_IP = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"


class ServiceRanges(NamedTuple):
    """Where cluster IPs and node ports are taken from, in each logical cluster."""

    addresses: IPv4Network | IPv6Network
    first_port: int
    last_port: int

    @property
    def family(self) -> str:
        return _FAMILIES[self.addresses.version]


def read_ranges(addresses: str, ports: str) -> ServiceRanges:
    """From the texts of flags; ValueError says what is wrong."""
    network = ip_network(addresses)
    if network.num_addresses < 8:
        raise ValueError(f"{addresses} has less than 8 addresses")
    first, _, last = ports.partition("-")
    if not 0 < int(first) <= int(last) < 1 << 16:
        raise ValueError(f"{ports} is not a range of ports")
    return ServiceRanges(network, int(first), int(last))


class Pool(Protocol):
    """The addresses and ports of one logical cluster, as one service sees them."""

    def is_free(self, value: str | int) -> bool:
        """Whether no other service has it."""

    def pick_address(self) -> str | None: ...

    def pick_port(self, used: Collection[int]) -> int | None:
        """A free one, other than these."""


def held_by(service: Object) -> set[str | int]:
    """Everything that a service has of the ranges."""
    spec = service.get("spec") or {}
    found: set[str | int] = {port["nodePort"] for port in _ports(spec) if port.get("nodePort")}
    if spec.get("healthCheckNodePort"):
        found.add(spec["healthCheckNodePort"])
    if spec.get("type") != "ExternalName":
        found |= {address for address in spec.get("clusterIPs") or () if address not in ("", _NONE)}
    return found


def allocate(service: Object, old: Object | None, ranges: ServiceRanges, pool: Pool) -> None:
    """Give a service what it needs, in place; Invalid if it asks for what it cannot have."""
    spec = service["spec"]
    before = (old or {}).get("spec") or {}
    if before:
        _drop_unneeded(spec, before)
        _keep_allocated(spec, before)
    _match_addresses(spec, before)
    if spec.get("type") != "ExternalName":
        _set_families(service, before, ranges)
        if not (before and before.get("clusterIP") == _NONE):
            _set_addresses(service, before, ranges, pool)
    if spec.get("type") in ("NodePort", "LoadBalancer"):
        _set_ports(service, before, ranges, pool)
    if _needs_health_check(spec) and not _needs_health_check(before):
        _set_health_check(spec, ranges, pool)


def _ports(spec: Object) -> list[Object]:
    return spec.get("ports") or []


def _match_addresses(spec: Object, before: Object) -> None:
    """`clusterIP` is the first of `clusterIPs`, whichever of them a client knows."""
    address, addresses = spec.get("clusterIP"), spec.get("clusterIPs")
    if not before:
        if address and not addresses:
            spec["clusterIPs"] = [address]
        return
    if address == before.get("clusterIP") or addresses != before.get("clusterIPs"):
        return
    if address:
        spec["clusterIPs"] = [address, *(addresses or ())[1:]]
    else:
        spec.pop("clusterIPs", None)


def _needs_ports(spec: Object) -> bool:
    kind = spec.get("type")
    return kind == "NodePort" or (
        kind == "LoadBalancer" and spec.get("allocateLoadBalancerNodePorts") is not False
    )


def _needs_health_check(spec: Object) -> bool:
    is_local = spec.get("externalTrafficPolicy") == "Local"
    return spec.get("type") == "LoadBalancer" and is_local


def _drop_unneeded(spec: Object, before: Object) -> None:
    """What the service had as another type and a client sends back unchanged."""

    def drop(*names: str) -> None:
        for name in names:
            if name in spec and spec[name] == before.get(name):
                del spec[name]

    was_balancer = before.get("type") == "LoadBalancer"
    if before.get("type") != "ExternalName" and spec.get("type") == "ExternalName":
        drop("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy")
    if _needs_ports(before) and not _needs_ports(spec):
        had = [port.get("nodePort") for port in _ports(before)]
        if had == [port.get("nodePort") for port in _ports(spec)]:
            for port in _ports(spec):
                port.pop("nodePort", None)
    if _needs_health_check(before) and not _needs_health_check(spec):
        drop("healthCheckNodePort")
    if spec.get("type") not in ("NodePort", "LoadBalancer"):
        drop("externalTrafficPolicy")
    if was_balancer and spec.get("type") != "LoadBalancer":
        drop("allocateLoadBalancerNodePorts", "loadBalancerClass")


def _keep_allocated(spec: Object, before: Object) -> None:
    """What a client that sends its own text again does not know."""
    if "ExternalName" not in (spec.get("type"), before.get("type")):
        for name in ("clusterIP", "clusterIPs"):
            if not spec.get(name) and before.get(name):
                spec[name] = before[name]
    if _needs_ports(before) and _needs_ports(spec):
        used = {port.get("nodePort") for port in _ports(spec)} - {None, 0}
        known = {port.get("name", ""): port.get("nodePort") for port in _ports(before)}
        for port in _ports(spec):
            earlier = known.get(port.get("name", ""))
            if not port.get("nodePort") and earlier and earlier not in used:
                port["nodePort"] = earlier
    health_port = before.get("healthCheckNodePort")
    if _needs_health_check(before) and _needs_health_check(spec) and health_port:
        spec["healthCheckNodePort"] = spec.get("healthCheckNodePort") or health_port


def _set_families(service: Object, before: Object, ranges: ServiceRanges) -> None:
    spec = service["spec"]
    is_open = spec.get("clusterIP") == _NONE and not spec.get("selector")
    if not spec.get("ipFamilyPolicy"):
        first = "RequireDualStack" if is_open else "SingleStack"
        spec["ipFamilyPolicy"] = before.get("ipFamilyPolicy") or first
    _reject(service, _field_errors(spec))
    policy, families = spec["ipFamilyPolicy"], list(spec.get("ipFamilies") or ())
    addresses = spec.get("clusterIPs") or ()
    errors = _single_stack_errors(policy, addresses, families)
    for index, address in enumerate(addresses[:_MOST]):
        if address == _NONE:
            break
        family = _FAMILIES[ip_address(address).version]
        if index >= len(families):
            families.append(family)
            if family != ranges.family:
                why = f"{family} is not configured on this cluster"
                errors.append(invalid(f"spec.clusterIPs[{index}]", addresses, why))
    _reject(service, errors)
    if is_open:
        families = families or [ranges.family]
        if len(families) < 2 and policy != "SingleStack":
            families.append("IPv6" if families[0] == "IPv4" else "IPv4")
    else:
        _reject(service, _configured_errors(policy, families, ranges))
    spec["ipFamilies"] = families or [ranges.family]


def _single_stack_errors(policy: str, addresses: Any, families: list[str]) -> list[FieldError]:
    errors = []
    if policy == "SingleStack" and len(addresses) > 1:
        errors.append(invalid("spec.ipFamilyPolicy", policy, _TOO_MANY_IPS))
    if policy == "SingleStack" and len(families) > 1:
        errors.append(invalid("spec.ipFamilyPolicy", policy, _TOO_MANY_FAMILIES))
    return errors


def _configured_errors(policy: str, families: list[str], ranges: ServiceRanges) -> list[FieldError]:
    errors = []
    if policy == "RequireDualStack":
        errors.append(invalid("spec.ipFamilyPolicy", policy, _NO_DUAL_STACK))
    for index, family in enumerate(families):
        if family != ranges.family:
            why = "not configured on this cluster"
            errors.append(invalid(f"spec.ipFamilies[{index}]", family, why))
    return errors


def _field_errors(spec: Object) -> list[FieldError]:
    address, addresses = spec.get("clusterIP") or "", spec.get("clusterIPs") or []
    errors = []
    if address and not addresses:
        errors.append(required("spec.clusterIPs"))
    elif address and addresses[0] != address:
        errors.append(invalid("spec.clusterIPs", addresses, "first value must match `clusterIP`"))
    elif addresses and not address:
        why = "must be empty when `clusterIP` is not specified"
        errors.append(invalid("spec.clusterIPs", addresses, why))
    seen: set[str] = set()
    for index, family in enumerate((spec.get("ipFamilies") or ())[:_MOST]):
        at = f"spec.ipFamilies[{index}]"
        if family not in _FAMILIES.values():
            errors.append(not_supported(at, family, tuple(_FAMILIES.values())))
        if family in seen:
            errors.append(duplicate(at, family))
        seen.add(family)
    if spec["ipFamilyPolicy"] not in _POLICIES:
        errors.append(not_supported("spec.ipFamilyPolicy", spec["ipFamilyPolicy"], _POLICIES))
    for index, one in enumerate(addresses[:_MOST]):
        if not (index == 0 and one == _NONE) and not _is_address(one):
            errors.append(invalid(f"spec.clusterIPs[{index}]", one, _NOT_AN_IP))
    if len(addresses) > 1 and addresses[0] == _NONE:
        why = "'None' must be the first and only value"
        errors.append(invalid("spec.clusterIPs", addresses, why))
    return errors


def _is_address(text: object) -> bool:
    try:
        ip_address(str(text))
    except ValueError:
        return False
    return True


def _set_addresses(service: Object, before: Object, ranges: ServiceRanges, pool: Pool) -> None:
    spec = service["spec"]
    addresses = spec.get("clusterIPs") or []
    if addresses[:1] == [_NONE] or addresses == (before.get("clusterIPs") or [None]):
        return
    if before and before.get("type") != "ExternalName":
        return  # the checks reject a change
    if addresses:
        why = _refusal(addresses[0], ranges, pool)
        if why:
            text = f"failed to allocate IP {addresses[0]}: {why}"
            _reject(service, [invalid("spec.clusterIPs", addresses, text)])
        return
    found = pool.pick_address()
    if found is None:
        name = service["metadata"].get("name", "")
        raise InternalError(f'failed to allocate a serviceIP for Service "{name}": range is full')
    spec["clusterIP"], spec["clusterIPs"] = found, [found]


def _refusal(address: str, ranges: ServiceRanges, pool: Pool) -> str:
    network, found = ranges.addresses, ip_address(address)
    if found not in network or found in (network.network_address, network.broadcast_address):
        return _OTHER_NETWORK
    return "" if pool.is_free(address) else "provided IP is already allocated"


def _set_ports(service: Object, before: Object, ranges: ServiceRanges, pool: Pool) -> None:
    spec = service["spec"]
    had = {port.get("nodePort") for port in _ports(before)}
    picks = _needs_ports(spec)
    taken: dict[int, int] = {}
    """By port of the service: TCP and UDP of the same port share a node port."""
    asked: dict[int, int] = {}
    """The first node port that one of the same port asks for."""
    for port in _ports(spec):
        if port.get("nodePort"):
            asked.setdefault(port.get("port", 0), port["nodePort"])
    used: set[int] = set()
    for index, port in enumerate(_ports(spec)):
        number, wanted = port.get("port", 0), port.get("nodePort") or 0
        if not wanted and not picks:
            continue
        shared = taken.get(number)
        if not wanted and shared is None:
            wanted = asked.get(number, 0)
        if not wanted:
            wanted = shared or _picked(pool, used)
        elif wanted not in had and wanted != shared:
            why = _port_refusal(wanted, ranges, pool, used)
            if why:
                _reject(service, [invalid(f"spec.ports[{index}].nodePort", wanted, why)])
        port["nodePort"] = wanted
        taken.setdefault(number, wanted)
        used.add(wanted)


def _picked(pool: Pool, used: set[int]) -> int:
    found = pool.pick_port(used)
    if found is None:
        raise InternalError("failed to allocate a nodePort: range is full")
    return found


def _port_refusal(number: int, ranges: ServiceRanges, pool: Pool, used: set[int]) -> str:
    first, last = ranges.first_port, ranges.last_port
    if not first <= number <= last:
        return (
            f"provided port is not in the valid range. The range of valid ports is {first}-{last}"
        )
    is_free = number not in used and pool.is_free(number)
    return "" if is_free else "provided port is already allocated"


def _set_health_check(spec: Object, ranges: ServiceRanges, pool: Pool) -> None:
    used = {port["nodePort"] for port in _ports(spec) if port.get("nodePort")}
    wanted = spec.get("healthCheckNodePort")
    if not wanted:
        spec["healthCheckNodePort"] = _picked(pool, used)
        return
    why = _port_refusal(wanted, ranges, pool, used)
    if why:
        text = f"failed to allocate requested HealthCheck NodePort {wanted}: {why}"
        raise InternalError(text)


def _reject(service: Object, errors: list[FieldError]) -> None:
    if errors:
        raise Invalid.fields("", "Service", service["metadata"].get("name", ""), errors)
