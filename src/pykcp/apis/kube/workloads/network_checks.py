"""Checks of ingresses' hosts and of network policies. The texts are Kubernetes'."""

from __future__ import annotations

import re
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Any

from pykcp.apis.kube.validation.objectmeta import validate_label_selector
from pykcp.apis.kube.workloads.container_checks import Errors, port_name_problems
from pykcp.apis.kube.workloads.scheduling_checks import is_address
from pykcp.machinery import names
from pykcp.machinery.status import FieldError, forbidden, invalid, not_supported, required
from pykcp.types import Object

_TYPES = ("Ingress", "Egress")
_PROTOCOLS = ("TCP", "UDP", "SCTP")
_CIDR = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
_WILDCARD = r"\*\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
_WILDCARD_TEXT = (
    "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of "
    "lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character"
)


def ingress_host_errors(spec: Object) -> Errors:
    for index, rule in enumerate(spec.get("rules") or ()):
        host, at = rule.get("host") or "", f"spec.rules[{index}].host"
        if host:
            if is_address(host):
                yield invalid(at, host, "must be a DNS name, not an IP address")
            yield from _host(host, at)


def ingress_end_errors(spec: Object) -> Errors:
    """TLS and the class: checked after the rules."""
    for index, entry in enumerate(spec.get("tls") or ()):
        for number, host in enumerate(entry.get("hosts") or ()):
            yield from _host(host, f"spec.tls[{index}].hosts[{number}]")
        name = entry.get("secretName") or ""
        at = f"spec.tls[{index}].secretName"
        if name:
            yield from (invalid(at, name, why) for why in names.dns1123_subdomain(name))
    name = spec.get("ingressClassName")
    if name is not None:
        problems = names.dns1123_subdomain(name)
        yield from (invalid("spec.ingressClassName", name, why) for why in problems)


def _host(host: str, path: str) -> Errors:
    if "*" not in host:
        yield from (invalid(path, host, why) for why in names.dns1123_subdomain(host))
    elif not re.fullmatch(_WILDCARD, host):
        why = names.regex_error(_WILDCARD_TEXT, _WILDCARD, "*.example.com")
        yield invalid(path, host, why)


def network_policy_errors(new: Object, _old: Object | None) -> list[FieldError]:
    spec = new.get("spec") or {}
    return [
        *validate_label_selector(spec.get("podSelector") or {}, "spec.podSelector"),
        *_rules(spec, "ingress", "from"),
        *_rules(spec, "egress", "to"),
        *_types(spec.get("policyTypes") or []),
    ]


def _types(types: list[str]) -> Errors:
    if len(types) > len(_TYPES):
        yield invalid("spec.policyTypes", types, "may not specify more than two policyTypes")
        return
    for index, kind in enumerate(types):
        if kind not in _TYPES:
            yield not_supported(f"spec.policyTypes[{index}]", kind, _TYPES)


def _rules(spec: Object, direction: str, peers: str) -> Errors:
    for index, rule in enumerate(spec.get(direction) or ()):
        at = f"spec.{direction}[{index}]"
        for number, port in enumerate(rule.get("ports") or ()):
            yield from _port(port, f"{at}.ports[{number}]")
        for number, peer in enumerate(rule.get(peers) or ()):
            yield from _peer(peer, f"{at}.{peers}[{number}]")


def _port(port: Object, path: str) -> Errors:
    protocol = port.get("protocol")
    if protocol not in (None, *_PROTOCOLS):
        yield not_supported(f"{path}.protocol", protocol, _PROTOCOLS)
    number, end = port.get("port"), port.get("endPort")
    if number is None:
        if end is not None:
            why = "may not be specified when `port` is not specified"
            yield invalid(f"{path}.endPort", end, why)
    elif isinstance(number, int):
        yield from (invalid(f"{path}.port", number, why) for why in names.port_number(number))
        if end is not None:
            if end < number:
                why = "must be greater than or equal to `port`"
                yield invalid(f"{path}.endPort", number, why)
            yield from (invalid(f"{path}.endPort", end, why) for why in names.port_number(end))
    else:
        if end is not None:
            why = "may not be specified when `port` is non-numeric"
            yield invalid(f"{path}.endPort", end, why)
        yield from (invalid(f"{path}.port", number, why) for why in port_name_problems(number))


def _peer(peer: Object, path: str) -> Errors:
    given = [
        name
        for name in ("podSelector", "namespaceSelector", "ipBlock")
        if peer.get(name) is not None
    ]
    for name in given:
        if name == "ipBlock":
            yield from _block(peer[name], f"{path}.{name}")
        else:
            yield from validate_label_selector(peer[name], f"{path}.{name}")
    if not given:
        yield required(path, "must specify a peer")
    elif len(given) > 1 and "ipBlock" in given:
        yield forbidden(path, "may not specify both ipBlock and another peer")


def cidr_errors(text: str, path: str) -> Errors:
    if _network(text) is None:
        yield invalid(path, text, _CIDR)


def _block(block: Object, path: str) -> Errors:
    cidr = block.get("cidr") or ""
    if not cidr:
        yield required(f"{path}.cidr")
        return
    network = _network(cidr)
    if network is None:
        yield invalid(f"{path}.cidr", cidr, _CIDR)
        return
    for index, text in enumerate(block.get("except") or ()):
        at, inner = f"{path}.except[{index}]", _network(text)
        if inner is None:
            yield invalid(at, text, _CIDR)
        elif not _is_inside(inner, network):
            yield invalid(at, text, "must be a strict subset of `cidr`")


def _network(text: Any) -> IPv4Network | IPv6Network | None:
    if "/" not in str(text):
        return None
    try:
        return ip_network(str(text), strict=False)
    except ValueError:
        return None


def _is_inside(inner: IPv4Network | IPv6Network, outer: IPv4Network | IPv6Network) -> bool:
    return (
        inner.version == outer.version
        and inner.prefixlen > outer.prefixlen
        and inner.network_address in outer
    )
