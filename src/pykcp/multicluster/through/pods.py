"""Pods of a cluster as the workspace shows them. Pure."""

from __future__ import annotations

from pykcp.machinery.meta import CLUSTER_ANNOTATION
from pykcp.multicluster.names import CLUSTER_LABEL
from pykcp.types import Object


def shown_pod(pod: Object, workspace: str, namespace: str, cluster: str) -> Object:
    """In the namespace of the workspace, with a label that says where the pod runs."""
    metadata = {name: value for name, value in pod["metadata"].items() if name != "managedFields"}
    metadata["namespace"] = namespace
    metadata["labels"] = {**(metadata.get("labels") or {}), CLUSTER_LABEL: cluster}
    metadata["annotations"] = {
        **(metadata.get("annotations") or {}),
        CLUSTER_ANNOTATION: workspace,
    }
    return {"apiVersion": "v1", "kind": "Pod", **pod, "metadata": metadata}
