"""Checks of where pods run and as whom: affinity, gates, DNS, security. The texts are Kubernetes'."""

from __future__ import annotations

import re
from ipaddress import ip_address
from typing import Any

from pykcp.apis.kube.validation.objectmeta import selector_operator_errors, validate_label_selector
from pykcp.apis.kube.workloads.container_checks import Errors, seccomp_errors
from pykcp.machinery import names
from pykcp.machinery.status import forbidden, invalid, not_supported, required
from pykcp.types import Object

NOT_AN_IP = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_WEIGHT = "must be in the range 1-100"
_ID = "must be between 0 and 2147483647, inclusive"
_SYSCTL = r"^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$"
_NUMERIC = ("Gt", "Lt")


def placement_errors(spec: Object, path: str) -> Errors:
    yield from _affinity(spec.get("affinity") or {}, f"{path}.affinity")
    yield from _dns(spec, path)
    for index, gate in enumerate(spec.get("readinessGates") or ()):
        kind, at = gate.get("conditionType") or "", f"{path}.readinessGates[{index}].conditionType"
        yield from (invalid(at, kind, why) for why in names.qualified_name(kind))
    for index, gate in enumerate(spec.get("schedulingGates") or ()):
        name, at = gate.get("name") or "", f"{path}.schedulingGates[{index}]"
        yield from (invalid(at, name, why) for why in names.qualified_name(name))


def is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


# --- affinity


def _affinity(affinity: Object, path: str) -> Errors:
    node = affinity.get("nodeAffinity") or {}
    yield from _node_affinity(node, f"{path}.nodeAffinity")
    for kind in ("podAffinity", "podAntiAffinity"):
        given = affinity.get(kind) or {}
        for index, term in enumerate(given.get(_REQUIRED) or ()):
            yield from _pod_term(term, f"{path}.{kind}.{_REQUIRED}[{index}]")
        for index, one in enumerate(given.get(_PREFERRED) or ()):
            at = f"{path}.{kind}.{_PREFERRED}[{index}]"
            yield from _weight(one, at)
            yield from _pod_term(one.get("podAffinityTerm") or {}, f"{at}.podAffinityTerm")


def _node_affinity(affinity: Object, path: str) -> Errors:
    needed = affinity.get(_REQUIRED)
    if needed is not None:
        terms = needed.get("nodeSelectorTerms") or ()
        if not terms:
            why = "must have at least one node selector term"
            yield required(f"{path}.{_REQUIRED}.nodeSelectorTerms", why)
        for index, term in enumerate(terms):
            yield from _node_term(term, f"{path}.{_REQUIRED}.nodeSelectorTerms[{index}]")
    for index, one in enumerate(affinity.get(_PREFERRED) or ()):
        at = f"{path}.{_PREFERRED}[{index}]"
        yield from _weight(one, at)
        yield from _node_term(one.get("preference") or {}, f"{at}.preference")


def _node_term(term: Object, path: str) -> Errors:
    for index, expression in enumerate(term.get("matchExpressions") or ()):
        at = f"{path}.matchExpressions[{index}]"
        if expression.get("operator") in _NUMERIC:
            if len(expression.get("values") or ()) != 1:
                why = "must be specified single value when `operator` is 'Lt' or 'Gt'"
                yield required(f"{at}.values", why)
        else:
            yield from selector_operator_errors(expression, at)
        key = expression.get("key") or ""
        yield from (invalid(f"{at}.key", key, why) for why in names.qualified_name(key))


def _weight(one: Object, path: str) -> Errors:
    if not 1 <= (one.get("weight") or 0) <= 100:
        yield invalid(f"{path}.weight", one.get("weight") or 0, _WEIGHT)


def _pod_term(term: Object, path: str) -> Errors:
    yield from validate_label_selector(term.get("labelSelector"), f"{path}.labelSelector")
    selector = term.get("namespaceSelector")
    yield from validate_label_selector(selector, f"{path}.namespaceSelector")
    for index, name in enumerate(term.get("namespaces") or ()):
        at = f"{path}.namespaces[{index}]"
        yield from (invalid(at, name, why) for why in names.dns1123_label(name))
    key = term.get("topologyKey") or ""
    if not key:
        yield required(f"{path}.topologyKey", "can not be empty")
    yield from (invalid(f"{path}.topologyKey", key, why) for why in names.qualified_name(key))


# --- DNS


def _dns(spec: Object, path: str) -> Errors:
    config = spec.get("dnsConfig")
    if spec.get("dnsPolicy") == "None":
        if config is None:
            why = "must provide `dnsConfig` when `dnsPolicy` is None"
            yield required(f"{path}.dnsConfig", why)
        elif not config.get("nameservers"):
            why = "must provide at least one DNS nameserver when `dnsPolicy` is None"
            yield required(f"{path}.dnsConfig.nameservers", why)
    for index, address in enumerate((config or {}).get("nameservers") or ()):
        if not is_address(address):
            yield invalid(f"{path}.dnsConfig.nameservers[{index}]", address, NOT_AN_IP)


# --- security of the whole pod


def security_errors(spec: Object, path: str) -> Errors:
    context = spec.get("securityContext") or {}
    at = f"{path}.securityContext"
    for name in ("fsGroup", "runAsUser", "runAsGroup"):
        yield from id_errors(context.get(name), f"{at}.{name}")
    for index, group in enumerate(context.get("supplementalGroups") or ()):
        yield from id_errors(group, f"{at}.supplementalGroups[{index}]")
    if spec.get("shareProcessNamespace") and spec.get("hostPID"):
        why = "ShareProcessNamespace and HostPID cannot both be enabled"
        yield invalid(f"{at}.shareProcessNamespace", True, why)
    for index, sysctl in enumerate(context.get("sysctls") or ()):
        name = sysctl.get("name") or ""
        if not re.match(_SYSCTL, name) or len(name) > 253:
            why = f"must have at most 253 characters and match regex {_SYSCTL}"
            yield invalid(f"{at}.sysctls[{index}].name", name, why)
    change, allowed = context.get("fsGroupChangePolicy"), ("Always", "OnRootMismatch")
    if change not in (None, *allowed):
        yield not_supported(f"{at}.fsGroupChangePolicy", change, allowed)
    yield from seccomp_errors(context.get("seccompProfile"), f"{at}.seccompProfile")
    if spec.get("hostUsers") is False:
        for name, shown in (("hostPID", "HostPID"), ("hostIPC", "HostIPC")):
            if spec.get(name):
                yield forbidden(f"{path}.{shown}", "when `hostUsers` is false")
    system, systems = (spec.get("os") or {}).get("name"), ("linux", "windows")
    if system is not None and system not in systems:
        yield not_supported(f"{path}.os", system, systems)


def id_errors(number: Any, path: str) -> Errors:
    """The number of a user or a group."""
    if number is not None and not 0 <= number < 1 << 31:
        yield invalid(path, number, _ID)
