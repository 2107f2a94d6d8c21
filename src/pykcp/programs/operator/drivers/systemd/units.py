"""Units of workloads: a template unit for each, an instance for each replica. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pykcp.machinery import quantity
from pykcp.programs.operator.compiled import DEFAULT_REPLICAS, CompiledWorkload, Probe
from pykcp.programs.operator.drivers.process.backoff import FIRST, LAST
from pykcp.programs.operator.drivers.process.commands import can_share_port, sharing_flags

_GRACE = 20
_STEPS = 6
"""From the first pause between restarts to the last: 1 s, 2 s, … 60 s."""
_HEALTH_PORTS = 20000
"""Each instance answers health checks on a port of its own, which ends in its number."""
_LEAST_START, _LEAST_WATCHDOG = 300.0, 60.0
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
    yield SystemdUnit(target, _target(namespace, instances), (target,))


def renewal_units(namespace: str, command: Sequence[str], user: str = "") -> Iterator[SystemdUnit]:
    """A daily run of the configuration stage: it renews what is due."""
    name = f"kcp-{namespace}-configure"
    lines = [
        "[Unit]",
        f"Description=kcp: configuration and certificates of {namespace}",
        "",
        "[Service]",
        "Type=oneshot",
        f"ExecStart={_joined(command)}",
        *([f"User={user}"] if user else []),
    ]
    yield SystemdUnit(f"{name}.service", "\n".join(lines) + "\n")
    timer = [
        "[Unit]",
        f"Description=kcp: daily renewal of certificates of {namespace}",
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


def _target(namespace: str, instances: Sequence[str]) -> str:
    lines = [
        "[Unit]",
        f"Description=kcp: all programs of {namespace}",
        *(f"Wants={one}" for one in instances),
        "",
        "[Install]",
        "WantedBy=multi-user.target",
    ]
    return "\n".join(lines) + "\n"


def _service(
    workload: CompiledWorkload, command: Sequence[str], target: str, root: str, user: str
) -> SystemdUnit:
    name = f"kcp-{workload.namespace}-{workload.name}"
    wanted = DEFAULT_REPLICAS if workload.replicas is None else workload.replicas
    count = wanted if can_share_port(workload) else min(wanted, 1)
    words = list(command)
    if can_share_port(workload):
        tens = _HEALTH_PORTS // 10 + workload.listen.port % 3000
        words += sharing_flags(f"{tens}%i")
    lines = [
        "[Unit]",
        f"Description=kcp: {workload.component} {workload.owner.name}, replica %i",
        "Documentation=https://docs.kcp.io",
        "After=network-online.target",
        "Wants=network-online.target",
        f"PartOf={target}",
        f"# revision {workload.restart_revision}",
        "",
        "[Service]",
        *_supervision(workload),
        *(f"ExecStartPre={_joined((*step.command, *step.arguments))}" for step in workload.init),
        f"ExecStart={_joined(words)}",
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
        *([f"ReadWritePaths={workload.data_directory}"] if workload.data_directory else []),
        "",
        "[Install]",
        f"WantedBy={target}",
    ]  # fmt: skip
    instances = tuple(f"{name}@{number}.service" for number in range(count))
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


def _joined(words: Sequence[str]) -> str:
    return " ".join(_quoted(one) for one in words)


def _quoted(word: str) -> str:
    """As systemd reads it: quotes, and no specifiers or variables of its own but `%i`."""
    text = word.replace("\\", "\\\\").replace('"', '\\"').replace("$", "$$")
    text = text.replace("%", "%%").replace("%%i", "%i")
    return f'"{text}"' if not text or any(c in text for c in " \t'\";") else text
