"""The rules of Pod Security, each with its versions; see `pod_security`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from pykcp.machinery.status import go_quote
from pykcp.types import Object


class BadPod(NamedTuple):
    """A rule that a pod breaks, and how."""

    rule: str
    detail: str


PodCheck = Callable[[Object, Object], BadPod | None]
"""Takes the metadata and the spec of a pod."""


@dataclass(frozen=True, slots=True)
class Rule:
    name: str
    versions: tuple[tuple[int, PodCheck], ...]
    """By the minor version of Kubernetes from which on they apply."""
    is_restricted: bool = False
    """It is a rule of `restricted` only."""
    replaces: tuple[str, ...] = ()
    """Rules of `baseline` that it contains."""


# --- parts


def _containers(spec: Object) -> Iterator[Object]:
    for group in ("initContainers", "containers", "ephemeralContainers"):
        yield from spec.get(group) or ()


def _security(holder: Object) -> Object:
    found: Object = holder.get("securityContext") or {}
    return found


def _names(containers: Iterable[Object]) -> list[str]:
    return [str(container.get("name") or "") for container in containers]


def _quoted(items: Iterable[str]) -> str:
    return ", ".join(f'"{item}"' for item in items)


def _number(count: int, one: str, many: str) -> str:
    return one if count == 1 else many


def _those(names: list[str]) -> str:
    return f"{_number(len(names), 'container', 'containers')} {_quoted(names)}"


def _setters(of_pod: bool, containers: Iterable[Object]) -> str:
    """Who sets something: `pod and container "a"`."""
    names = _names(containers)
    return " and ".join((*(["pod"] if of_pod else []), *([_those(names)] if names else [])))


def _is_for_windows(spec: Object) -> bool:
    return (spec.get("os") or {}).get("name") == "windows"


def _has_own_users(spec: Object) -> bool:
    return spec.get("hostUsers") is False


def _unless(exempt: Callable[[Object], bool], check: PodCheck) -> PodCheck:
    """The check, but not for pods that are exempt from it."""
    return lambda metadata, spec: None if exempt(spec) else check(metadata, spec)


# --- baseline


def _app_armor(metadata: Object, spec: Object) -> BadPod | None:
    def bad_type(holder: Object) -> str | None:
        profile = _security(holder).get("appArmorProfile")
        kind = None if profile is None else profile.get("type") or ""
        return None if kind in (None, "RuntimeDefault", "Localhost") else kind

    setters = [holder for holder in _containers(spec) if bad_type(holder) is not None]
    of_pod = bad_type(spec) is not None
    values = sorted({bad_type(holder) or "" for holder in (*setters, *([spec] if of_pod else []))})
    notes = sorted(
        f"{key}={go_quote(value)}"
        for key, value in (metadata.get("annotations") or {}).items()
        if key.startswith("container.apparmor.security.beta.kubernetes.io/")
        and value not in ("", "runtime/default")
        and not value.startswith("localhost/")
    )
    who = [_setters(of_pod, setters)] if setters or of_pod else []
    if notes:
        values += notes
        who.append(_number(len(notes), "annotation", "annotations"))
    if not who:
        return None
    rule = _number(len(values), "forbidden AppArmor profile", "forbidden AppArmor profiles")
    return BadPod(
        rule, f"{' and '.join(who)} must not set AppArmor profile type to {_quoted(values)}"
    )


_DEFAULT_CAPABILITIES = frozenset(
    [
        "AUDIT_WRITE",
        "CHOWN",
        "DAC_OVERRIDE",
        "FOWNER",
        "FSETID",
        "KILL",
        "MKNOD",
        "NET_BIND_SERVICE",
        "SETFCAP",
        "SETGID",
        "SETPCAP",
        "SETUID",
        "SYS_CHROOT",
    ]
)


def _added(container: Object) -> list[str]:
    return (_security(container).get("capabilities") or {}).get("add") or []


def _must_not_add(spec: Object, allowed: frozenset[str]) -> str:
    bad = [c for c in _containers(spec) if not allowed.issuperset(_added(c))]
    if not bad:
        return ""
    which = sorted({one for container in bad for one in _added(container)} - allowed)
    return f"{_those(_names(bad))} must not include {_quoted(which)} in securityContext.capabilities.add"


def _capabilities(_: Object, spec: Object) -> BadPod | None:
    wrong = _must_not_add(spec, _DEFAULT_CAPABILITIES)
    return BadPod("non-default capabilities", wrong) if wrong else None


def _host_namespaces(_: Object, spec: Object) -> BadPod | None:
    shared = [f"{name}=true" for name in ("hostNetwork", "hostPID", "hostIPC") if spec.get(name)]
    return BadPod("host namespaces", ", ".join(shared)) if shared else None


def _host_paths(_: Object, spec: Object) -> BadPod | None:
    volumes = _names(v for v in spec.get("volumes") or () if v.get("hostPath") is not None)
    if not volumes:
        return None
    return BadPod(
        "hostPath volumes", f"{_number(len(volumes), 'volume', 'volumes')} {_quoted(volumes)}"
    )


def _host_ports(_: Object, spec: Object) -> BadPod | None:
    def ports(container: Object) -> list[int]:
        used = (port.get("hostPort") for port in container.get("ports") or ())
        return [port for port in used if port]

    bad = [container for container in _containers(spec) if ports(container)]
    if not bad:
        return None
    numbers = sorted({str(port) for container in bad for port in ports(container)})
    use = _number(len(bad), "uses", "use")
    what = _number(len(numbers), "hostPort", "hostPorts")
    return BadPod("hostPort", f"{_those(_names(bad))} {use} {what} {', '.join(numbers)}")


def _hosts(container: Object) -> Iterator[str]:
    """Other hosts that probes and hooks of a container call."""
    handlers = [container.get(name) for name in ("livenessProbe", "readinessProbe", "startupProbe")]
    lifecycle = container.get("lifecycle") or {}
    handlers += [lifecycle.get(name) for name in ("postStart", "preStop")]
    for handler in handlers:
        for way in ("httpGet", "tcpSocket"):
            host = ((handler or {}).get(way) or {}).get("host")
            if host:
                yield host


def _host_probes(_: Object, spec: Object) -> BadPod | None:
    bad = [container for container in _containers(spec) if any(_hosts(container))]
    if not bad:
        return None
    hosts = sorted({host for container in bad for host in _hosts(container)})
    rule = "probe or lifecycle host"
    use, what = _number(len(bad), "uses", "use"), _number(len(hosts), rule, f"{rule}s")
    return BadPod(rule, f"{_those(sorted(set(_names(bad))))} {use} {what} {_quoted(hosts)}")


def _privileged(_: Object, spec: Object) -> BadPod | None:
    names = _names(c for c in _containers(spec) if _security(c).get("privileged"))
    if not names:
        return None
    return BadPod("privileged", f"{_those(names)} must not set securityContext.privileged=true")


def _proc_mount(_: Object, spec: Object) -> BadPod | None:
    bad = [
        c for c in _containers(spec) if (_security(c).get("procMount") or "Default") != "Default"
    ]
    if not bad:
        return None
    types = sorted({_security(container)["procMount"] for container in bad})
    detail = f"{_those(_names(bad))} must not set securityContext.procMount to {_quoted(types)}"
    return BadPod("procMount", detail)


_LINUX_TYPES = frozenset(("", "container_t", "container_init_t", "container_kvm_t"))


def _se_linux(types: frozenset[str], _: Object, spec: Object) -> BadPod | None:
    def options(holder: Object) -> Object:
        found: Object = _security(holder).get("seLinuxOptions") or {}
        return found

    def is_bad(holder: Object) -> bool:
        own = options(holder)
        return bool((own.get("type") or "") not in types or own.get("user") or own.get("role"))

    bad = [container for container in _containers(spec) if is_bad(container)]
    of_pod = is_bad(spec)
    if not bad and not of_pod:
        return None
    those = [options(holder) for holder in (*bad, *([spec] if of_pod else []))]
    wrong = sorted({own.get("type") or "" for own in those} - types)
    what = [f"{_number(len(wrong), 'type', 'types')} {_quoted(wrong)}"] if wrong else []
    what += [f"{k} may not be set" for k in ("user", "role") if any(own.get(k) for own in those)]
    detail = (
        f"{_setters(of_pod, bad)} set forbidden securityContext.seLinuxOptions: {'; '.join(what)}"
    )
    return BadPod("seLinuxOptions", detail)


_SECCOMP_POD = "seccomp.security.alpha.kubernetes.io/pod"
_SECCOMP_CONTAINER = "container.seccomp.security.alpha.kubernetes.io/"


def _seccomp_annotations(metadata: Object, spec: Object) -> BadPod | None:
    notes = metadata.get("annotations") or {}
    keys = {_SECCOMP_POD, *(_SECCOMP_CONTAINER + name for name in _names(_containers(spec)))}
    bad = sorted(
        f"{key}={go_quote(notes[key])}"
        for key in keys & notes.keys()
        if notes[key] not in ("runtime/default", "docker/default")
        and not notes[key].startswith("localhost/")
    )
    if not bad:
        return None
    what = _number(len(bad), "annotation", "annotations")
    return BadPod("seccompProfile", f"forbidden {what} {', '.join(bad)}")


def _profile(holder: Object) -> str | None:
    """The type of the seccomp profile; None if there is none."""
    profile = _security(holder).get("seccompProfile")
    return None if profile is None else profile.get("type") or ""


def _has_bad_profile(holder: Object) -> bool:
    return _profile(holder) not in (None, "RuntimeDefault", "Localhost")


def _seccomp(_: Object, spec: Object) -> BadPod | None:
    bad = [container for container in _containers(spec) if _has_bad_profile(container)]
    of_pod = _has_bad_profile(spec)
    if not bad and not of_pod:
        return None
    values = sorted({_profile(holder) or "" for holder in (*bad, *([spec] if of_pod else []))})
    detail = f"must not set securityContext.seccompProfile.type to {_quoted(values)}"
    return BadPod("seccompProfile", f"{_setters(of_pod, bad)} {detail}")


_SYSCTLS = frozenset(
    [
        "kernel.shm_rmid_forced",
        "net.ipv4.ip_local_port_range",
        "net.ipv4.tcp_syncookies",
        "net.ipv4.ping_group_range",
        "net.ipv4.ip_unprivileged_port_start",
    ]
)
_SYSCTLS_27 = _SYSCTLS | {"net.ipv4.ip_local_reserved_ports"}
_SYSCTLS_29 = _SYSCTLS_27 | {
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
}
_SYSCTLS_32 = _SYSCTLS_29 | {"net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"}


def _sysctls(allowed: frozenset[str], _: Object, spec: Object) -> BadPod | None:
    names = _names(_security(spec).get("sysctls") or ())
    bad = [name for name in names if name not in allowed]
    return BadPod("forbidden sysctls", ", ".join(bad)) if bad else None


def _host_process(_: Object, spec: Object) -> BadPod | None:
    def is_bad(holder: Object) -> bool:
        return bool((_security(holder).get("windowsOptions") or {}).get("hostProcess"))

    setters = _setters(is_bad(spec), filter(is_bad, _containers(spec)))
    if not setters:
        return None
    detail = "must not set securityContext.windowsOptions.hostProcess=true"
    return BadPod("hostProcess", f"{setters} {detail}")


# --- restricted


def _escalation(_: Object, spec: Object) -> BadPod | None:
    names = _names(
        c for c in _containers(spec) if _security(c).get("allowPrivilegeEscalation") is not False
    )
    if not names:
        return None
    detail = f"{_those(names)} must set securityContext.allowPrivilegeEscalation=false"
    return BadPod("allowPrivilegeEscalation != false", detail)


def _few_capabilities(_: Object, spec: Object) -> BadPod | None:
    def drops_all(container: Object) -> bool:
        return "ALL" in ((_security(container).get("capabilities") or {}).get("drop") or ())

    names = _names(container for container in _containers(spec) if not drops_all(container))
    wrong = []
    if names:
        wrong.append(f'{_those(names)} must set securityContext.capabilities.drop=["ALL"]')
    if added := _must_not_add(spec, frozenset(("NET_BIND_SERVICE",))):
        wrong.append(added)
    return BadPod("unrestricted capabilities", "; ".join(wrong)) if wrong else None


_VOLUMES = frozenset(
    [
        "configMap",
        "csi",
        "downwardAPI",
        "emptyDir",
        "ephemeral",
        "image",
        "persistentVolumeClaim",
        "projected",
        "secret",
    ]
)
_OTHER_VOLUMES = [
    "hostPath",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "gitRepo",
    "nfs",
    "iscsi",
    "glusterfs",
    "rbd",
    "flexVolume",
    "cinder",
    "cephfs",
    "flocker",
    "fc",
    "azureFile",
    "vsphereVolume",
    "quobyte",
    "azureDisk",
    "photonPersistentDisk",
    "portworxVolume",
    "scaleIO",
    "storageos",
]


def _volumes(_: Object, spec: Object) -> BadPod | None:
    def has(volume: Object, names: Iterable[str]) -> Iterator[str]:
        return (name for name in names if volume.get(name) is not None)

    bad = [v for v in spec.get("volumes") or () if not any(has(v, _VOLUMES))]
    if not bad:
        return None
    types = sorted({next(has(volume, _OTHER_VOLUMES), "unknown") for volume in bad})
    who = f"{_number(len(bad), 'volume', 'volumes')} {_quoted(_names(bad))}"
    what = _number(len(types), "restricted volume type", "restricted volume types")
    detail = f"{who} {_number(len(bad), 'uses', 'use')} {what} {_quoted(types)}"
    return BadPod("restricted volume types", detail)


def _non_root(_: Object, spec: Object) -> BadPod | None:
    rule = "runAsNonRoot != true"

    def choice(holder: Object) -> Any:
        return _security(holder).get("runAsNonRoot")

    bad = [container for container in _containers(spec) if choice(container) is False]
    setters = _setters(choice(spec) is False, bad)
    if setters:
        return BadPod(rule, f"{setters} must not set securityContext.runAsNonRoot=false")
    if choice(spec):
        return None
    names = _names(container for container in _containers(spec) if choice(container) is None)
    if not names:
        return None
    return BadPod(rule, f"pod or {_those(names)} must set securityContext.runAsNonRoot=true")


def _not_user_0(_: Object, spec: Object) -> BadPod | None:
    def is_root(holder: Object) -> bool:
        return bool(_security(holder).get("runAsUser") == 0)

    setters = _setters(is_root(spec), filter(is_root, _containers(spec)))
    return BadPod("runAsUser=0", f"{setters} must not set runAsUser=0") if setters else None


def _needs_seccomp(metadata: Object, spec: Object) -> BadPod | None:
    bad = _seccomp(metadata, spec)
    if bad is not None or _profile(spec) is not None:
        return bad
    names = _names(container for container in _containers(spec) if _profile(container) is None)
    if not names:
        return None
    detail = 'must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost"'
    return BadPod("seccompProfile", f"pod or {_those(names)} {detail}")


def _restricted(name: str, *versions: tuple[int, PodCheck], replaces: str = "") -> Rule:
    return Rule(name, versions, is_restricted=True, replaces=(replaces,) if replaces else ())


CHECKS = (
    Rule("appArmorProfile", ((0, _app_armor),)),
    Rule("capabilities_baseline", ((0, _capabilities),)),
    Rule("hostNamespaces", ((0, _host_namespaces),)),
    Rule("hostPathVolumes", ((0, _host_paths),)),
    Rule("hostPorts", ((0, _host_ports),)),
    Rule("hostProbesAndHostLifecycle", ((34, _host_probes),)),
    Rule("privileged", ((0, _privileged),)),
    Rule("procMount", ((0, _proc_mount), (35, _unless(_has_own_users, _proc_mount)))),
    Rule(
        "seLinuxOptions",
        (
            (0, partial(_se_linux, _LINUX_TYPES)),
            (31, partial(_se_linux, _LINUX_TYPES | {"container_engine_t"})),
        ),
    ),
    Rule("seccompProfile_baseline", ((0, _seccomp_annotations), (19, _seccomp))),
    Rule(
        "sysctls",
        (
            (0, partial(_sysctls, _SYSCTLS)),
            (27, partial(_sysctls, _SYSCTLS_27)),
            (29, partial(_sysctls, _SYSCTLS_29)),
            (32, partial(_sysctls, _SYSCTLS_32)),
        ),
    ),
    Rule("windowsHostProcess", ((0, _host_process),)),
    _restricted(
        "allowPrivilegeEscalation", (8, _escalation), (25, _unless(_is_for_windows, _escalation))
    ),
    _restricted(
        "capabilities_restricted",
        (22, _few_capabilities),
        (25, _unless(_is_for_windows, _few_capabilities)),
        replaces="capabilities_baseline",
    ),
    _restricted("procMount_restricted", (35, _proc_mount), replaces="procMount"),
    _restricted("restrictedVolumes", (0, _volumes), replaces="hostPathVolumes"),
    _restricted("runAsNonRoot", (0, _non_root), (35, _unless(_has_own_users, _non_root))),
    _restricted("runAsUser", (23, _not_user_0), (35, _unless(_has_own_users, _not_user_0))),
    _restricted(
        "seccompProfile_restricted",
        (19, _needs_seccomp),
        (25, _unless(_is_for_windows, _needs_seccomp)),
        replaces="seccompProfile_baseline",
    ),
)
"""All rules. Those that replace others do so in the versions that have them."""
