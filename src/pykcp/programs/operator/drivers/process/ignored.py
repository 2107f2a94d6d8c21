"""Fields of a workload that have no meaning for processes: accepted, kept, and listed. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from pykcp.programs.operator.compiled import CompiledWorkload
from pykcp.programs.operator.drivers.process.commands import can_share_port
from pykcp.programs.operator.drivers.process.limits import unlimited_resources


def ignored_fields(compiled: CompiledWorkload) -> tuple[str, ...]:
    """The names of the fields, as they are in the object's spec."""
    return tuple(_ignored(compiled))


def _ignored(compiled: CompiledWorkload) -> Iterator[str]:
    if compiled.is_single and (compiled.replicas or 1) > 1:
        yield "replicas (the embedded store allows one process)"
    elif not can_share_port(compiled) and (compiled.replicas or 1) > 1:
        yield "replicas (the program cannot share its port)"
    yield from unlimited_resources(compiled)
    if compiled.pull_secrets:
        yield "image.imagePullSecrets"
    template = compiled.template.get("spec", {}).get("template", {}).get("spec", {})
    for name in sorted(template):
        yield f"deploymentTemplate.spec.template.spec.{name}"
    for volume in compiled.volumes:
        yield f"extraVolumes[{volume.get('name', '')}] (a Secret, ConfigMap, emptyDir or hostPath can be used)"
    if compiled.service.cluster_ip:
        yield "serviceTemplate.spec.clusterIP"
