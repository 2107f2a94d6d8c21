"""What a driver runs: a closed description of one workload, which needs no knowledge of kcp.

The configuration stage makes one `CompiledWorkload` for each workload of an installation (a root shard, a
shard, a proxy, a cache server, a virtual-workspace server). A driver runs it: as a Deployment, as
processes of a supervisor, as systemd units. A workload moves to another host by copying its
`CompiledWorkload` value, which contains everything that it needs.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import orjson

from pykcp.types import Object

SECRET, CONFIG_MAP = "Secret", "ConfigMap"

ROOT_SHARD = "rootshard"
ROOT_SHARD_PROXY = "rootshard-proxy"
SHARD = "shard"
FRONT_PROXY = "front-proxy"
CACHE_SERVER = "cache-server"
VIRTUAL_WORKSPACE = "virtual-workspace"
"""Components: the values of the label `app.kubernetes.io/component`."""

START_ORDER = (CACHE_SERVER, ROOT_SHARD, SHARD, VIRTUAL_WORKSPACE, ROOT_SHARD_PROXY, FRONT_PROXY)
"""Each component becomes ready sooner when those before it are; none of them requires it."""
UPGRADE_ORDER = (CACHE_SERVER, ROOT_SHARD, SHARD, VIRTUAL_WORKSPACE, ROOT_SHARD_PROXY, FRONT_PROXY)

SECURE_PORT = 6443
"""The port inside of containers."""


@dataclass(frozen=True, slots=True)
class FileSource:
    """The object of the configuration that a file is a copy of."""

    kind: str
    """`Secret` or `ConfigMap`, in the namespace of the workload."""
    name: str
    key: str


@dataclass(frozen=True, slots=True)
class CompiledFile:
    """A file that a program reads."""

    path: str
    """Absolute, as it is in the arguments."""
    content: bytes
    source: FileSource | None = None
    mode: int = 0o600
    reloads: bool = True
    """Whether the program notices a change of this file by itself; otherwise it is restarted."""


@dataclass(frozen=True, slots=True)
class Listen:
    """Where a workload is reached: the address of all its replicas together."""

    host: str
    """The address to bind to."""
    port: int
    name: str = "https"
    host_flag: str = "--bind-address"
    port_flag: str = "--secure-port"
    """The arguments that set both: a driver that gives each replica an address of its own
    (behind a balancer, say) replaces their values.
    """
    server_name: str = ""
    """A name in the serving certificate, for clients that connect by another one."""
    authority: str = ""
    """The file whose certificates verify the server, for probes."""


@dataclass(frozen=True, slots=True)
class Probe:
    """A GET over HTTPS that answers 200 as long as all is well."""

    path: str
    delay: float
    """Seconds from the start to the first one."""
    period: float
    failures: int
    """How many in a row count."""
    timeout: float = 10.0


@dataclass(frozen=True, slots=True)
class Probes:
    startup: Probe | None = None
    """Until it succeeds once the others do not count; when it fails the program is restarted."""
    readiness: Probe | None = None
    liveness: Probe | None = None


SHARD_PROBES = Probes(
    Probe("/readyz", 10, 5, 60), Probe("/readyz", 10, 10, 6), Probe("/livez", 10, 10, 6)
)
PROXY_PROBES = Probes(None, Probe("/readyz", 15, 10, 3), Probe("/livez", 15, 10, 3))


@dataclass(frozen=True, slots=True)
class InitStep:
    """A command that must end with exit code 0 before the program starts."""

    name: str
    command: tuple[str, ...]
    arguments: tuple[str, ...] = ()
    image: str = ""
    resources: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    files: tuple[CompiledFile, ...] = ()
    volumes: tuple[Object, ...] = ()
    mounts: tuple[Object, ...] = ()
    claims: tuple[Object, ...] = ()
    """Devices, by the names of `resourceClaims` in the template."""


@dataclass(frozen=True, slots=True)
class WorkloadOwner:
    """The object that a workload was compiled from."""

    kind: str
    name: str
    uid: str = ""
    generation: int = field(default=0, compare=False)
    """Not part of references to an owner, which Secrets have."""


@dataclass(frozen=True, slots=True)
class CompiledService:
    """How the workload is exposed beyond `listen`; drivers without Services ignore it."""

    port: int = SECURE_PORT
    type: str = "ClusterIP"
    cluster_ip: str = ""
    load_balancer_class: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CompiledWorkload:
    """One workload, complete."""

    name: str
    """Of the workload: `root-kcp`, `alpha-shard-kcp`, `frontproxy-front-proxy`."""
    namespace: str
    component: str
    owner: WorkloadOwner
    program: str
    """The command without its path: `kcp`, `kcp-front-proxy`, `cache-server`, `virtual-workspaces`;
    or the path of a program of the user.
    """
    arguments: tuple[str, ...]
    """All words after the program: `start` is the first of `kcp start`."""
    listen: Listen
    files: tuple[CompiledFile, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    data_directory: str = ""
    """A directory that the program writes to and finds again after a restart; "" if it has none.
    A driver makes it, and keeps it until the object is deleted.
    """
    storage: Mapping[str, str] = field(default_factory=dict)
    """`size` and `storageClassName` of the volume for the data directory, where there are such."""
    is_single: bool = False
    """Whether the data directory allows only one process at a time."""
    probes: Probes = Probes()
    replicas: int | None = 1
    """None: an autoscaler decides, and the workload starts with `DEFAULT_REPLICAS`."""
    resources: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """`requests` and `limits` by resource name, as quantities."""
    claims: tuple[Object, ...] = ()
    """Devices, by the names of `resourceClaims` in the template."""
    init: tuple[InitStep, ...] = ()
    image: str = ""
    """`repository:tag`."""
    version: str = ""
    """The tag alone: the version of the program to run where there are no images."""
    pull_secrets: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    """Those of the workload, also its selector."""
    service: CompiledService = CompiledService()
    volumes: tuple[Object, ...] = ()
    mounts: tuple[Object, ...] = ()
    """`extraVolumes` and `extraVolumeMounts`, as they were given."""
    directories: tuple[str, ...] = ()
    """Further directories that the program writes to; a driver makes them."""
    writable: tuple[str, ...] = ()
    """Directories of the host that the program may write to."""
    template: Object = field(default_factory=dict)
    """`deploymentTemplate` as it was given; drivers say which of its fields they ignore."""

    @property
    def revision(self) -> str:
        """A hash of everything that the workload is made from."""
        return _digest(self.to_object())

    @property
    def restart_revision(self) -> str:
        """A hash of what the program reads once: if it differs, the program must be restarted.

        The number of replicas is not part of it, nor are files that are reloaded.
        """
        described = self.to_object()
        for key in ("replicas", "service", "owner"):
            del described[key]
        described["files"] = [_stable(entry) for entry in described["files"]]
        return _digest(described)

    def file(self, path: str) -> CompiledFile | None:
        return next((one for one in self.files if one.path == path), None)

    def to_object(self) -> Object:
        """As JSON, with the contents of files in base64."""
        made: Object = _encoded(asdict(self))
        # Newer fields are only there if they are set: hashes of what runs already stay the same.
        for described in (made, *made["init"]):
            if not described["claims"]:
                del described["claims"]
        for name in _LATER:
            if not made[name]:
                del made[name]
        if not made["service"]["load_balancer_class"]:
            del made["service"]["load_balancer_class"]
        return made

    @classmethod
    def from_object(cls, obj: Object) -> CompiledWorkload:
        """The value that `to_object` described."""
        changes: dict[str, Any] = dict(obj)
        changes["owner"] = WorkloadOwner(**obj["owner"])
        changes["listen"] = Listen(**obj["listen"])
        changes["files"] = tuple(_file(entry) for entry in obj["files"])
        changes["init"] = tuple(_step(entry) for entry in obj["init"])
        changes["service"] = CompiledService(**obj["service"])
        probes = {name: one and Probe(**one) for name, one in obj["probes"].items()}
        changes["probes"] = Probes(**probes)
        for name in ("arguments", "pull_secrets", "volumes", "mounts", "claims", *_LATER):
            changes[name] = tuple(obj.get(name) or ())
        return cls(**changes)


DEFAULT_REPLICAS = 2
_LATER = ("directories", "writable")
"""Fields that descriptions of earlier versions do not have."""


def _file(entry: Object) -> CompiledFile:
    source = entry["source"] and FileSource(**entry["source"])
    content = base64.b64decode(entry["content"])
    return CompiledFile(**{**entry, "content": content, "source": source})


def _step(entry: Object) -> InitStep:
    changes: dict[str, Any] = {**entry, "files": tuple(_file(one) for one in entry["files"])}
    for name in ("command", "arguments", "volumes", "mounts", "claims"):
        changes[name] = tuple(entry.get(name) or ())
    return InitStep(**changes)


def _stable(entry: Object) -> Object:
    return {**entry, "content": ""} if entry["reloads"] else entry


def _encoded(value: Any) -> Any:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, Mapping):
        return {key: _encoded(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_encoded(one) for one in value]
    return value


def _digest(described: Object) -> str:
    return hashlib.sha256(orjson.dumps(described, option=orjson.OPT_SORT_KEYS)).hexdigest()[:16]
