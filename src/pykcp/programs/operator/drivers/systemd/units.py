"""Units of workloads: a template unit for each, an instance for each replica. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pykcp.machinery import quantity
from pykcp.programs.kit.errors import SettingsError
from pykcp.programs.operator.compiled import DEFAULT_REPLICAS, CompiledWorkload, Probe
from pykcp.programs.operator.drivers.process.backoff import FIRST, LAST
from pykcp.programs.operator.drivers.process.commands import (
    can_share_port,
    has_own_data,
    sharing_flags,
)

_GRACE = 20
_STEPS = 6
"""From the first pause between restarts to the last: 1 s, 2 s, … 60 s."""
_HEALTH_PORTS = 20000
"""Each instance answers health checks on a port of its own, which ends in its number."""
_LEAST_START, _LEAST_WATCHDOG = 300.0, 60.0
_RETRY = 60
"""Seconds until what could not be done inside of the installation is tried again."""
_PREFIXES = frozenset("-@:+!|")
"""Before the path of a command they change how systemd runs it: with all rights, for instance."""
_HARDENING = (
    "NoNewPrivileges=yes",
    "CapabilityBoundingSet=",
    "AmbientCapabilities=",
    "PrivateTmp=yes",
    "PrivateDevices=yes",
    "ProtectSystem=strict",
    "ProtectHome=read-only",
    "ProtectKernelTunables=yes",
    "ProtectKernelModules=yes",
    "ProtectControlGroups=yes",
    "RestrictSUIDSGID=yes",
    "RestrictRealtime=yes",
    "LockPersonality=yes",
    "RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX",
    "SystemCallArchitectures=native",
    "UMask=0077",
)


@dataclass(frozen=True, slots=True)
class SystemdUnit:
    name: str
    """Of the file: `kcp-kcp-dekker-root-kcp@.service`."""
    text: str
    instances: tuple[str, ...] = ()
    """What to enable and start."""


def workload_units(
    workloads: Sequence[CompiledWorkload],
    commands: Mapping[str, Sequence[str]],
    namespace: str,
    root: str,
    user: str = "",
) -> Iterator[SystemdUnit]:
    """The units of an installation; `commands`: the words of each workload's program."""
    target = f"kcp-{namespace}.target"
    instances: list[str] = []
    for workload in workloads:
        unit = _service(workload, commands[workload.name], target, root, user)
        instances += unit.instances
        yield unit
    yield SystemdUnit(target, _target(namespace, instances, root), (target,))


def renewal_units(namespace: str, command: Sequence[str], root: str) -> Iterator[SystemdUnit]:
    """A daily run of `kcp up --systemd`: it renews what is due and tends what runs.

    It has no `User=`: it writes units and stops those that are not needed any more, for which it
    needs the rights of who wrote them. Below the root directory it acts as the user of the units.
    """
    name = configure_unit(namespace)
    lines = [
        "[Unit]",
        f"Description=kcp: configuration and certificates of {namespace}",
        f"After=kcp-{namespace}.target",
        belongs_to(root),
        "",
        "[Service]",
        "Type=oneshot",
        f"ExecStart={_joined(command)}",
        # Servers may be away, and shards that are deleted may wait for a person.
        "Restart=on-failure",
        f"RestartSec={_RETRY}",
    ]
    yield SystemdUnit(f"{name}.service", "\n".join(lines) + "\n")
    timer = [
        "[Unit]",
        f"Description=kcp: daily renewal of certificates of {namespace}",
        belongs_to(root),
        "",
        "[Timer]",
        "OnCalendar=daily",
        "RandomizedDelaySec=1h",
        "Persistent=true",
        "",
        "[Install]",
        "WantedBy=timers.target",
    ]
    yield SystemdUnit(f"{name}.timer", "\n".join(timer) + "\n", (f"{name}.timer",))


def configure_unit(namespace: str) -> str:
    return f"kcp-{namespace}-configure"


def unit_name(workload: CompiledWorkload) -> str:
    return f"kcp-{workload.namespace}-{workload.name}"


def belongs_to(root: str) -> str:
    """A line of each unit of an installation, by which its units are found again."""
    return f"# root directory {root}"


def replica_count(workload: CompiledWorkload) -> int:
    wanted = DEFAULT_REPLICAS if workload.replicas is None else workload.replicas
    return wanted if can_share_port(workload) else min(wanted, 1)


def instance_data(workload: CompiledWorkload, instance: int | str) -> str:
    """The data directory of an instance; several that share a port each have one of their own."""
    if replica_count(workload) > 1 and has_own_data(workload):
        return f"{workload.data_directory}-{instance}"
    return workload.data_directory


def health_port(workload: CompiledWorkload, instance: int | str) -> str:
    """Where an instance that shares its port answers probes; `%i` for the one that a unit has."""
    return f"{_HEALTH_PORTS // 10 + workload.listen.port % 3000}{instance}"


def _target(namespace: str, instances: Sequence[str], root: str) -> str:
    lines = [
        "[Unit]",
        f"Description=kcp: all programs of {namespace}",
        belongs_to(root),
        *(f"Wants={one}" for one in instances),
        "",
        "[Install]",
        "WantedBy=multi-user.target",
    ]
    return "\n".join(lines) + "\n"


def _service(
    workload: CompiledWorkload, command: Sequence[str], target: str, root: str, user: str
) -> SystemdUnit:
    name = unit_name(workload)
    data = instance_data(workload, "%i")
    words = [word.replace(workload.data_directory, data) if data else word for word in command]
    if can_share_port(workload):
        words += sharing_flags(health_port(workload, "%i"))
    lines = [
        "[Unit]",
        f"Description=kcp: {workload.component} {workload.owner.name}, replica %i",
        "Documentation=https://docs.kcp.io",
        "After=network-online.target",
        "Wants=network-online.target",
        f"PartOf={target}",
        f"# revision {workload.restart_revision}",
        belongs_to(root),
        "",
        "[Service]",
        *_supervision(workload),
        *(f"ExecStartPre={_command((*step.command, *step.arguments))}" for step in workload.init),
        f"ExecStart={_command(words)}",
        "Restart=always",
        f"RestartSec={FIRST:g}",
        f"RestartSteps={_STEPS}",
        f"RestartMaxDelaySec={LAST:g}",
        f"TimeoutStopSec={_GRACE}",
        "LimitNOFILE=65536",
        *(f"Environment={_quoted(f'{key}={value}')}" for key, value in sorted(workload.environment.items())),
        *([f"User={user}"] if user else []),
        *_limits(workload),
        *_HARDENING,
        f"ReadOnlyPaths={root}",
        *([f"ReadWritePaths={data}"] if data else []),
        *(f"ReadWritePaths={one}" for one in workload.directories),
        # What a manifest names need not exist; the program says so, if it needs it.
        *(f"ReadWritePaths=-{one}" for one in workload.writable),
        "",
        "[Install]",
        f"WantedBy={target}",
    ]  # fmt: skip
    instances = tuple(f"{name}@{number}.service" for number in range(replica_count(workload)))
    return SystemdUnit(f"{name}@.service", "\n".join(lines) + "\n", instances)


def _supervision(workload: CompiledWorkload) -> Iterator[str]:
    """When it counts as started, and how systemd notices that it hangs."""
    if "/" in workload.program:  # a program of the user, which may not know systemd
        yield "Type=exec"
        return
    startup = workload.probes.startup or workload.probes.readiness
    yield "Type=notify"
    yield "NotifyAccess=main"
    yield f"TimeoutStartSec={max(_LEAST_START, _budget(startup)):g}"
    yield f"WatchdogSec={_budget(workload.probes.liveness):g}"


def _budget(probe: Probe | None) -> float:
    """Seconds after which failing probes would have an effect."""
    return probe.delay + probe.period * probe.failures if probe is not None else _LEAST_WATCHDOG


def _limits(workload: CompiledWorkload) -> Iterator[str]:
    limits = workload.resources.get("limits", {})
    if memory := limits.get("memory"):
        yield f"MemoryMax={quantity.parse(memory).value}"
    if cpu := limits.get("cpu"):
        yield f"CPUQuota={quantity.parse(cpu).milli_value // 10}%"


def _command(words: Sequence[str]) -> str:
    """Of a program that a manifest may name: systemd is not to run it as somebody else."""
    if words and words[0][:1] in _PREFIXES:
        raise SettingsError(f"command {words[0]!r}: a unit cannot run it; name it by its path")
    return _joined(words)


def _joined(words: Sequence[str]) -> str:
    return " ".join(_quoted(one) for one in words)


def _quoted(word: str) -> str:
    """As systemd reads it: quotes, and no specifiers or variables of its own but `%i`."""
    text = word.replace("\\", "\\\\").replace('"', '\\"').replace("$", "$$")
    text = text.replace("\n", "\\n").replace("\r", "\\r")  # a line of its own would be a setting
    text = text.replace("%", "%%").replace("%%i", "%i")
    return f'"{text}"' if not text or any(c in text for c in " \t'\"\\;") else text
