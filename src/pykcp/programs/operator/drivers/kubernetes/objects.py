"""The objects of Kubernetes that run a workload. Pure."""

from __future__ import annotations

import hashlib
import posixpath
from collections.abc import Iterable, Mapping
from typing import Any

from pykcp.programs.operator.compiled import (
    DEFAULT_REPLICAS,
    SECRET,
    SECURE_PORT,
    CompiledFile,
    CompiledWorkload,
    InitStep,
    Probe,
)
from pykcp.programs.operator.kinds.parts import POD_FIELDS, is_kcp_image
from pykcp.programs.operator.names import GROUP
from pykcp.programs.operator.records import owner_reference
from pykcp.types import Object

_DATA = "data"
_SECURITY: Object = {
    "readOnlyRootFilesystem": True,
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}
_LAST_WORDS = "FallbackToLogsOnError"
"""The status of a pod shows the last lines of a program that failed; conditions quote them."""


def workload_objects(workload: CompiledWorkload, live_replicas: int | None = None) -> list[Object]:
    """Deployment, Service and, for a store without etcd, its volume."""
    made = [_deployment(workload, live_replicas), _service(workload)]
    if workload.is_single and workload.data_directory:
        made.append(_volume_claim(workload))
    return made


def _metadata(workload: CompiledWorkload, more: Object | None = None) -> Object:
    given = more or {}
    made: Object = {
        "name": workload.name,
        "namespace": workload.namespace,
        "labels": {**(given.get("labels") or {}), **workload.labels},
    }
    if given.get("annotations"):
        made["annotations"] = dict(given["annotations"])
    if workload.owner.uid:
        made["ownerReferences"] = [owner_reference(workload.owner)]
    return made


# --- Deployment --------------------------------------------------------------------


def _deployment(workload: CompiledWorkload, live_replicas: int | None) -> Object:
    template = workload.template
    pod_template = ((template.get("spec") or {}).get("template")) or {}
    metadata = pod_template.get("metadata") or {}
    replicas = workload.replicas
    if replicas is None:  # an autoscaler may own the number
        replicas = DEFAULT_REPLICAS if live_replicas is None else live_replicas
    # Two processes must not write one store.
    strategy = {"type": "Recreate"} if workload.is_single else {"type": "RollingUpdate"}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": _metadata(workload, template.get("metadata")),
        "spec": {
            "replicas": replicas,
            "strategy": strategy,
            "selector": {"matchLabels": dict(workload.labels)},
            "template": {
                "metadata": {
                    "labels": {
                        **(metadata.get("labels") or {}),
                        **workload.labels,
                        **rollout_labels(workload),
                    },
                    "annotations": dict(metadata.get("annotations") or {}),
                },
                "spec": _pod(workload, pod_template.get("spec") or {}),
            },
        },
    }


def rollout_labels(workload: CompiledWorkload) -> dict[str, str]:
    """Labels that change, and replace the pods, when a file changes that is read only once."""
    reloads = not is_kcp_image(workload.image)  # kcp reloads few of them
    contents: dict[tuple[str, str], list[CompiledFile]] = {}
    for file in workload.files:
        if file.source is not None and not (file.reloads and reloads):
            contents.setdefault((file.source.kind, file.source.name), []).append(file)
    made = {}
    for (kind, name), files in contents.items():
        short = hashlib.sha3_256(name.encode()).hexdigest()[:20]
        text = b"\0".join(one.path.encode() + one.content for one in files)
        part = "secret" if kind == SECRET else "configmap"
        made[f"{GROUP}/{part}-{short}-rev"] = hashlib.sha256(text).hexdigest()[:20]
    return made


def _pod(workload: CompiledWorkload, given: Object) -> Object:
    volumes, mounts = _volumes(workload.files)
    if workload.data_directory:
        claim = {"persistentVolumeClaim": {"claimName": _claim(workload)}}
        volumes.append({"name": _DATA, **(claim if workload.is_single else {"emptyDir": {}})})
        mounts.append({"name": _DATA, "mountPath": workload.data_directory})
    init = []
    for number, step in enumerate(workload.init):
        more, container = _init_container(step, workload, f"init{number}")
        volumes += more
        init.append(container)
    pod: Object = {
        "containers": [_container(workload, mounts)],
        "volumes": _distinct([*volumes, *workload.volumes]),
        "automountServiceAccountToken": False,
        "securityContext": {"fsGroup": 65532, "runAsNonRoot": True},
    }
    if init:
        pod["initContainers"] = init
    for name in POD_FIELDS:
        if given.get(name) is not None and name != "imagePullSecrets":
            pod[name] = given[name]
    # Those of the image stay although the template has others.
    wanted = [one["name"] for one in given.get("imagePullSecrets") or () if one.get("name")]
    if pulls := list(dict.fromkeys((*workload.pull_secrets, *wanted))):
        pod["imagePullSecrets"] = [{"name": name} for name in pulls]
    return pod


def _container(workload: CompiledWorkload, mounts: list[Object]) -> Object:
    program = workload.program
    made: Object = {
        "name": workload.component,
        "image": workload.image,
        "command": [program if "/" in program else f"/{program}"],
        "args": list(workload.arguments),
        "ports": [{"name": "https", "containerPort": SECURE_PORT, "protocol": "TCP"}],
        "securityContext": _SECURITY,
        "terminationMessagePolicy": _LAST_WORDS,
        "volumeMounts": [*mounts, *workload.mounts],
    }
    if workload.environment:
        made["env"] = [{"name": k, "value": v} for k, v in workload.environment.items()]
    if resources := _resources(workload.resources, workload.claims):
        made["resources"] = resources
    for name, probe in (
        ("startupProbe", workload.probes.startup),
        ("readinessProbe", workload.probes.readiness),
        ("livenessProbe", workload.probes.liveness),
    ):
        if probe is not None:
            made[name] = _probe(probe)
    return made


def _resources(
    amounts: Mapping[str, Mapping[str, str]], claims: tuple[Object, ...]
) -> dict[str, Any]:
    made: dict[str, Any] = {part: dict(values) for part, values in amounts.items()}
    return {**made, "claims": list(claims)} if claims else made


def _probe(probe: Probe) -> Object:
    return {
        "httpGet": {"path": probe.path, "port": "https", "scheme": "HTTPS"},
        "initialDelaySeconds": int(probe.delay),
        "periodSeconds": int(probe.period),
        "failureThreshold": probe.failures,
        "timeoutSeconds": int(probe.timeout),
    }


def _init_container(
    step: InitStep, workload: CompiledWorkload, prefix: str
) -> tuple[list[Object], Object]:
    volumes, mounts = _volumes(step.files, prefix)
    made: Object = {
        "name": step.name,
        "image": step.image or workload.image,
        "securityContext": _SECURITY,
        "terminationMessagePolicy": _LAST_WORDS,
        "volumeMounts": [*mounts, *step.mounts],
    }
    if step.command:
        made["command"] = list(step.command)
    if step.arguments:
        made["args"] = list(step.arguments)
    if resources := _resources(step.resources, step.claims):
        made["resources"] = resources
    return [*volumes, *step.volumes], made


def _volumes(
    files: Iterable[CompiledFile], prefix: str = "files"
) -> tuple[list[Object], list[Object]]:
    """A volume for each directory, so that a certificate and its key change together."""
    directories: dict[str, list[CompiledFile]] = {}
    for file in files:
        directories.setdefault(posixpath.dirname(file.path), []).append(file)
    volumes, mounts = [], []
    for directory, inside in sorted(directories.items()):
        name = f"{prefix}{directory.replace('/', '-')}"[:63].rstrip("-")
        volumes.append({"name": name, "projected": {"sources": _sources(inside)}})
        mounts.append({"name": name, "mountPath": directory, "readOnly": True})
    return volumes, mounts


def _sources(files: list[CompiledFile]) -> list[Object]:
    by_object: dict[tuple[str, str], dict[str, str]] = {}
    for file in files:
        assert file.source is not None  # every file is a copy of an object here
        items = by_object.setdefault((file.source.kind, file.source.name), {})
        items[posixpath.basename(file.path)] = file.source.key
    return [
        {
            "secret" if kind == SECRET else "configMap": {
                "name": name,
                "items": [{"key": key, "path": path} for path, key in sorted(items.items())],
            }
        }
        for (kind, name), items in by_object.items()
    ]


def _distinct(volumes: Iterable[Object]) -> list[Object]:
    """Of volumes with one name the first counts."""
    made: dict[Any, Object] = {}
    for volume in volumes:
        made.setdefault(volume.get("name"), volume)
    return list(made.values())


# --- Service and volume ------------------------------------------------------------


def _service(workload: CompiledWorkload) -> Object:
    service = workload.service
    given = {"labels": service.labels, "annotations": service.annotations}
    spec: Object = {
        "type": service.type,
        "selector": dict(workload.labels),
        "ports": [
            {
                "name": "https",
                "port": service.port,
                "targetPort": SECURE_PORT,
                "protocol": "TCP",
                "appProtocol": "https",
            }
        ],
    }
    if service.cluster_ip:
        spec["clusterIP"] = service.cluster_ip
    if service.load_balancer_class and service.type == "LoadBalancer":
        spec["loadBalancerClass"] = service.load_balancer_class
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _metadata(workload, given),
        "spec": spec,
    }


def _claim(workload: CompiledWorkload) -> str:
    return f"{workload.name}-data"


def _volume_claim(workload: CompiledWorkload) -> Object:
    metadata = _metadata(workload)
    # A claim outlives its object: data goes when the user deletes it.
    metadata.pop("ownerReferences", None)
    storage: Mapping[str, Any] = workload.storage
    spec: Object = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": storage.get("size") or "8Gi"}},
    }
    if storage.get("storageClassName"):
        spec["storageClassName"] = storage["storageClassName"]
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {**metadata, "name": _claim(workload)},
        "spec": spec,
    }
