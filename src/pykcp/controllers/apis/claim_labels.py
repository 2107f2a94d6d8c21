"""kcp-permissionclaimlabel: labels the objects covered by a permission claim.

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

from pykcp.aio.slices import Slices, in_slices
from pykcp.apis.kcp_catalog import kind_id
from pykcp.clients.interface import Change, Client, Lister, ShardFeed
from pykcp.controllers.apis import binding as steps
from pykcp.controllers.apis.metrics import ApiMetrics
from pykcp.controllers.apis.objects import ApiObjects, export_reference
from pykcp.controllers.runtime.controller import Controller, Requeue
from pykcp.controllers.runtime.kinds import ServedKind, ServedKinds
from pykcp.controllers.runtime.metrics import ControllerMetrics
from pykcp.machinery.kcp import claims
from pykcp.machinery.kcp.claims import NOT_PERSISTED, ClaimKey
from pykcp.machinery.object_keys import ObjectKey, ObjectRef
from pykcp.machinery.resources import API_BINDINGS, GroupVersionResource
from pykcp.machinery.status import NotFound, StatusError, go_quote
from pykcp.registry.catalog.bound import BoundResources
from pykcp.registry.catalog.offered import OfferedSchemas
from pykcp.registry.clock import Timestamps
from pykcp.registry.codec import decode_in_steps
from pykcp.types import Object

NAME = "kcp-permissionclaimlabel"
RESOURCE_NAME = "kcp-resource-permissionclaimlabel"
_AT_A_TIME = 32
_BINDINGS = kind_id(API_BINDINGS)
_APPLIED = b'"appliedPermissionClaims":[{'
_UNSETTLED_FOR = 10.0
"""Seconds in which writes that were admitted before a change of claims have certainly arrived."""


class GoneBinding(NamedTuple):
    """A binding that is no more, as it was stored."""

    cluster: str
    value: bytes


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

    def follow(self, feed: ShardFeed) -> None:
        feed.on(API_BINDINGS, self._on_binding)

    def _on_binding(self, change: Change) -> None:
        """The binding's controller reports changes, except the deletion of a binding."""
        if change.deleted and _APPLIED in change.value:
            self.controller.add(GoneBinding(change.cluster, change.value))

    def relabel(self, key: ObjectKey) -> None:
        self.controller.add(key)

    async def reconcile(self, key: ObjectKey | GoneBinding) -> None:
        if isinstance(key, GoneBinding):
            errors, offered = [], self._objects.offered()
            gone = await in_slices(decode_in_steps(key.value), key.cluster)
            slices = await self._begin(key.cluster)
            for claim in await in_slices(claims.applied(gone), key.cluster):
                errors += await self._relabel(key.cluster, claim, offered)
                if slices.is_over():
                    await slices.next()
            if errors:
                raise Requeue("; ".join(errors[:10]))
            return
        binding = await self._objects.read_binding(key)
        if binding is not None:
            await self._apply(key, binding)

    async def _apply(self, key: ObjectKey, binding: Object) -> None:
        reference = export_reference(binding)
        export = await self._objects.read_export(key.cluster, *reference) if reference else None
        if export is None:
            return
        state = await in_slices(claims.compare(export, binding), key.cluster)
        errors: list[str] = []
        failed: set[ClaimKey] = set()
        offered, slices = self._objects.offered(), await self._begin(key.cluster)
        for claim in state.changes:
            wrong = await self._relabel(key.cluster, claim, offered, without=key.name)
            if wrong:
                errors += wrong
                failed.add(claim)
            if slices.is_over():
                await slices.next()
        binding = await self._without_changed(key, binding)
        after, now = {**binding}, self._now()
        steps.judge_claims(after, state, now)
        done = [claim for claim in state.expected if claim not in failed]
        await in_slices(steps.claims_applied(after, done, errors, now), key.cluster)
        if after["status"] != binding.get("status"):
            try:
                await self._client.update(key.cluster, API_BINDINGS, after, "status")
            except NotFound:
                return
            if self._api_metrics is not None:
                self._api_metrics.bindings.changed(binding, after)
        if errors:
            raise Requeue("; ".join(errors[:10]))

    async def _begin(self, cluster: str) -> Slices:
        """For a look at many claims: what the cluster has bound is read first."""
        await in_slices(self._bound.in_steps(cluster), cluster)
        return Slices(cluster)

    async def _without_changed(self, key: ObjectKey, binding: Object) -> Object:
        """A claim that came back with another selector goes before it comes: the schema of a
        binding lets no selector change, not even in the status."""
        done = await in_slices(claims.applied(binding), key.cluster)
        changed = await in_slices(claims.reselected(binding, done), key.cluster) if done else ()
        if not changed:
            return binding
        left = [claim for one, claim in done.items() if one not in changed]
        status = {**binding["status"], "appliedPermissionClaims": left}
        return await self._client.update(
            key.cluster, API_BINDINGS, {**binding, "status": status}, "status"
        )

    async def _relabel(
        self, cluster: str, claim: ClaimKey, offered: OfferedSchemas, without: str = ""
    ) -> list[str]:
        """Write every object that a claim may cover; returns what went wrong.

        `without`: the binding that is just being looked at.
        """
        if (claim.group, claim.resource) in NOT_PERSISTED:
            return []
        self._latecomers.expect(cluster)
        kind = self._kind(cluster, claim)
        if kind is None:
            return await self._unknown(cluster, claim, offered)
        errors: list[str] = []
        async for page in self._objects.lister.metadata_of(kind.stored, cluster):
            wanted = [item for item in page if kind.stored != _BINDINGS or item.name != without]
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

    async def _unknown(self, cluster: str, claim: ClaimKey, offered: OfferedSchemas) -> list[str]:
        """A resource without objects in this cluster is fine, an unknown resource is an error."""
        if claim.identity:
            found = await in_slices(self._objects.claimed_schema(claim, offered), cluster)
            if found is not None:
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
        lister: Lister,
        client: Client,
        kinds: ServedKinds,
        metrics: ControllerMetrics | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._lister, self._client, self._kinds, self._clock = lister, client, kinds, clock
        self._expected: dict[str, float] = {}
        """Clusters whose claims changed a moment ago, and until when that matters."""
        self.controller: Controller[ObjectRef] = Controller(
            RESOURCE_NAME, self.reconcile, metrics=metrics
        )

    def expect(self, cluster: str) -> None:
        self._expected[cluster] = self._clock() + _UNSETTLED_FOR

    def follow(self, feed: ShardFeed) -> None:
        feed.on_everything(self._on_anything)

    def _on_anything(self, change: Change) -> None:
        if not self._expected or change.deleted:
            return
        until = self._expected.get(change.cluster)
        if until is None:
            return
        if self._clock() < until:
            self.controller.add(change.ref)
        else:
            now = self._clock()
            self._expected = {c: end for c, end in self._expected.items() if end > now}

    async def reconcile(self, ref: ObjectRef) -> None:
        if ref.resource == _BINDINGS or self._lister.version(ref) is None:
            return  # bindings are written by their own controllers
        kind = self._kinds.by_stored(ref.cluster, ref.resource)
        if kind is None:
            return
        wrong = await touch(self._client, ref.cluster, kind.resource, ref.name, ref.namespace)
        if wrong:
            raise Requeue(wrong)
