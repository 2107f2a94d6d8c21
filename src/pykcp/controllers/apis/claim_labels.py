"""kcp-permissionclaimlabel: objects that a claim covers carry its label, others do not.

Admission knows which labels an object must have and puts them there with every write. So
when the claims of a binding change, every object that may be concerned is written once, as it
is. Objects that were on their way meanwhile are looked at as they arrive
(kcp-resource-permissionclaimlabel).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import NamedTuple

from pykcp.clients.interface import Client
from pykcp.controllers.apis import binding as steps
from pykcp.controllers.apis.metrics import ApiMetrics
from pykcp.controllers.apis.objects import BINDINGS, ApiObjects, export_reference
from pykcp.controllers.runtime.controller import Controller, ObjectKey, Requeue, stored_in
from pykcp.controllers.runtime.feed import EVERYTHING, LogFeed
from pykcp.controllers.runtime.kinds import ServedKind, ServedKinds
from pykcp.controllers.runtime.metrics import ControllerMetrics
from pykcp.controllers.runtime.objects import pages
from pykcp.machinery.kcp import claims
from pykcp.machinery.kcp.claims import NOT_PERSISTED, ClaimKey
from pykcp.machinery.resources import API_BINDINGS, GroupVersionResource
from pykcp.machinery.status import NotFound, StatusError, go_quote
from pykcp.registry.catalog.bound import BoundResources
from pykcp.registry.clock import Timestamps
from pykcp.registry.codec import decode
from pykcp.registry.keys import range_prefix, split_key
from pykcp.storage.interface import Event, Store
from pykcp.types import Object

NAME = "kcp-permissionclaimlabel"
RESOURCE_NAME = "kcp-resource-permissionclaimlabel"
_AT_A_TIME = 32
_APPLIED = b'"appliedPermissionClaims":[{'
_UNSETTLED_FOR = 10.0
"""Seconds in which writes that were admitted before a change of claims have certainly arrived."""


class GoneBinding(NamedTuple):
    """A binding that is no more, and what it had labelled."""

    cluster: str
    claims: tuple[ClaimKey, ...]


class ClaimLabels:
    def __init__(
        self,
        objects: ApiObjects,
        client: Client,
        kinds: ServedKinds,
        bound: BoundResources,
        latecomers: LateObjects,
        now: Timestamps,
        api_metrics: ApiMetrics | None = None,
        metrics: ControllerMetrics | None = None,
    ) -> None:
        self._objects, self._client, self._kinds, self._bound = objects, client, kinds, bound
        self._latecomers, self._now, self._api_metrics = latecomers, now, api_metrics
        self.controller: Controller[ObjectKey | GoneBinding] = Controller(
            NAME, self.reconcile, metrics=metrics
        )

    def follow(self, feed: LogFeed) -> None:
        feed.on(BINDINGS, self._on_binding)

    def _on_binding(self, event: Event) -> None:
        """The binding's controller reports changes, except the deletion of a binding."""
        if event.deleted and _APPLIED in event.value:
            cluster = split_key(event.key).cluster
            self.controller.add(GoneBinding(cluster, tuple(claims.applied(decode(event.value)))))

    def relabel(self, key: ObjectKey) -> None:
        self.controller.add(key)

    async def reconcile(self, key: ObjectKey | GoneBinding) -> None:
        if isinstance(key, GoneBinding):
            errors = []
            for claim in key.claims:
                errors += await self._relabel(key.cluster, claim)
            if errors:
                raise Requeue("; ".join(errors[:10]))
            return
        binding = self._client.get(key.cluster, API_BINDINGS, key.name)
        if binding is not None:
            await self._apply(key, binding)

    async def _apply(self, key: ObjectKey, binding: Object) -> None:
        reference = export_reference(binding)
        export = self._objects.export(key.cluster, *reference) if reference else None
        if export is None:
            return
        state = claims.compare(export, binding)
        errors: list[str] = []
        failed: set[ClaimKey] = set()
        for claim in state.changes:
            wrong = await self._relabel(key.cluster, claim, without=key.name)
            if wrong:
                errors += wrong
                failed.add(claim)
        binding = await self._without_changed(key, binding)
        after, now = {**binding}, self._now()
        steps.judge_claims(after, state, now)
        done = [claim for claim in state.expected if claim not in failed]
        steps.claims_applied(after, done, errors, now)
        if after["status"] != binding.get("status"):
            try:
                await self._client.update(key.cluster, API_BINDINGS, after, "status")
            except NotFound:
                return
            if self._api_metrics is not None:
                self._api_metrics.bindings.changed(binding, after)
        if errors:
            raise Requeue("; ".join(errors[:10]))

    async def _without_changed(self, key: ObjectKey, binding: Object) -> Object:
        """A claim that came back with another selector goes before it comes: the schema of a
        binding lets no selector change, not even in the status."""
        ours, done = claims.accepted(binding), claims.applied(binding)
        changed = {
            one
            for one in ours.keys() & done.keys()
            if not claims.same_selector(ours[one].get("selector"), done[one].get("selector"))
        }
        if not changed:
            return binding
        left = [claim for one, claim in done.items() if one not in changed]
        status = {**binding["status"], "appliedPermissionClaims": left}
        return await self._client.update(
            key.cluster, API_BINDINGS, {**binding, "status": status}, "status"
        )

    async def _relabel(self, cluster: str, claim: ClaimKey, without: str = "") -> list[str]:
        """Write every object that a claim may cover; returns what went wrong.

        `without`: the binding that is just being looked at.
        """
        if (claim.group, claim.resource) in NOT_PERSISTED:
            return []
        self._latecomers.expect(cluster)
        kind = self._kind(cluster, claim)
        if kind is None:
            return self._unknown(claim)
        errors: list[str] = []
        async for page in pages(self._objects.store, range_prefix(kind.prefix, cluster)):
            wanted = [item for item in page if kind.prefix != BINDINGS or item.name != without]
            for start in range(0, len(wanted), _AT_A_TIME):
                outcomes = await asyncio.gather(
                    *(
                        touch(self._client, cluster, kind.resource, item.name, item.namespace)
                        for item in wanted[start : start + _AT_A_TIME]
                    )
                )
                errors += filter(None, outcomes)
        return errors

    def _kind(self, cluster: str, claim: ClaimKey) -> ServedKind | None:
        """How the cluster serves what is claimed; None if it does not, or serves a namesake."""
        group, resource = claims.normalized(claim.group, claim.resource)
        if claim.identity:
            found = self._bound.of_cluster(cluster).get((group, resource))
            if found is None or found.identity != claim.identity:
                return None
        return self._kinds.by_resource(cluster, group, resource)

    def _unknown(self, claim: ClaimKey) -> list[str]:
        """A resource without objects in this cluster is fine, an unknown resource is an error."""
        if claim.identity and self._objects.schema_with_identity(
            claim.identity, claim.group, claim.resource
        ):
            return []
        group, resource = claim.group, claim.resource
        what = f"group={go_quote(group)}, resource={go_quote(resource)}"
        why = f"unable to find informer for {resource}.{group}"
        return [f"error getting informer for {what}: {why}"]


async def touch(
    client: Client, cluster: str, kind: GroupVersionResource, name: str, namespace: str
) -> str:
    """Write an object as it is, so that admission labels it; returns what went wrong."""
    try:
        await client.change(cluster, kind, name, lambda _: None, namespace)
    except NotFound:
        return ""
    except StatusError as error:
        where = f"{cluster}|{namespace}/{name}"
        gvr = f"{kind.group}/{kind.version}, Resource={kind.resource}"
        return f"error patching {go_quote(gvr)} {where}: {error.message}"
    return ""


class LateObjects:
    """kcp-resource-permissionclaimlabel: objects that were admitted before claims changed."""

    def __init__(
        self,
        store: Store,
        client: Client,
        kinds: ServedKinds,
        metrics: ControllerMetrics | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store, self._client, self._kinds, self._clock = store, client, kinds, clock
        self._expected: dict[str, float] = {}
        """Clusters whose claims changed a moment ago, and until when that matters."""
        self.controller: Controller[str] = Controller(
            RESOURCE_NAME, self.reconcile, lane=stored_in, metrics=metrics
        )

    def expect(self, cluster: str) -> None:
        self._expected[cluster] = self._clock() + _UNSETTLED_FOR

    def follow(self, feed: LogFeed) -> None:
        feed.on(EVERYTHING, self._on_anything)

    def _on_anything(self, event: Event) -> None:
        if not self._expected or event.deleted:
            return
        until = self._expected.get(split_key(event.key).cluster)
        if until is None:
            return
        if self._clock() < until:
            self.controller.add(event.key)
        else:
            now = self._clock()
            self._expected = {c: end for c, end in self._expected.items() if end > now}

    async def reconcile(self, key: str) -> None:
        entry = self._store.get(key)
        if entry is None or key.startswith(BINDINGS):
            return  # bindings are written by their own controllers
        parts = split_key(key)
        kind = self._kinds.by_prefix(parts.cluster, parts.resource_prefix)
        if kind is None:
            return
        wrong = await touch(self._client, parts.cluster, kind.resource, parts.name, parts.namespace)
        if wrong:
            raise Requeue(wrong)
