"""What the configuration stage works on: the objects of one namespace and their Secrets."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from pykcp.programs.operator.compiled import CompiledWorkload, WorkloadOwner
from pykcp.programs.operator.configuration.conflicts import ObjectId, refusals
from pykcp.programs.operator.names import workload_name
from pykcp.programs.operator.pki.engine import IssuedCertificate
from pykcp.programs.operator.pki.issuance import Issuance
from pykcp.programs.operator.platform import HostPort, Platform, WorkloadPlace
from pykcp.programs.operator.records import Records
from pykcp.types import Object


class NotConfigurable(Exception):
    """An object cannot be configured now; the message names what is missing.

    `condition` and `reason` are those of the status.
    """

    def __init__(self, condition: str, reason: str, message: str) -> None:
        super().__init__(message)
        self.condition, self.reason, self.message = condition, reason, message


AVAILABLE, ROOT_SHARD, REFERENCE_VALID = "Available", "RootShard", "ReferenceValid"


def input_missing(message: str) -> NotConfigurable:
    return NotConfigurable(AVAILABLE, "InputMissing", message)


@dataclass
class World:
    """One namespace, as it is configured."""

    namespace: str
    platform: Platform
    records: Records
    issuance: Issuance
    objects: dict[ObjectId, Object]
    """By kind and name, with defaults."""
    refused: dict[ObjectId, NotConfigurable] = field(default_factory=dict)
    """Objects that are not configured because of their names."""

    @classmethod
    def of(
        cls,
        namespace: str,
        objects: Iterable[Object],
        records: Records,
        platform: Platform,
        issuance: Issuance,
    ) -> World:
        by_name = {(str(one["kind"]), str(one["metadata"]["name"])): one for one in objects}
        refused = {
            key: NotConfigurable(AVAILABLE, one.reason, one.message)
            for key, one in refusals(by_name, records).items()
        }
        records.owners = frozenset(by_name.keys() - refused.keys())
        return cls(namespace, platform, records, issuance, by_name, refused)

    def get(self, kind: str, name: str) -> Object | None:
        return self.objects.get((kind, name))

    def all(self, kind: str) -> list[Object]:
        """Those of a kind that are configured, by name."""
        return [
            self.objects[key]
            for key in sorted(self.objects)
            if key[0] == kind and key not in self.refused
        ]

    def shards_of(self, root: str) -> list[Object]:
        return [one for one in self.all("Shard") if one["spec"]["rootShard"]["ref"]["name"] == root]

    def root_of(self, obj: Object) -> Object:
        """The RootShard that a Shard or a FrontProxy refers to. Raises NotConfigurable."""
        name = obj["spec"]["rootShard"]["ref"]["name"]
        found = self.get("RootShard", name)
        if found is None:
            why = f'RootShard "{name}" does not exist'
            raise NotConfigurable(ROOT_SHARD, "InvalidReference", why)
        return found

    def secret(self, name: str, key: str, purpose: str) -> bytes:
        """A value of a Secret that the user gives. Raises NotConfigurable."""
        found = self.records.secret(name)
        if found is None:
            raise input_missing(f'{purpose}: Secret "{name}" does not exist')
        if key not in found.data:
            raise input_missing(f'{purpose}: Secret "{name}" has no key "{key}"')
        return found.data[key]


@dataclass(frozen=True, slots=True)
class ConfiguredObject:
    """What was made of one object."""

    workloads: tuple[CompiledWorkload, ...] = ()
    certificates: tuple[IssuedCertificate, ...] = ()
    addresses: tuple[str, ...] = ()


def name_of(obj: Object) -> str:
    return str(obj["metadata"]["name"])


def owner_of(obj: Object) -> WorkloadOwner:
    metadata = obj["metadata"]
    return WorkloadOwner(
        str(obj["kind"]),
        str(metadata["name"]),
        str(metadata.get("uid") or ""),
        int(metadata.get("generation") or 0),
    )


def at(obj: Object, path: str, default: Any = None) -> Any:
    """A field of the spec, `cache.ref.name`; the default if it is not set."""
    value: Any = obj["spec"]
    for part in path.split("."):
        if not isinstance(value, dict) or value.get(part) is None:
            return default
        value = value[part]
    return value


def domain_of(obj: Object) -> str:
    return str(at(obj, "clusterDomain", "cluster.local"))


def is_exposed(spec: Object) -> bool:
    service = (spec.get("serviceTemplate") or {}).get("spec") or {}
    return service.get("type") in ("LoadBalancer", "NodePort")


def shard_place(world: World, shard: Object, component: str) -> WorkloadPlace:
    """Where a shard runs: its base URL may say so."""
    url = urlsplit(at(shard, "shardBaseURL", ""))
    return WorkloadPlace(
        world.namespace,
        workload_name(component, name_of(shard)),
        domain_of(shard),
        url.hostname or "",
        url.port or (443 if url.hostname else 0),
        is_exposed(shard["spec"]),
    )


def shard_url(world: World, shard: Object, component: str) -> str:
    """The URL at which components reach a shard."""
    given = at(shard, "shardBaseURL")
    return given or world.platform.reached(shard_place(world, shard, component)).url


def external_url(root: Object) -> str:
    """The URL at which users reach an installation."""
    external = root["spec"]["external"]
    return HostPort(external["hostname"], external["port"]).url


def private_url(root: Object) -> str:
    """The URL at which components of an installation reach its front-proxy."""
    external = root["spec"]["external"]
    if external.get("privateHostname"):
        port = external.get("privatePort") or external["port"]
        return HostPort(external["privateHostname"], port).url
    return external_url(root)
