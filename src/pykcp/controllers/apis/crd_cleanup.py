"""kcp-crdcleanup: deletes bound CRDs that are no longer used, after a grace period.

A binding uses a definition by listing it as bound, or by accepting a claim on its resource.
New definitions are kept for a while, because a binding may be about to use them.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

from pykcp.aio.slices import Slices, in_slices
from pykcp.apis.kcp_catalog import is_exported
from pykcp.clients.interface import Change, Client, Feed
from pykcp.controllers.apis.objects import ApiObjects
from pykcp.controllers.runtime.controller import Controller
from pykcp.controllers.runtime.metrics import ControllerMetrics
from pykcp.machinery import meta
from pykcp.machinery.kcp.bound_crd import CLUSTER, SCHEMA_CLUSTER, SCHEMA_NAME
from pykcp.machinery.kcp.claims import key_of
from pykcp.machinery.resources import API_BINDINGS, API_EXPORTS, CUSTOM_RESOURCE_DEFINITIONS
from pykcp.registry.codec import decode_in_steps
from pykcp.registry.indexes.apis import bindings_claiming, bindings_to_schema
from pykcp.steps import Steps
from pykcp.types import Object

NAME = "kcp-crdcleanup"
KEEP_FOR = 30 * 60.0
"""Seconds that a definition is kept at least."""
_CLAIMS = b'"identityHash":"'


class LeftBinding(NamedTuple):
    """A binding that is no more, as it was stored."""

    cluster: str
    value: bytes


class CRDCleanup:
    def __init__(
        self,
        objects: ApiObjects,
        client: Client,
        clock: Callable[[], float] = time.time,
        metrics: ControllerMetrics | None = None,
        keep_for: float = KEEP_FOR,
    ) -> None:
        self._objects, self._client, self._clock = objects, client, clock
        self._keep_for = keep_for
        self.controller: Controller[str | LeftBinding] = Controller(
            NAME, self.reconcile, metrics=metrics
        )

    def follow(self, feed: Feed) -> None:
        feed.on(API_BINDINGS, self._on_binding)
        feed.at_start(self._resume)

    def _on_binding(self, change: Change) -> None:
        """Handles deleted bindings; the binding's controller reports schemas that a binding gives up."""
        if change.deleted and _CLAIMS in change.value:
            self.controller.add(LeftBinding(change.cluster, change.value))

    async def _consider_all(self, gone: LeftBinding) -> None:
        """Of a binding with thousands of resources and claims, too, nobody else shall notice."""
        binding = await in_slices(decode_in_steps(gone.value), gone.cluster)
        slices = Slices(gone.cluster)
        offered = self._objects.offered()
        for bound in (binding.get("status") or {}).get("boundResources") or ():
            if not is_exported(bound.get("group") or "", bound.get("resource") or ""):
                self.consider(bound["schema"]["UID"])  # kcp's own kinds stay
            if slices.is_over():
                await slices.next()
        for claim in (binding.get("spec") or {}).get("permissionClaims") or ():
            if claim.get("identityHash"):
                found = await in_slices(
                    self._objects.claimed_schema(key_of(claim), offered), gone.cluster
                )
                if found is not None:
                    self.consider(meta.uid(found[0]))

    def consider(self, uid: str) -> None:
        """Called when a binding stops using the definition with this name."""
        if not self._objects.lister.find(bindings_to_schema(uid), limit=1):
            self.controller.add(uid)

    async def _resume(self) -> None:
        for key in self._objects.lister.keys(CUSTOM_RESOURCE_DEFINITIONS, CLUSTER):
            self.consider(key.name)

    async def reconcile(self, uid: str | LeftBinding) -> float | None:
        if isinstance(uid, LeftBinding):
            await self._consider_all(uid)
            return None
        crd = await self._client.get(CLUSTER, CUSTOM_RESOURCE_DEFINITIONS, uid)
        if crd is None or meta.is_deleting(crd) or await self._is_used(uid, crd):
            return None
        age = self._clock() - meta.parse_rfc3339(meta.creation_timestamp(crd))
        if age < self._keep_for:
            return self._keep_for - age
        await self._client.delete(CLUSTER, CUSTOM_RESOURCE_DEFINITIONS, uid)
        return None

    async def _is_used(self, uid: str, crd: Object) -> bool:
        spec = crd["spec"]
        if is_exported(spec["group"], spec["names"]["plural"]):
            return True  # bindings to kcp's own kinds are too many to be indexed
        if self._objects.lister.find(bindings_to_schema(uid), limit=1):
            return True
        return any(
            self._objects.lister.find(
                bindings_claiming(identity, spec["group"], spec["names"]["plural"]), limit=1
            )
            for identity in await in_slices(self._identities(crd))
        )

    def _identities(self, crd: Object) -> Steps[set[str]]:
        """The identities of the exports that offer the definition's schema."""
        cluster, name = meta.annotation(crd, SCHEMA_CLUSTER), meta.annotation(crd, SCHEMA_NAME)
        found = set()
        for export in self._objects.exports_with_schema(cluster, name):
            live = yield from self._objects.lookup.get_in_steps(API_EXPORTS, *export)
            found.add(((live or {}).get("status") or {}).get("identityHash") or "")
        return found - {""}
