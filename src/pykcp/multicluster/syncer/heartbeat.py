"""What a syncer reports about itself and its cluster, in the status of the Cluster object.

`Ready` means that both ends work, so the report says whether the cluster answers, too. Sums over
nodes and pods are made once a minute, and left out where the syncer may not read them.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable

from pykcp.clients.interface import Client
from pykcp.machinery.meta import now_rfc3339
from pykcp.machinery.quantity import QuantityError, parse
from pykcp.machinery.resources import NAMESPACES, GroupVersionResource
from pykcp.machinery.status import StatusError
from pykcp.multicluster.names import CLUSTERS
from pykcp.multicluster.syncer.engine import SyncHealth
from pykcp.multicluster.syncer.servers import Downstream
from pykcp.multicluster.syncer.settings import Registration, SyncSettings
from pykcp.types import Object

_log = logging.getLogger(__name__)

NODES = GroupVersionResource("", "v1", "nodes")
PODS = GroupVersionResource("", "v1", "pods")
_FIRST = ("cpu", "memory", "pods", "ephemeral-storage")
_MOST_NAMES = 64
"""Resources in a report; nodes may have any names. Those that all nodes have are never left out."""
_DONE = ("Succeeded", "Failed")


async def capacity(client: Client) -> Object:
    """Sums over nodes and pods; without those that may not be read."""
    found: Object = {}
    try:
        nodes = [node.get("status") or {} for node in await client.list("", NODES)]
        found["capacity"] = totals(node.get("capacity") or {} for node in nodes)
        found["allocatable"] = totals(node.get("allocatable") or {} for node in nodes)
        requested: list[Object] = []
        async for page in client.pages("", PODS):
            requested += [_requests(pod) for pod in page if not _is_done(pod)]
        found["requested"] = totals(requested)
    except StatusError as error:
        _log.debug("capacity: %s", error)
    return found


def _is_done(pod: Object) -> bool:
    return (pod.get("status") or {}).get("phase") in _DONE


def _requests(pod: Object) -> Object:
    containers = (pod.get("spec") or {}).get("containers") or ()
    asked = [(one.get("resources") or {}).get("requests") or {} for one in containers]
    return {**totals(asked), "pods": "1"}


def totals(lists: Iterable[Object]) -> Object:
    """By resource, those that devices add included; processors in thousandths."""
    found: dict[str, int] = {}
    for one in lists:
        for name, value in one.items():
            if name not in found and len(found) >= _MOST_NAMES and name not in _FIRST:
                continue
            try:
                number = parse(value)
            except QuantityError:
                continue
            amount = number.milli_value if name == "cpu" else number.value
            found[name] = found.get(name, 0) + amount
    return {name: f"{amount}m" if name == "cpu" else str(amount) for name, amount in found.items()}


class SyncerHeartbeat:
    """Writes the report, again and again."""

    def __init__(
        self,
        registration: Registration,
        upstream: Client,
        downstream: Downstream,
        settings: SyncSettings,
        identity: str,
        version: str = "",
    ) -> None:
        self._registration, self._settings = registration, settings
        self._upstream, self._downstream = upstream, downstream
        self._identity, self._version = identity, version
        self._sums: Object = {}
        self._summed_at = 0.0
        self._about: Object = {}

    async def report(self, health: SyncHealth) -> Object:
        """The status that is written."""
        problem = await self._downstream.readiness()
        if not problem:
            await self._read_cluster()
        syncer: Object = {
            "downstreamReady": not problem,
            "downstreamMessage": problem,
            "identity": self._identity,
            "queueDepth": health.queued,
            "version": self._version,
            "oldestUnsyncedTime": None,
        }
        if health.oldest_unsynced is not None:
            syncer["oldestUnsyncedTime"] = now_rfc3339(time.time() - health.oldest_unsynced)
        return {
            "lastSyncerHeartbeatTime": now_rfc3339(time.time()),
            "syncer": syncer,
            **self._about,
            **self._sums,
        }

    async def _read_cluster(self) -> None:
        now = time.monotonic()
        if self._sums and now - self._summed_at < self._settings.capacity_interval:
            return
        self._summed_at = now
        self._sums = await capacity(self._downstream.client)
        try:
            version = await self._downstream.client.send("GET", "/version")
            self._about["version"] = str(version.get("gitVersion") or "")
            system = await self._downstream.client.get("", NAMESPACES, "kube-system")
            if system is not None:
                self._about["uid"] = system["metadata"]["uid"]
        except StatusError as error:
            _log.debug("identity of the cluster: %s", error)

    async def beat(self, health: SyncHealth, *, serves_consumers: bool | None = None) -> None:
        """`serves_consumers`: whether other workspaces are seen; None: the control plane knows."""
        status = await self.report(health)
        if serves_consumers is not None:
            status["servesConsumers"] = serves_consumers
        registration = self._registration
        patch = {"metadata": {"uid": registration.uid}, "status": status}
        await self._upstream.patch(
            registration.workspace, CLUSTERS, registration.name, patch, subresource="status"
        )
