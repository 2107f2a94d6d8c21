"""Where the workloads of an installation run: addresses, names and paths.

The configuration stage asks a platform where a workload listens, at which address others reach
it, and where its files are. On Kubernetes the answers are names of Services and fixed paths; on a
host they are ports of that host and directories below the root directory.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from pykcp.programs.operator.compiled import SECURE_PORT


@dataclass(frozen=True, slots=True)
class WorkloadPlace:
    """What the configuration stage knows of a workload when it asks where it is."""

    namespace: str
    workload: str
    domain: str = "cluster.local"
    host: str = ""
    port: int = 0
    """The address that the user's objects give it; "" and 0 if they give none."""
    is_exposed: bool = False
    """Whether it is to be reached from outside: a Service of type LoadBalancer or NodePort."""


@dataclass(frozen=True, slots=True)
class HostPort:
    host: str
    port: int

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"https://{host}:{self.port}"


class Platform(Protocol):
    name: str
    has_internal_proxy: bool
    """Whether a RootShard is given a proxy of its own, which resolves paths for the operator."""
    has_our_programs: bool
    """Whether its programs are this project's, whatever image an object names."""
    settle_seconds: float
    """How long it takes until all programs have read a file that changed."""

    def listen(self, place: WorkloadPlace) -> HostPort:
        """The address to bind to."""

    def reached(self, place: WorkloadPlace) -> HostPort:
        """The address at which other workloads reach it."""

    def hosts(self, place: WorkloadPlace) -> Sequence[str]:
        """Names and addresses for its serving certificate."""

    def path(self, place: WorkloadPlace, path: str) -> str:
        """Where a file is that the workload knows as this absolute path."""

    def data(self, place: WorkloadPlace) -> str:
        """A directory that the workload may write to."""


class KubernetesPlatform:
    """Service names, and the paths of containers."""

    name = "kubernetes"
    has_internal_proxy = True
    has_our_programs = False
    settle_seconds = 180.0
    """The kubelet writes changed Secrets within a minute or two."""

    def listen(self, place: WorkloadPlace) -> HostPort:
        return HostPort("0.0.0.0", SECURE_PORT)  # noqa: S104  # of the pod's own network

    def reached(self, place: WorkloadPlace) -> HostPort:
        name = f"{place.workload}.{place.namespace}.svc.{place.domain}"
        return HostPort(name, SECURE_PORT)

    def hosts(self, place: WorkloadPlace) -> Sequence[str]:
        short = f"{place.workload}.{place.namespace}"
        return (
            "localhost",
            place.workload,
            short,
            f"{short}.svc",
            f"{short}.svc.{place.domain}",
        )

    def path(self, place: WorkloadPlace, path: str) -> str:
        return path

    def data(self, place: WorkloadPlace) -> str:
        return "/var/lib/kcp"


@dataclass
class HostPlatform:
    """Ports and directories of one host.

    Ports are taken in the order in which workloads are first asked about and remembered in
    `ports`, which belongs to the caller: it keeps them from one start to the next.
    """

    root: str
    """The root directory, absolute; each workload has a directory in it."""
    host: str = "127.0.0.1"
    """The address of workloads that are not exposed."""
    exposed_host: str = "0.0.0.0"  # noqa: S104  # of what the user exposes
    first_port: int = 6444
    ports: MutableMapping[str, int] = field(default_factory=dict)
    """By namespace and workload: `kcp/root-kcp`."""
    host_names: Sequence[str] = ()
    """Further names of this host, for certificates."""
    places: Mapping[str, HostPort] = field(default_factory=dict)
    """Workloads on other hosts, by namespace and workload: where they are reached."""
    name: str = "host"
    has_internal_proxy: bool = False
    has_our_programs: bool = True
    settle_seconds: float = 15.0

    def listen(self, place: WorkloadPlace) -> HostPort:
        port = place.port or self._port(place)
        if _is_address(place.host):
            return HostPort(place.host, port)
        return HostPort(self.exposed_host if place.is_exposed else self.host, port)

    def reached(self, place: WorkloadPlace) -> HostPort:
        elsewhere = self.places.get(_key(place))
        if elsewhere is not None:
            return elsewhere
        at = self.listen(place)
        unspecified = _is_address(at.host) and ipaddress.ip_address(at.host).is_unspecified
        return HostPort("127.0.0.1", at.port) if unspecified else at

    def hosts(self, place: WorkloadPlace) -> Sequence[str]:
        always = ("localhost", "127.0.0.1", "::1", *self.host_names)
        return tuple(dict.fromkeys((*always, self.reached(place).host)))

    def path(self, place: WorkloadPlace, path: str) -> str:
        return f"{self._directory(place)}/files{path}"

    def data(self, place: WorkloadPlace) -> str:
        return f"{self._directory(place)}/data"

    def _directory(self, place: WorkloadPlace) -> str:
        return f"{self.root}/{place.namespace}/{place.workload}"

    def _port(self, place: WorkloadPlace) -> int:
        key = _key(place)
        if key not in self.ports:
            taken = set(self.ports.values())
            self.ports[key] = next(p for p in range(self.first_port, 65536) if p not in taken)
        return self.ports[key]


def _key(place: WorkloadPlace) -> str:
    return f"{place.namespace}/{place.workload}"


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
