"""From manifests to workloads: one run of the configuration stage on this host. Blocking."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from pykcp.auth.files import write_private
from pykcp.programs.kit.errors import SettingsError
from pykcp.programs.operator.compiled import CompiledWorkload
from pykcp.programs.operator.configuration.stage import Configuration, configure
from pykcp.programs.operator.configuration.world import World
from pykcp.programs.operator.drivers.process.ports import PortClaims
from pykcp.programs.operator.host.layout import (
    HostChoices,
    HostFiles,
    SavedPorts,
    first_free,
    imported_workloads,
    read_json,
    write_json,
)
from pykcp.programs.operator.host.manifests import Manifests, load_manifests
from pykcp.programs.operator.host.objects import HostObjects
from pykcp.programs.operator.names import GROUP
from pykcp.programs.operator.pki.engine import CertificateEngine
from pykcp.programs.operator.platform import HostPlatform, WorkloadPlace
from pykcp.programs.operator.records import Records
from pykcp.types import Object

HOST = f"{GROUP}/host"
"""Annotation of an object: the name of the host that runs it."""
ADMINISTRATORS = "system:kcp:admin"
_CLOCK_SECONDS = 300.0
"""A clock that goes back by more is wrong."""


class ClockWrong(SettingsError):
    """The clock is behind the time at which this installation was seen last."""


@dataclass
class _Platform(HostPlatform):
    """A workload is not given a port of another program or another installation."""

    claims: PortClaims = field(default_factory=PortClaims)

    def _port(self, place: WorkloadPlace) -> int:
        key = f"{place.namespace}/{place.workload}"
        if key not in self.ports:
            taken = set(self.ports.values())
            self.ports[key] = first_free(self.host, self.first_port, taken, self.claims)
        return self.ports[key]


@dataclass
class ConfiguredHost:
    """What is to run, and where the rest is."""

    manifests: Manifests
    objects: HostObjects
    configuration: Configuration | None = None
    local: list[CompiledWorkload] = field(default_factory=list)
    remote: list[CompiledWorkload] = field(default_factory=list)
    """Workloads of other hosts: to be exported."""
    imported: list[CompiledWorkload] = field(default_factory=list)
    """Those of `local` that another host configures."""
    world: World | None = None
    kubeconfigs: dict[str, str] = field(default_factory=dict)
    """Files by the name of the Kubeconfig object."""

    @property
    def problems(self) -> list[str]:
        if self.configuration is None:
            return []
        found = self.configuration.problems.items()
        return [f"{kind}/{name}: {problem.message}" for (kind, name), problem in found]

    @property
    def next_time(self) -> float:
        return self.configuration.next_time if self.configuration is not None else float("inf")


class Installation:
    """The objects and Secrets of a root directory."""

    def __init__(self, files: HostFiles, choices: HostChoices) -> None:
        self.files, self.choices = files, choices
        self._claims = PortClaims()

    def check(self) -> None:
        """Read the manifests. Raises SettingsError, also if nothing would run."""
        known = HostObjects(self.files.root / "objects.json").entries
        if not self._manifests().objects and not known and not self._imported():
            raise SettingsError(
                f"{self.choices.manifests} has no objects of {GROUP}: nothing would run. "
                "A RootShard is the least that is needed; kcp up --variant=dekker writes an example"
            )

    def configure(self, now: float, *, saves: bool = True) -> ConfiguredHost:
        """Raises SettingsError for manifests that are wrong, CredentialError for full disks.

        `saves`: False to see what the outcome is; then nothing is written.
        """
        self._check_clock(now)
        self.choices = self.files.choices() or self.choices  # another command may have changed them
        manifests = self._manifests()
        objects = HostObjects(self.files.root / "objects.json")
        imported = self._imported()
        found = ConfiguredHost(manifests, objects, None, list(imported), imported=imported)
        if manifests.objects or objects.entries:
            self._configure(found, now, saves)
        if self.choices.version:
            found.local = [replace(one, version=self.choices.version) for one in found.local]
        names = [one.name for one in (*found.local, *found.remote)]
        for name in names:
            if names.count(name) > 1:
                raise SettingsError(f"{name} is both configured here and imported")
        if saves:
            write_json(self.files.root / "clock.json", {"seen": int(now)})
        return found

    def _manifests(self) -> Manifests:
        if not self.choices.manifests:
            return Manifests()
        return load_manifests(pathlib.Path(self.choices.manifests))

    def _configure(self, found: ConfiguredHost, now: float, saves: bool) -> None:
        manifests = found.manifests
        manifests.objects = found.objects.complete(manifests.objects, saves=saves)
        ports = SavedPorts(self.files.root / "ports.json")
        for port in ports.values():
            self._claims.claim(port)  # a new installation does not take it while nobody listens
        records = self.files.records()
        for record in manifests.records:
            records.put(record)
        platform = _Platform(
            str(self.files.root),
            self.choices.bind_address,
            self.choices.exposed_address,
            self.choices.first_port,
            ports if saves else dict(ports),
            self.choices.host_names,
            claims=self._claims,
        )
        configuration = configure(manifests.namespace, manifests.objects, records, platform, now)
        if saves:
            self._save(configuration)
            found.kubeconfigs = self._write_kubeconfigs(manifests.objects, records)
        hosts = {(one["kind"], one["metadata"]["name"]): host_of(one) for one in manifests.objects}
        for workload in configuration.workloads:
            host = hosts.get((workload.owner.kind, workload.owner.name), "")
            is_local = not self.choices.host or host in ("", self.choices.host)
            (found.local if is_local else found.remote).append(workload)
        found.configuration = configuration
        engine = CertificateEngine(records, now, platform.settle_seconds)
        found.world = World.of(manifests.namespace, manifests.objects, records, platform, engine)

    def _save(self, configuration: Configuration) -> None:
        for record in configuration.records.changed.values():
            self.files.save_record(record, configuration.namespace)
        for record in configuration.unneeded(of_deleted=True):
            self.files.remove_record(record.kind, record.name)

    def _write_kubeconfigs(self, objects: Sequence[Object], records: Records) -> dict[str, str]:
        written = {}
        for obj in objects:
            if obj["kind"] != "Kubeconfig":
                continue
            record = records.secret(obj["spec"]["secretRef"]["name"])
            if record is None or "kubeconfig" not in record.data:
                continue
            text, name = record.data["kubeconfig"], obj["metadata"]["name"]
            path = self.files.kubeconfig(name)
            _write_changed(path, text)
            written[name] = str(path)
            is_admin = ADMINISTRATORS in (obj["spec"].get("groups") or ())
            if is_admin and obj["spec"]["target"].get("frontProxyRef"):
                _write_changed(self.files.admin_kubeconfig, text)
        return written

    def _imported(self) -> list[CompiledWorkload]:
        return imported_workloads(self.files)

    def _check_clock(self, now: float) -> None:
        seen = float((read_json(self.files.root / "clock.json") or {}).get("seen", 0))
        if now < seen - _CLOCK_SECONDS:
            raise ClockWrong(
                f"the clock of this host is wrong: it shows {_shown(now)}, but this installation "
                f"was running at {_shown(seen)}. Certificates are not renewed until it is right; "
                f"if it is right, remove {self.files.root / 'clock.json'}"
            )


def host_of(obj: Object) -> str:
    """The host that runs what is made of an object; "" if it does not matter which."""
    annotations: Mapping[str, str] = obj["metadata"].get("annotations") or {}
    return annotations.get(HOST, "")


def _write_changed(path: pathlib.Path, text: bytes) -> None:
    if not path.exists() or path.read_bytes() != text:
        write_private(path, text)


def _shown(seconds: float) -> str:
    from datetime import UTC, datetime

    return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
