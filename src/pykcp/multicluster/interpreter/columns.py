"""Columns of `kubectl get` for kinds of Kubernetes: clusters compute theirs, and do not describe them."""

from __future__ import annotations

from collections.abc import Mapping

from pykcp.types import Object

_Row = tuple[str, str, str]
_AGE: _Row = ("Age", "date", ".metadata.creationTimestamp")
_REPLICAS: tuple[_Row, ...] = (
    ("Desired", "integer", ".spec.replicas"),
    ("Ready", "integer", ".status.readyReplicas"),
)
_ROWS: Mapping[str, tuple[_Row, ...]] = {
    "deployments.apps": (
        *_REPLICAS,
        ("Up-to-date", "integer", ".status.updatedReplicas"),
        ("Available", "integer", ".status.availableReplicas"),
        _AGE,
    ),
    "statefulsets.apps": (*_REPLICAS, _AGE),
    "replicasets.apps": (*_REPLICAS, _AGE),
    "daemonsets.apps": (
        ("Desired", "integer", ".status.desiredNumberScheduled"),
        ("Current", "integer", ".status.currentNumberScheduled"),
        ("Ready", "integer", ".status.numberReady"),
        ("Up-to-date", "integer", ".status.updatedNumberScheduled"),
        ("Available", "integer", ".status.numberAvailable"),
        _AGE,
    ),
    "jobs.batch": (
        ("Completions", "integer", ".spec.completions"),
        ("Succeeded", "integer", ".status.succeeded"),
        _AGE,
    ),
    "cronjobs.batch": (
        ("Schedule", "string", ".spec.schedule"),
        ("Suspend", "boolean", ".spec.suspend"),
        ("Last Schedule", "date", ".status.lastScheduleTime"),
        _AGE,
    ),
    "services": (
        ("Type", "string", ".spec.type"),
        ("Cluster-IP", "string", ".spec.clusterIP"),
        ("Port(s)", "string", ".spec.ports[*].port"),
        _AGE,
    ),
    "persistentvolumeclaims": (
        ("Status", "string", ".status.phase"),
        ("StorageClass", "string", ".spec.storageClassName"),
        _AGE,
    ),
    "ingresses.networking.k8s.io": (
        ("Class", "string", ".spec.ingressClassName"),
        ("Hosts", "string", ".spec.rules[*].host"),
        ("Address", "string", ".status.loadBalancer.ingress[*].ip"),
        _AGE,
    ),
    "pods": (
        ("Status", "string", ".status.phase"),
        ("Node", "string", ".spec.nodeName"),
        _AGE,
    ),
}


def usual_columns(type_name: str) -> list[Object]:
    """As a CRD lists them; empty for kinds that are not known."""
    return [
        {"name": name, "type": kind, "jsonPath": path}
        for name, kind, path in _ROWS.get(type_name, ())
    ]
