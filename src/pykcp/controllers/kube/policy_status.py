"""Writes the type-checking warnings of a ValidatingAdmissionPolicy to its status."""

from __future__ import annotations

from pykcp.admission.tenants import policy_status
from pykcp.aio.slices import in_slices
from pykcp.clients.interface import Change, Client, Feed
from pykcp.controllers.runtime.controller import Controller
from pykcp.controllers.runtime.metrics import ControllerMetrics
from pykcp.machinery.object_keys import ObjectKey
from pykcp.machinery.resources import GroupVersionResource
from pykcp.machinery.status import NotFound
from pykcp.registry.catalog.directory import Directory
from pykcp.types import Object

NAME = "validatingadmissionpolicy-status-controller"
_POLICIES = GroupVersionResource(
    "admissionregistration.k8s.io", "v1", "validatingadmissionpolicies"
)


class PolicyStatus:
    def __init__(
        self, client: Client, directory: Directory, metrics: ControllerMetrics | None = None
    ) -> None:
        self._client, self._directory = client, directory
        self.controller = Controller(NAME, self.reconcile, workers=2, metrics=metrics)

    def follow(self, feed: Feed) -> None:
        feed.on(_POLICIES, self._on_policy)

    def _on_policy(self, change: Change) -> None:
        if not change.deleted:
            self.controller.add(change.key)

    async def reconcile(self, key: ObjectKey) -> float | None:
        policy = await self._client.get(key.cluster, _POLICIES, key.name)
        if policy is None or _is_current(policy):
            return None
        await self._directory.load(key.cluster)
        status = await in_slices(policy_status(self._directory, key.cluster, policy), key.cluster)

        def settle(live: Object) -> None:
            if live["metadata"].get("generation") == policy["metadata"].get("generation"):
                live["status"] = status

        try:
            await self._client.change(
                key.cluster, _POLICIES, key.name, settle, subresource="status"
            )
        except NotFound:
            return None  # it went meanwhile
        return None


def _is_current(policy: Object) -> bool:
    observed = (policy.get("status") or {}).get("observedGeneration")
    return bool(observed == policy["metadata"].get("generation"))
