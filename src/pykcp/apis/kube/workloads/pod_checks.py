"""Checks of the spec of pods and of pod templates. The texts are Kubernetes'."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from pykcp.apis.kube.workloads.container_checks import (
    Errors,
    container_errors,
    image_errors,
    label_errors,
    local_path_errors,
)
from pykcp.apis.kube.workloads.scheduling_checks import (
    NOT_AN_IP,
    is_address,
    placement_errors,
    security_errors,
)
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

_RESTART = ("Always", "OnFailure", "Never")
_DNS = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_PREEMPTION = ("PreemptLowerPriority", "Never")
_UNSATISFIABLE = ("DoNotSchedule", "ScheduleAnyway")
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_ONE_TYPE = "may not specify more than 1 volume type"
_MODE = "must be a number between 0 and 0777 (octal), both inclusive"
_MODE_MAX = 0o777
_DEADLINE = (1, 2**31 - 1)
_HOST_PATHS = (
    "", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket",
)  # fmt: skip
_SOURCES = (
    "emptyDir", "hostPath", "gitRepo", "gcePersistentDisk", "awsElasticBlockStore", "secret", "nfs", "iscsi",
    "glusterfs", "flocker", "persistentVolumeClaim", "rbd", "cinder", "cephfs", "quobyte", "downwardAPI", "fc",
    "flexVolume", "configMap", "azureFile", "vsphereVolume", "photonPersistentDisk", "portworxVolume",
    "azureDisk", "storageos", "projected", "scaleIO", "csi", "ephemeral", "image",
)  # fmt: skip
_NAMED = {
    "secret": "secretName",
    "persistentVolumeClaim": "claimName",
    "configMap": "name",
    "csi": "driver",
    "image": "reference",
    "gitRepo": "repository",
    "ephemeral": "volumeClaimTemplate",
}
"""What a source of a volume must name."""


def pod_spec_errors(
    spec: Object, path: str, claims: Iterable[str] = (), *, is_pod: bool = False
) -> list[FieldError]:
    """`claims`: names of volumes that a StatefulSet adds to its pods."""
    volumes = {volume.get("name") or "" for volume in spec.get("volumes") or ()} | {*claims}
    return [
        *_volumes(spec.get("volumes") or (), f"{path}.volumes"),
        *container_errors(spec, path, volumes),
        *_host_network(spec, path, is_pod=is_pod),
        *_choices(spec, path),
        *_labels(spec.get("nodeSelector") or {}, f"{path}.nodeSelector"),
        *security_errors(spec, path),
        *placement_errors(spec, path),
        *_spread(spec.get("topologySpreadConstraints") or (), f"{path}.topologySpreadConstraints"),
        *_names(spec, path),
        *_tolerations(spec.get("tolerations") or (), f"{path}.tolerations"),
        *_aliases(spec.get("hostAliases") or (), f"{path}.hostAliases"),
        *(_of_pods(spec, path) if is_pod else ()),
    ]


def _of_pods(spec: Object, path: str) -> Errors:
    """What is checked of new pods and not of templates."""
    yield from image_errors(spec, path)
    if spec.get("ephemeralContainers"):
        yield forbidden(f"{path}.ephemeralContainers", "cannot be set on create")


def _choices(spec: Object, path: str) -> Errors:
    for name, allowed in (
        ("restartPolicy", _RESTART),
        ("dnsPolicy", _DNS),
        ("preemptionPolicy", _PREEMPTION),
    ):
        chosen = spec.get(name)
        if chosen not in (None, *allowed):
            yield not_supported(f"{path}.{name}", chosen, allowed)


def _labels(labels: Object, path: str) -> Errors:
    for key, value in sorted(labels.items()):
        yield from (invalid(path, key, why) for why in names.qualified_name(key))
        yield from (invalid(path, value, why) for why in names.label_value(value))


def _names(spec: Object, path: str) -> Errors:
    for name in ("serviceAccountName", "nodeName", "priorityClassName", "runtimeClassName"):
        if given := spec.get(name):
            problems = names.dns1123_subdomain(given)
            yield from (invalid(f"{path}.{name}", given, why) for why in problems)
    seconds = spec.get("activeDeadlineSeconds")
    if seconds is not None and not _DEADLINE[0] <= seconds <= _DEADLINE[1]:
        why = names.inclusive_range_error(*_DEADLINE)
        yield invalid(f"{path}.activeDeadlineSeconds", seconds, why)
    for name in ("hostname", "subdomain"):
        if given := spec.get(name):
            yield from (invalid(f"{path}.{name}", given, w) for w in names.dns1123_label(given))


def _host_network(spec: Object, path: str, *, is_pod: bool) -> Errors:
    if not spec.get("hostNetwork"):
        return
    for index, container in enumerate(spec.get("containers") or ()):
        for number, port in enumerate(container.get("ports") or ()):
            host = port.get("hostPort") or 0
            if (is_pod or host) and host != port.get("containerPort"):
                at = f"{path}.containers[{index}].ports[{number}].hostPort"
                yield invalid(at, host, "must match `containerPort` when `hostNetwork` is true")


# --- volumes


def _volumes(volumes: Any, path: str) -> Errors:
    known: set[str] = set()
    for index, volume in enumerate(volumes):
        at, name = f"{path}[{index}]", volume.get("name") or ""
        problems = [*_source(volume, at), *label_errors(name, f"{at}.name")]
        if name in known:
            problems.append(duplicate(f"{at}.name", name))
        if not problems:
            known.add(name)
        yield from problems


def _source(volume: Object, path: str) -> Iterator[FieldError]:
    given = [name for name in _SOURCES if volume.get(name) is not None]
    if not given:
        yield required(path, "must specify a volume type")
        return
    first, *others = given
    source, at = volume[first], f"{path}.{first}"
    if first in _NAMED and not source.get(_NAMED[first]):
        yield required(f"{at}.{_NAMED[first]}")
    if first in ("secret", "configMap"):
        yield from _items(source, at)
    elif first == "hostPath":
        yield from _host_path(source, at)
    elif first == "nfs":
        yield from _nfs(source, at)
    elif first == "emptyDir" and parse(source.get("sizeLimit") or "0").sign < 0:
        yield forbidden(f"{at}.sizeLimit", "SizeLimit field must be a valid resource quantity")
    for name in others:
        yield forbidden(f"{path}.{name}", _ONE_TYPE)


def _items(source: Object, path: str) -> Errors:
    mode = source.get("defaultMode")
    if mode is not None and not 0 <= mode <= _MODE_MAX:
        yield invalid(f"{path}.defaultMode", mode, _MODE)
    for index, item in enumerate(source.get("items") or ()):
        at = f"{path}.items[{index}]"
        if not item.get("key"):
            yield required(f"{at}.key")
        if not item.get("path"):
            yield required(f"{at}.path")
        yield from local_path_errors(item.get("path") or "", f"{at}.path")
        mode = item.get("mode")
        if mode is not None and not 0 <= mode <= _MODE_MAX:
            yield invalid(f"{at}.mode", mode, _MODE)


def _host_path(source: Object, path: str) -> Errors:
    place = source.get("path") or ""
    if not place:
        yield required(f"{path}.path")
    elif ".." in place.split("/"):
        yield invalid(f"{path}.path", place, "must not contain '..'")
    if source.get("type") not in (None, *_HOST_PATHS):
        yield not_supported(f"{path}.type", source["type"], _HOST_PATHS)


def _nfs(source: Object, path: str) -> Errors:
    for name in ("server", "path"):
        if not source.get(name):
            yield required(f"{path}.{name}")
    place = source.get("path") or ""
    if not place.startswith("/"):
        yield invalid(f"{path}.path", place, "must be an absolute path")


# --- where pods run


def _tolerations(tolerations: Any, path: str) -> Errors:
    for index, one in enumerate(tolerations):
        at, key = f"{path}[{index}]", one.get("key") or ""
        operator, value = one.get("operator") or "", one.get("value") or ""
        effect = one.get("effect") or ""
        if key:
            yield from (invalid(f"{at}.key", key, why) for why in names.qualified_name(key))
        elif operator != "Exists":
            why = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
            yield invalid(f"{at}.operator", operator, why)
        if one.get("tolerationSeconds") is not None and effect != "NoExecute":
            why = "effect must be 'NoExecute' when `tolerationSeconds` is set"
            yield invalid(f"{at}.effect", effect, why)
        if operator in ("", "Equal"):
            problems = names.label_value(value)
            if problems:
                yield invalid(f"{at}.operator", value, ";".join(problems))
        elif operator == "Exists":
            if value:
                why = "value must be empty when `operator` is 'Exists'"
                yield invalid(f"{at}.operator", value, why)
        else:
            more = ("Lt", "Gt") if operator in ("Lt", "Gt") else ()
            yield not_supported(f"{at}.operator", operator, ("Equal", "Exists", *more))
        if effect and effect not in _EFFECTS:
            yield not_supported(f"{at}.effect", effect, _EFFECTS)


def _spread(constraints: Any, path: str) -> Errors:
    pairs = [(one.get("topologyKey"), one.get("whenUnsatisfiable")) for one in constraints]
    for index, one in enumerate(constraints):
        at = f"{path}[{index}]"
        skew = one.get("maxSkew") or 0
        if skew <= 0:
            yield invalid(f"{at}.maxSkew", skew, "must be greater than zero")
        if not one.get("topologyKey"):
            yield required(f"{at}.topologyKey", "can not be empty")
        action = one.get("whenUnsatisfiable")
        if action not in _UNSATISFIABLE:
            yield not_supported(f"{at}.whenUnsatisfiable", action or "", _UNSATISFIABLE)
        if one.get("minDomains") is not None and action != "DoNotSchedule":
            why = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
            yield invalid(f"{at}.minDomains", one["minDomains"], why)
        if pairs[index] in pairs[index + 1 :]:
            pair = f"{{{pairs[index][0]}, {pairs[index][1]}}}"
            yield duplicate(f"{at}.{{topologyKey, whenUnsatisfiable}}", pair)


def _aliases(aliases: Any, path: str) -> Errors:
    for index, alias in enumerate(aliases):
        address = alias.get("ip") or ""
        if not is_address(address):
            yield invalid(f"{path}[{index}].ip", address, NOT_AN_IP)
        for number, name in enumerate(alias.get("hostnames") or ()):
            at = f"{path}[{index}].hostnames[{number}]"
            yield from (invalid(at, name, why) for why in names.dns1123_subdomain(name))
