"""Bound CRDs that a logical cluster needs on its new shard, before it is served there."""

from __future__ import annotations

from pykcp.clients.peers import Peers
from pykcp.controllers.apis.bound_crds import BoundCRDs
from pykcp.controllers.apis.objects import ApiObjects
from pykcp.controllers.runtime.controller import Requeue
from pykcp.machinery.kcp.bound_crd import CLUSTER
from pykcp.machinery.resources import API_BINDINGS, CUSTOM_RESOURCE_DEFINITIONS
from pykcp.machinery.status import NotFound, ServiceUnavailable
from pykcp.types import Object


class NeededDefinitions:
    def __init__(self, objects: ApiObjects, crds: BoundCRDs, peers: Peers) -> None:
        self._objects, self._crds, self._peers = objects, crds, peers

    async def ensure(self, origin: str, cluster: str) -> None:
        """Make what the bindings of a logical cluster on another shard use, as it is there."""
        client = self._peers.client(origin)
        try:
            bindings = await client.list(cluster, API_BINDINGS)
            for uid in sorted({uid for binding in bindings for uid in _bound(binding)}):
                if self._objects.bound(uid) is None:
                    crd = await client.get(CLUSTER, CUSTOM_RESOURCE_DEFINITIONS, uid)
                    if crd is not None:
                        await self._crds.copy(uid, crd)
        except (NotFound, ServiceUnavailable) as error:
            raise Requeue(f"shard {origin}: {error}") from error


def _bound(binding: Object) -> set[str]:
    """The UIDs of the schemas that a binding has bound."""
    resources = (binding.get("status") or {}).get("boundResources") or ()
    return {bound["schema"]["UID"] for bound in resources}
