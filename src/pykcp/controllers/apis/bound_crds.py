"""Creation of bound CRDs: one for each bound schema, at its first binding."""

from __future__ import annotations

from pykcp.clients.interface import Client
from pykcp.controllers.apis.objects import ApiObjects, Definition
from pykcp.controllers.kube.crd_conditions import after_naming
from pykcp.machinery import meta
from pykcp.machinery.kcp.bound_crd import CLUSTER, bound_crd
from pykcp.machinery.resources import CUSTOM_RESOURCE_DEFINITIONS
from pykcp.machinery.status import AlreadyExists
from pykcp.registry.clock import Timestamps
from pykcp.types import Object


class BoundCRDs:
    def __init__(self, objects: ApiObjects, client: Client, now: Timestamps) -> None:
        self._objects, self._client, self._now = objects, client, now

    async def ensure(self, schema: Object, cluster: str) -> Definition | None:
        """The definition of a schema; made if need be. None: it is about to go.

        NoConversion if the schema cannot be bound, Invalid if it is no definition.
        """
        uid = meta.uid(schema)
        found = self._objects.bound(uid)
        if found is None:
            await self._create(bound_crd(schema, cluster))
            found = self._objects.bound(uid)
        if found is not None and not found.is_established and not found.is_terminating:
            await self._establish(uid)
            found = self._objects.bound(uid)
        return found

    async def copy(self, uid: str, crd: Object) -> None:
        """Make a definition as another shard has it."""
        kept = {"name": uid, "annotations": meta.annotations(crd)}
        await self._create({**crd, "metadata": kept, "status": {}})
        await self._establish(uid)

    async def _create(self, crd: Object) -> None:
        try:
            await self._client.create(CLUSTER, CUSTOM_RESOURCE_DEFINITIONS, crd)
        except AlreadyExists:
            return  # another binding of the same schema was faster

    async def _establish(self, uid: str) -> None:
        """Names are not checked for conflicts: the bound definitions of all exports are in one cluster."""
        now = self._now()

        def settle(live: Object) -> None:
            live["status"] = after_naming(live, (), now)

        await self._client.change(
            CLUSTER, CUSTOM_RESOURCE_DEFINITIONS, uid, settle, subresource="status"
        )
