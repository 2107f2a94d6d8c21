"""Writing the status of Kubernetes' kinds: what it leaves as it is, it does not own either."""

from __future__ import annotations

import pytest

from pykcp.testing.client import TestClient
from pykcp.types import Object

APPLY = "application/apply-patch+yaml"
POD: Object = {
    "metadata": {"labels": {"app": "a"}},
    "spec": {"containers": [{"name": "a", "image": "a"}]},
}
CASES: dict[str, tuple[str, Object]] = {
    "/apis/apps/v1/namespaces/default/deployments/": (
        "Deployment",
        {"selector": {"matchLabels": {"app": "a"}}, "template": POD},
    ),
    "/apis/storage.k8s.io/v1/volumeattachments/": (
        "VolumeAttachment",
        {"attacher": "a", "nodeName": "n", "source": {"persistentVolumeName": "v"}},
    ),
    "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas/": (
        "FlowSchema",
        {"priorityLevelConfiguration": {"name": "exempt"}},
    ),
}
STATUSES: dict[str, Object] = {
    "Deployment": {"replicas": 1},
    "VolumeAttachment": {"attached": True},
    "FlowSchema": {"conditions": [{"type": "Dangling", "status": "False"}]},
}


@pytest.mark.parametrize("path", CASES)
def test_metadata_stay(workspace: TestClient, path: str) -> None:
    """An apply after it changes nothing, not even the resource version."""
    kind, spec = CASES[path]
    group_version = "/".join(path.split("/")[2:4])
    applied: Object = {
        "apiVersion": group_version,
        "kind": kind,
        "metadata": {"name": "kept", "labels": {"app": "a"}},
        "spec": spec,
    }
    url = f"{path}kept?fieldManager=owner"
    sent = workspace.patch(url, applied, content_type=APPLY).json
    sent["metadata"]["labels"] = {"app": "changed"}
    sent["status"] = STATUSES[kind]
    reply = workspace.put(f"{path}kept/status?fieldManager=other", sent)
    assert reply.status == 200, reply.text
    written = reply.json
    assert written["metadata"]["labels"] == {"app": "a"}
    (fields,) = (
        entry["fieldsV1"]
        for entry in written["metadata"]["managedFields"]
        if entry["manager"] == "other"
    )
    assert set(fields) == {"f:status"}
    again = workspace.patch(url, applied, content_type=APPLY).json
    assert again["metadata"]["resourceVersion"] == written["metadata"]["resourceVersion"]
