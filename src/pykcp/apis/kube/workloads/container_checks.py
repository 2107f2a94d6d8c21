"""Checks of containers: ports, variables, mounts, probes and resources. The texts are Kubernetes'."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from typing import Any

from pykcp.machinery import names
from pykcp.machinery.quantity import Quantity, parse
from pykcp.machinery.status import (
    FieldError,
    duplicate,
    forbidden,
    invalid,
    not_found,
    not_supported,
    required,
)
from pykcp.types import Object

Errors = Iterator[FieldError]
PROTOCOLS = ("SCTP", "TCP", "UDP")
NOT_NEGATIVE = "must be greater than or equal to 0"
_POLICIES = ("Always", "IfNotPresent", "Never")
_MESSAGES = ("File", "FallbackToLogsOnError")
_SCHEMES = ("HTTP", "HTTPS")
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc", "sleep")
_NOT_FOR_INIT = "may not be set for init containers without restartPolicy=Always"
_STANDARD = ("cpu", "memory", "ephemeral-storage")
_PROC_MOUNTS = ("Default", "Unmasked")
_SECCOMP = ("Localhost", "RuntimeDefault", "Unconfined")
_RESIZED = ("cpu", "memory")
_RESIZE_POLICIES = ("NotRequired", "RestartContainer")
_RESTARTS = ("Always", "Never", "OnFailure")
_HEADER = "a valid HTTP header must consist of alphanumeric characters or '-'"
_FIELDS = (
    "metadata.name", "metadata.namespace", "metadata.uid", "metadata.annotations", "metadata.labels",
    "spec.nodeName", "spec.serviceAccountName", "status.hostIP", "status.hostIPs", "status.podIP",
    "status.podIPs",
)  # fmt: skip
_AMOUNTS = (
    "limits.cpu", "limits.ephemeral-storage", "limits.memory", "requests.cpu",
    "requests.ephemeral-storage", "requests.memory",
)  # fmt: skip
_PORT_NAME_MAX = 15
_ONE_SOURCE = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
_SOURCES = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")
_VARIABLE = "a valid environment variable name must consist only of printable ASCII characters other than '='"


def container_errors(spec: Object, path: str, volumes: Collection[str]) -> Errors:
    """Of all containers of a pod; `volumes`: names that may be mounted."""
    known: set[str] = set()
    if not spec.get("containers"):
        yield required(f"{path}.containers")
    for index, container in enumerate(spec.get("containers") or ()):
        at = f"{path}.containers[{index}]"
        yield from _common(container, at, volumes, spec)
        yield from _unique(container, at, known)
        yield from _running(container, at)
    yield from _host_ports(spec.get("containers") or (), f"{path}.containers", set())
    for index, container in enumerate(spec.get("initContainers") or ()):
        at = f"{path}.initContainers[{index}]"
        yield from _common(container, at, volumes, spec)
        yield from _unique(container, at, known)
        if container.get("restartPolicy") == "Always":
            yield from _running(container, at)
        else:
            for name in ("lifecycle", *_PROBES):
                if container.get(name) is not None:
                    yield forbidden(f"{at}.{name}", _NOT_FOR_INIT)
        yield from _host_ports([container], f"{path}.initContainers", set())


def image_errors(spec: Object, path: str) -> Errors:
    """What is checked of pods and not of templates."""
    for group in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(group) or ()):
            image = container.get("image") or ""
            if image != image.strip():
                why = "must not have leading or trailing whitespace"
                yield invalid(f"{path}.{group}[{index}].image", image, why)


def _unique(container: Object, path: str, known: set[str]) -> Errors:
    name = container.get("name") or ""
    if name in known:
        yield duplicate(f"{path}.name", name)
    known.add(name)


def _common(container: Object, path: str, volumes: Collection[str], spec: Object) -> Errors:
    yield from label_errors(container.get("name"), f"{path}.name")
    if not container.get("image"):
        yield required(f"{path}.image")
    policy = container.get("terminationMessagePolicy")
    if policy not in (None, *_MESSAGES):
        yield not_supported(f"{path}.terminationMessagePolicy", policy, _MESSAGES)
    yield from _ports(container.get("ports") or (), f"{path}.ports")
    yield from _variables(container, path)
    yield from _mounts(container, path, volumes)
    yield from _devices(container, path, volumes)
    pull = container.get("imagePullPolicy")
    if pull not in (None, *_POLICIES):
        yield not_supported(f"{path}.imagePullPolicy", pull, _POLICIES)
    yield from resource_errors(container.get("resources") or {}, f"{path}.resources")
    for name, allowed in (("resourceName", _RESIZED), ("restartPolicy", _RESIZE_POLICIES)):
        for one in container.get("resizePolicy") or ():
            if one.get(name) not in allowed:
                yield not_supported(f"{path}.resizePolicy", one.get(name) or "", allowed)
    restart = container.get("restartPolicy")
    if restart not in (None, *_RESTARTS):
        yield not_supported(f"{path}.restartPolicy", restart, _RESTARTS)
    yield from _security(container.get("securityContext") or {}, f"{path}.securityContext", spec)


def label_errors(name: Any, path: str) -> Errors:
    """A name is there, and is a DNS label."""
    if not name:
        yield required(path)
        return
    yield from (invalid(path, name, why) for why in names.dns1123_label(name))


# --- ports


def port_name_problems(name: str) -> Iterator[str]:
    if len(name) > _PORT_NAME_MAX:
        yield f"must be no more than {_PORT_NAME_MAX} characters"
    if not re.fullmatch(r"[-a-z0-9]+", name):
        yield "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)"
    if not re.search(r"[a-z]", name):
        yield "must contain at least one letter (a-z)"
    if "--" in name:
        yield "must not contain consecutive hyphens"
    if name[:1] == "-" or name[-1:] == "-":
        yield "must not begin or end with a hyphen"


def port_or_name_errors(port: Any, path: str) -> Errors:
    problems: Any = (
        names.port_number(port) if isinstance(port, int) else port_name_problems(str(port or ""))
    )
    yield from (invalid(path, port, why) for why in problems)


def _ports(ports: Any, path: str) -> Errors:
    known: set[str] = set()
    for index, port in enumerate(ports):
        at, name = f"{path}[{index}]", port.get("name") or ""
        problems = list(port_name_problems(name)) if name else []
        yield from (invalid(f"{at}.name", name, why) for why in problems)
        if name and not problems:
            if name in known:
                yield duplicate(f"{at}.name", name)
            known.add(name)
        number = port.get("containerPort") or 0
        if not number:
            yield required(f"{at}.containerPort")
        else:
            yield from (
                invalid(f"{at}.containerPort", number, w) for w in names.port_number(number)
            )
        if host := port.get("hostPort"):
            yield from (invalid(f"{at}.hostPort", host, why) for why in names.port_number(host))
        yield from protocol_errors(port.get("protocol"), f"{at}.protocol")


def protocol_errors(protocol: Any, path: str) -> Errors:
    if protocol not in (None, *PROTOCOLS):
        yield not_supported(path, protocol, PROTOCOLS)


def _host_ports(containers: Any, path: str, known: set[str]) -> Errors:
    for index, container in enumerate(containers):
        for number, port in enumerate(container.get("ports") or ()):
            if not port.get("hostPort"):
                continue
            protocol = port.get("protocol") or "TCP"
            text = f"{protocol}/{port.get('hostIP') or ''}/{port['hostPort']}"
            if text in known:
                yield duplicate(f"{path}[{index}].ports[{number}].hostPort", text)
            known.add(text)


# --- variables


def _variables(container: Object, path: str) -> Errors:
    for index, variable in enumerate(container.get("env") or ()):
        at, name = f"{path}.env[{index}]", variable.get("name") or ""
        if not name:
            yield required(f"{at}.name")
        elif not _is_variable(name):
            yield invalid(f"{at}.name", name, _VARIABLE)
        source = variable.get("valueFrom")
        if source is not None:
            yield from _source(variable, source, f"{at}.valueFrom")
    for index, source in enumerate(container.get("envFrom") or ()):
        at = f"{path}.envFrom[{index}]"
        prefix = source.get("prefix") or ""
        if prefix and not _is_variable(prefix):
            yield invalid(f"{at}.prefix", prefix, _VARIABLE)
        given = [name for name in ("configMapRef", "secretRef") if source.get(name) is not None]
        for name in given:
            if not source[name].get("name"):
                yield required(f"{at}.{name}.name")
        if not given:
            why = "must specify one of: `configMapRef` or `secretRef`"
            yield invalid(f"{path}.envFrom", "", why)
        elif len(given) > 1:
            why = "may not have more than one field specified at a time"
            yield invalid(f"{path}.envFrom", "", why)


def _is_variable(name: str) -> bool:
    return all(" " <= letter <= "~" and letter != "=" for letter in name)


def _source(variable: Object, source: Object, path: str) -> Errors:
    given = [name for name in _SOURCES if source.get(name) is not None]
    yield from _field_ref(source.get("fieldRef"), f"{path}.fieldRef")
    resource = (source.get("resourceFieldRef") or {}).get("resource")
    if resource and resource not in _AMOUNTS and ".hugepages-" not in resource:
        yield not_supported(f"{path}.resourceFieldRef.resource", resource, _AMOUNTS)
    for name in ("configMapKeyRef", "secretKeyRef"):
        if name not in given:
            continue
        whose = source[name].get("name") or ""
        problems = names.dns1123_subdomain(whose)
        yield from (invalid(f"{path}.{name}.name", whose, why) for why in problems)
        key = source[name].get("key") or ""
        if not key:
            yield required(f"{path}.{name}.key")
        else:
            yield from (invalid(f"{path}.{name}.key", key, w) for w in names.config_key(key))
    if not given:
        yield invalid(path, "", _ONE_SOURCE)
    elif variable.get("value"):
        yield invalid(path, "", "may not be specified when `value` is not empty")
    elif len(given) > 1:
        yield invalid(path, "", "may not have more than one field specified at a time")


def _field_ref(reference: Object | None, path: str) -> Errors:
    if reference is None:
        return
    field = reference.get("fieldPath") or ""
    if not field:
        yield required(f"{path}.fieldPath")
    elif field.partition("[")[0] not in _FIELDS:
        why = f"error converting fieldPath: field label not supported: {field}"
        yield invalid(f"{path}.fieldPath", field, why)


# --- mounts


def _mounts(container: Object, path: str, volumes: Collection[str]) -> Errors:
    known: set[str] = set()
    for index, mount in enumerate(container.get("volumeMounts") or ()):
        at, name = f"{path}.volumeMounts[{index}]", mount.get("name") or ""
        if not name:
            yield required(f"{at}.name")
        if name not in volumes:
            yield not_found(f"{at}.name", name)
        place = mount.get("mountPath") or ""
        if not place:
            yield required(f"{at}.mountPath")
        if place in known:
            yield invalid(f"{at}.mountPath", place, "must be unique")
        known.add(place)
        for name in ("subPath", "subPathExpr"):
            yield from local_path_errors(mount.get(name) or "", f"{path}.volumeMounts.{name}")
        if mount.get("subPath") and mount.get("subPathExpr"):
            why = "subPathExpr and subPath are mutually exclusive"
            yield invalid(f"{at}.subPathExpr", mount["subPathExpr"], why)


def _devices(container: Object, path: str, volumes: Collection[str]) -> Errors:
    for index, device in enumerate(container.get("volumeDevices") or ()):
        at, name = f"{path}.volumeDevices[{index}]", device.get("name") or ""
        if name not in volumes:
            yield not_found(f"{at}.name", name)
        if not device.get("devicePath"):
            yield required(f"{at}.devicePath")


def local_path_errors(text: str, path: str) -> Errors:
    """A path that leads nowhere but down."""
    if text.startswith("/"):
        yield invalid(path, text, "must be a relative path")
    if ".." in text.split("/"):
        yield invalid(path, text, "must not contain '..'")


# --- probes and hooks


def _running(container: Object, path: str) -> Errors:
    """What only containers have that keep running."""
    lifecycle = container.get("lifecycle") or {}
    for name in ("postStart", "preStop"):
        if lifecycle.get(name) is not None:
            yield from _handler(lifecycle[name], f"{path}.lifecycle.{name}")
    for name in _PROBES:
        probe = container.get(name)
        if probe is None:
            continue
        yield from _probe(probe, f"{path}.{name}")
        successes = probe.get("successThreshold")
        if name != "readinessProbe":
            if successes not in (None, 1):
                yield invalid(f"{path}.{name}.successThreshold", successes, "must be 1")
        elif (grace := probe.get("terminationGracePeriodSeconds")) is not None:
            at = f"{path}.{name}.terminationGracePeriodSeconds"
            yield invalid(at, grace, "must not be set for readinessProbes")


def _probe(probe: Object, path: str) -> Errors:
    yield from _handler(probe, path)
    for name in (
        "initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold",
    ):  # fmt: skip
        if (probe.get(name) or 0) < 0:
            yield invalid(f"{path}.{name}", probe[name], NOT_NEGATIVE)
    grace = probe.get("terminationGracePeriodSeconds")
    if grace is not None and grace <= 0:
        yield invalid(f"{path}.terminationGracePeriodSeconds", grace, "must be greater than 0")


def _handler(handler: Object, path: str) -> Errors:
    given = [name for name in _HANDLERS if handler.get(name) is not None]
    if not given:
        yield required(path, "must specify a handler type")
        return
    first, *others = given
    check = _ACTIONS.get(first)
    if check is not None:
        yield from check(handler[first], f"{path}.{first}")
    for name in others:
        yield forbidden(f"{path}.{name}", "may not specify more than 1 handler type")


def _exec(action: Object, path: str) -> Errors:
    if not action.get("command"):
        yield required(f"{path}.command")


def _http(action: Object, path: str) -> Errors:
    yield from port_or_name_errors(action.get("port"), f"{path}.port")
    scheme = action.get("scheme")
    if scheme not in (None, *_SCHEMES):
        yield not_supported(f"{path}.scheme", scheme, _SCHEMES)
    for header in action.get("httpHeaders") or ():
        name = header.get("name") or ""
        if not re.fullmatch(r"[-A-Za-z0-9]+", name):
            why = names.regex_error(_HEADER, "[-A-Za-z0-9]+", "X-Header-Name")
            yield invalid(f"{path}.httpHeaders", name, why)


def _socket(action: Object, path: str) -> Errors:
    yield from port_or_name_errors(action.get("port"), f"{path}.port")


_ACTIONS: dict[str, Callable[[Object, str], Errors]] = {
    "exec": _exec,
    "httpGet": _http,
    "tcpSocket": _socket,
    "grpc": _socket,
}


# --- resources


def resource_errors(resources: Object, path: str) -> Errors:
    limits = {name: parse(value) for name, value in (resources.get("limits") or {}).items()}
    requests = {name: parse(value) for name, value in (resources.get("requests") or {}).items()}
    for name, amount in limits.items():
        yield from _amount(name, amount, f"{path}.limits[{name}]")
    for name, amount in requests.items():
        yield from _amount(name, amount, f"{path}.requests[{name}]")
        limit, is_shared = limits.get(name), name in _STANDARD or "kubernetes.io/" in name
        if limit is None:
            if not is_shared:
                why = "Limit must be set for non overcommitable resources"
                yield required(f"{path}.limits", why)
        elif amount != limit and not is_shared:
            why = f"must be equal to {name} limit of {limit}"
            yield invalid(f"{path}.requests", str(amount), why)
        elif amount > limit:
            why = f"must be less than or equal to {name} limit of {limit}"
            yield invalid(f"{path}.requests", str(amount), why)
    asked = {*limits, *requests}
    if any(name.startswith("hugepages-") for name in asked) and not asked & {"cpu", "memory"}:
        yield forbidden(path, "HugePages require cpu or memory")


def _amount(name: str, amount: Quantity, path: str) -> Errors:
    problems = names.qualified_name(name)
    is_known = "/" in name or name in _STANDARD or name.startswith("hugepages-")
    if not problems and not is_known:
        problems = [
            "must be a standard resource type or fully qualified",
            "must be a standard resource for containers",
        ]
    yield from (invalid(path, name, why) for why in problems)
    if amount.sign < 0:
        yield invalid(path, str(amount), NOT_NEGATIVE)
    is_counted = "/" in name and "kubernetes.io/" not in name
    if is_counted and amount.milli_value % 1000:
        yield invalid(path, str(amount), "must be an integer")


def _security(context: Object, path: str, spec: Object) -> Errors:
    for name in ("runAsUser", "runAsGroup"):
        number = context.get(name)
        if number is not None and not 0 <= number < 1 << 31:
            yield invalid(f"{path}.{name}", number, "must be between 0 and 2147483647, inclusive")
    mount = context.get("procMount")
    if mount not in (None, *_PROC_MOUNTS):
        yield not_supported(f"{path}.procMount", mount, _PROC_MOUNTS)
    elif mount == "Unmasked" and spec.get("hostUsers") is not False:
        why = "`hostUsers` must be false to use `Unmasked`"
        yield invalid(f"{path}.procMount", "Unmasked", why)
    yield from seccomp_errors(context.get("seccompProfile"), f"{path}.seccompProfile")
    if context.get("allowPrivilegeEscalation") is False:
        if context.get("privileged"):
            why = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"
            yield invalid(path, context, why)
        if "CAP_SYS_ADMIN" in ((context.get("capabilities") or {}).get("add") or ()):
            why = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN"
            yield invalid(path, context, why)


def seccomp_errors(profile: Object | None, path: str) -> Errors:
    if profile is None:
        return
    kind, place = profile.get("type"), profile.get("localhostProfile")
    if kind not in _SECCOMP:
        yield not_supported(f"{path}.type", kind or "", _SECCOMP)
    elif kind == "Localhost" and not place:
        why = "must be set when seccomp type is Localhost"
        yield required(f"{path}.localhostProfile", why)
    elif kind != "Localhost" and place is not None:
        why = "can only be set when seccomp type is Localhost"
        yield invalid(f"{path}.localhostProfile", place, why)
