"""Stand-ins for what runs workloads in a cluster.

`Kubelet` sets pods Running: enough for a cluster with Kubernetes' own controllers.
`WorkloadController` fills the status of Deployments and the like, and makes their pods, in a
cluster without controllers.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, Self

from pykcp.testing.client import TestClient
from pykcp.types import Object

_PODS = "/api/v1/pods"
_PERIOD = 0.05
_COUNTS = (
    "replicas",
    "updatedReplicas",
    "readyReplicas",
    "availableReplicas",
    "unavailableReplicas",
)
"""Those that are zero are not there."""


class _Loop:
    """Looks at a cluster again and again, in a thread."""

    def __init__(self, client: TestClient) -> None:
        self._client = TestClient(client.access)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        while not self._stopping.wait(_PERIOD):
            try:
                self._look()
            except OSError:
                self._client.drop()  # the server is away

    def _look(self) -> None:
        raise NotImplementedError

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join(20)
        self._client.close()

    def _items(self, path: str, **query: Any) -> list[Object]:
        found = self._client.get(path, **query)
        items: list[Object] = found.json.get("items") or [] if found.status == 200 else []
        return items

    def _set_status(self, path: str, status: Object) -> None:
        self._client.patch(f"{path}/status", {"status": status})


class Kubelet(_Loop):
    """Binds pods to a node and sets them Running, after a delay."""

    def __init__(self, client: TestClient, node: str = "node-1", delay: float = 0.0) -> None:
        super().__init__(client)
        self._node, self._delay = node, delay
        self._seen: dict[str, float] = {}
        self.holds: Callable[[Object], bool] = lambda _: False
        """Pods that stay Pending."""

    def _look(self) -> None:
        for pod in self._items(_PODS):
            metadata = pod["metadata"]
            path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"
            if metadata.get("deletionTimestamp"):
                self._client.delete(path, {"gracePeriodSeconds": 0})
            elif (pod.get("status") or {}).get("phase") != "Running" and not self.holds(pod):
                began = self._seen.setdefault(metadata["uid"], time.monotonic())
                if time.monotonic() - began >= self._delay:
                    self._start(path, pod)

    def _start(self, path: str, pod: Object) -> None:
        if not pod["spec"].get("nodeName"):
            target = {"apiVersion": "v1", "kind": "Node", "name": self._node}
            binding = {
                "apiVersion": "v1",
                "kind": "Binding",
                "metadata": {"name": pod["metadata"]["name"]},
                "target": target,
            }
            self._client.post(f"{path}/binding", binding)
        self._set_status(path, running_status(pod))


def running_status(pod: Object) -> Object:
    """The status of a pod whose containers run."""
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    return {
        "phase": "Running",
        "podIP": "10.1.0.1",
        "startTime": now,
        "conditions": [
            {"type": kind, "status": "True", "lastTransitionTime": now}
            for kind in ("Initialized", "Ready", "ContainersReady", "PodScheduled")
        ],
        "containerStatuses": [
            {
                "name": container["name"],
                "image": container.get("image", ""),
                "imageID": "test",
                "ready": True,
                "restartCount": 0,
                "state": {"running": {"startedAt": now}},
            }
            for container in pod["spec"]["containers"]
        ],
    }


class WorkloadController(_Loop):
    """Fills the status of Deployments, and makes their pods, in a cluster without controllers."""

    def __init__(self, client: TestClient, *, makes_pods: bool = False) -> None:
        super().__init__(client)
        self._makes_pods = makes_pods
        self.ready: Callable[[Object], int] = _replicas
        """How many replicas of a Deployment are ready."""

    def _look(self) -> None:
        for found in self._items("/apis/apps/v1/deployments"):
            metadata = found["metadata"]
            if metadata.get("deletionTimestamp"):
                continue
            inside = f"/namespaces/{metadata['namespace']}"
            path = f"/apis/apps/v1{inside}/deployments/{metadata['name']}"
            status = self._status(found)
            if found.get("status") != status:
                self._set_status(path, {**dict.fromkeys(_COUNTS), **status})
            if self._makes_pods:
                self._make_pods(f"/api/v1{inside}/pods", found)

    def _status(self, found: Object) -> Object:
        wanted, ready = _replicas(found), self.ready(found)
        status: Object = {
            "observedGeneration": found["metadata"]["generation"],
            "conditions": [
                {
                    "type": "Available",
                    "status": "True" if ready >= wanted else "False",
                    "reason": "MinimumReplicasAvailable",
                    "message": "Deployment has minimum availability.",
                    "lastUpdateTime": found["metadata"]["creationTimestamp"],
                    "lastTransitionTime": found["metadata"]["creationTimestamp"],
                }
            ],
        }
        if wanted:
            status |= {"replicas": wanted, "updatedReplicas": wanted}
        if ready:
            status |= {"readyReplicas": ready, "availableReplicas": ready}
        if wanted > ready:
            status["unavailableReplicas"] = wanted - ready
        return status

    def _make_pods(self, path: str, found: Object) -> None:
        metadata, template = found["metadata"], found["spec"]["template"]
        owner = {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "name": metadata["name"],
            "uid": metadata["uid"],
            "controller": True,
        }
        for number in range(_replicas(found)):
            pod = {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {
                    **(template.get("metadata") or {}),
                    "name": f"{metadata['name']}-{number}",
                    "ownerReferences": [owner],
                },
                "spec": template["spec"],
            }
            made = self._client.post(path, pod)
            if made.status == 201:
                name = made.json["metadata"]["name"]
                self._set_status(f"{path}/{name}", running_status(made.json))


def _replicas(found: Object) -> int:
    wanted = found["spec"].get("replicas")
    return 1 if wanted is None else int(wanted)
