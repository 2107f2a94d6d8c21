"""What all workloads have in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pykcp.programs.operator.compiled import (
    SECURE_PORT,
    CompiledService,
    CompiledWorkload,
    Listen,
)
from pykcp.programs.operator.configuration.files import WorkloadFiles
from pykcp.programs.operator.configuration.host_volumes import host_volumes, volume_files
from pykcp.programs.operator.configuration.world import World, name_of, owner_of
from pykcp.programs.operator.kinds.parts import IMAGE_REPOSITORY, IMAGE_TAG
from pykcp.programs.operator.names import workload_labels
from pykcp.programs.operator.platform import WorkloadPlace
from pykcp.types import Object

Resources = Mapping[str, Mapping[str, str]]

SHARD_RESOURCES: Resources = {
    "requests": {"cpu": "1", "memory": "1Gi"},
    "limits": {"cpu": "2", "memory": "2Gi"},
}
CACHE_RESOURCES: Resources = {
    "requests": {"cpu": "500m", "memory": "1Gi"},
    "limits": {"cpu": "1", "memory": "2Gi"},
}


def listen_flags(world: World, place: WorkloadPlace) -> list[str]:
    at = world.platform.listen(place)
    return [f"--bind-address={at.host}", f"--secure-port={at.port}"]


def make_workload(
    world: World,
    obj: Object,
    spec: Object,
    component: str,
    place: WorkloadPlace,
    files: WorkloadFiles,
    authority: str,
    **more: Any,
) -> CompiledWorkload:
    """A workload of an object; `spec` is the part of it that describes the workload."""
    at = world.platform.listen(place)
    hosts = world.platform.hosts(place)
    image = spec.get("image") or {}
    tag = image.get("tag") or IMAGE_TAG
    pulls = tuple(one["name"] for one in image.get("imagePullSecrets") or () if one.get("name"))
    more |= _volumes(world, place, spec, files, more["arguments"])
    return CompiledWorkload(
        name=place.workload,
        namespace=world.namespace,
        component=component,
        owner=owner_of(obj),
        listen=Listen(
            at.host,
            at.port,
            server_name=next((host for host in hosts if host != "localhost"), "localhost"),
            authority=authority,
        ),
        files=tuple(files.made),
        image=f"{image.get('repository') or IMAGE_REPOSITORY}:{tag}",
        version=tag,
        pull_secrets=pulls,
        labels=workload_labels(component, name_of(obj)),
        template=spec.get("deploymentTemplate") or {},
        claims=claims_of(spec),
        **more,
    )


def _volumes(
    world: World,
    place: WorkloadPlace,
    spec: Object,
    files: WorkloadFiles,
    arguments: tuple[str, ...],
) -> dict[str, Any]:
    """`extraVolumes`: for the platform to mount, or as files of a host."""
    found = host_volumes(world, place, spec)
    if found is None:
        mounts = tuple(spec.get("extraVolumeMounts") or ())
        return {"volumes": tuple(spec.get("extraVolumes") or ()), "mounts": mounts}
    volume_files(found, files, spec)
    return {
        "arguments": tuple(found.text(one) for one in arguments),
        "volumes": tuple(found.left),
        "directories": tuple(found.directories),
        "writable": tuple(found.writable),
    }


def service_of(spec: Object, port: int = SECURE_PORT) -> CompiledService:
    template = spec.get("serviceTemplate") or {}
    metadata, given = template.get("metadata") or {}, template.get("spec") or {}
    return CompiledService(
        port,
        given.get("type") or "ClusterIP",
        given.get("clusterIP") or "",
        given.get("loadBalancerClass") or "",
        metadata.get("labels") or {},
        metadata.get("annotations") or {},
    )


def merged_resources(spec: Object, default: Resources) -> Resources:
    """Requests and limits of the user over the default, key by key."""
    given = spec.get("resources") or {}
    made = {
        part: {**default.get(part, {}), **{k: str(v) for k, v in (given.get(part) or {}).items()}}
        for part in ("requests", "limits")
    }
    return {part: values for part, values in made.items() if values}


def claims_of(spec: Object) -> tuple[Object, ...]:
    return tuple((spec.get("resources") or {}).get("claims") or ())


def extra_arguments(spec: Object) -> Sequence[str]:
    return tuple(spec.get("extraArgs") or ())
