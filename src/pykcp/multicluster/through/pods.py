"""Pods of a cluster as the workspace shows them. Pure."""

from __future__ import annotations

from typing import Protocol

from pykcp.machinery.meta import CLUSTER_ANNOTATION
from pykcp.multicluster.names import CLUSTER_LABEL
from pykcp.types import Object


class RunningIn(Protocol):
    """The cluster of a pod."""

    name: str
    key: str
    """By which resource versions name it."""


def shown_pod(pod: Object, workspace: str, namespace: str, cluster: RunningIn) -> Object:
    """In the namespace of the workspace, with a label that says where the pod runs.

    Its version says of which cluster it is: a watch from there on is a watch of that cluster.
    """
    metadata = {name: value for name, value in pod["metadata"].items() if name != "managedFields"}
    metadata["namespace"] = namespace
    metadata["labels"] = {**(metadata.get("labels") or {}), CLUSTER_LABEL: cluster.name}
    metadata["annotations"] = {
        **(metadata.get("annotations") or {}),
        CLUSTER_ANNOTATION: workspace,
    }
    if "resourceVersion" in metadata:
        metadata["resourceVersion"] = f"0.{cluster.key}-{metadata['resourceVersion']}"
    return {"apiVersion": "v1", "kind": "Pod", **pod, "metadata": metadata}


def own_version(version: str, key: str) -> str:
    """The version that the cluster gave a pod; the text itself if it is of no cluster."""
    for part in version.split(".")[1:]:
        name, _, own = part.partition("-")
        if name == key:
            return own
    return version
