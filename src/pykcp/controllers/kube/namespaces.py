"""Deletion of a namespace: its content, then the namespace itself.

Content is looked for kind by kind. Objects with finalizers remain until these are
removed; the namespace is reconciled again when content is deleted, and periodically in case an
event was missed. A write that was admitted before the namespace was terminating may commit after
its deletion, so a removed namespace is checked once more a little later.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from pykcp.aio.resting import ShortSlices
from pykcp.clients.interface import Change, Client, Lister, ShardFeed
from pykcp.controllers.kube.namespace_conditions import (
    NAMED_FINALIZERS,
    RemainingObjects,
    unexpected_remains,
    update_conditions,
)
from pykcp.controllers.runtime.controller import Controller, Requeue
from pykcp.controllers.runtime.deleting import delete_together
from pykcp.controllers.runtime.kinds import ServedKind, ServedKinds
from pykcp.controllers.runtime.metrics import ControllerMetrics
from pykcp.machinery import meta
from pykcp.machinery.kcp import clusters
from pykcp.machinery.object_keys import ObjectKey
from pykcp.machinery.resources import LOGICAL_CLUSTERS, NAMESPACES
from pykcp.machinery.status import NotFound
from pykcp.registry.indexes.entries import DELETING
from pykcp.types import Object

NAME = "namespace-controller"
FINALIZER = "kubernetes"
_DELETING = b'"deletionTimestamp":"'

LOOK_AGAIN = 8.0
"""Seconds until a namespace with finalizers in it is looked at without having heard anything."""
_GATHER = 0.02
"""Seconds to wait for more news of its content: a thousand deletions are not a thousand looks."""
_GATHER_EACH = 0.0003
"""… for each object that is left: about ten times what it takes to look at one."""
_SHOWN_ERRORS = 10
_SWEEP_AFTER = 5.0
_AT_A_TIME = 32
"""Deletions under way at a time: enough to share commits, few enough to let others in between."""


class RemovedNamespace(NamedTuple):
    """A namespace to be swept up after; it may exist again by then."""

    cluster: str
    name: str


class Namespaces:
    def __init__(
        self,
        lister: Lister,
        client: Client,
        kinds: ServedKinds,
        now: Callable[[], str],
        metrics: ControllerMetrics | None = None,
    ) -> None:
        self._lister, self._client, self._kinds, self._now = lister, client, kinds, now
        self._waiting: dict[ObjectKey, float] = {}
        """Terminating namespaces whose content is being deleted or waits for finalizers, and how
        many seconds of news to gather before looking again: the more content, the longer."""
        self.controller: Controller[ObjectKey | RemovedNamespace] = Controller(
            NAME, self.reconcile, workers=8, metrics=metrics
        )

    def follow(self, feed: ShardFeed) -> None:
        feed.on(NAMESPACES, self._on_namespace)
        feed.on_deletions(self._on_deletion)
        feed.at_start(self._resume)

    def _on_namespace(self, change: Change) -> None:
        if change.deleted:
            key = change.key
            if not self._has_cluster(key.cluster):
                return
            self.controller.add_after(RemovedNamespace(key.cluster, key.name), _SWEEP_AFTER)
        elif _DELETING in change.value:
            self.controller.add(change.key)

    def _on_deletion(self, change: Change) -> None:
        if self._waiting:
            key = ObjectKey(change.cluster, "", change.namespace)
            pause = self._waiting.get(key)
            if pause is not None:
                self.controller.add_after(key, pause)

    async def _resume(self) -> None:
        """Namespaces that have been terminating for longer than the log remembers."""
        for ref in self._lister.find(DELETING, NAMESPACES):
            self.controller.add(ref.key)

    async def reconcile(self, key: ObjectKey | RemovedNamespace) -> float | None:
        namespace = await self._client.get(key.cluster, NAMESPACES, key.name)
        if isinstance(key, RemovedNamespace):
            if namespace is None and self._has_cluster(key.cluster):
                await self._sweep(key)
            return None
        if namespace is None:
            self._waiting.pop(key, None)
            return None
        if not meta.is_deleting(namespace) or not _spec_finalizers(namespace):
            self._waiting.pop(key, None)
            return None
        self._waiting.setdefault(key, _GATHER)  # before looking: nothing is missed in between
        try:
            return await self._terminate(key, namespace)
        except NotFound:
            self._waiting.pop(key, None)  # it is gone, which is what was wanted
            return None

    def _has_cluster(self, cluster: str) -> bool:
        """What went with its whole logical cluster is swept up with that."""
        return clusters.is_system(cluster) or self._lister.has(cluster, LOGICAL_CLUSTERS, "cluster")

    async def _terminate(self, key: ObjectKey, namespace: Object) -> float | None:
        remains, slices = RemainingObjects(), ShortSlices()
        for kind in self._kinds.with_content(key.cluster):
            await self._delete_kind(key, kind, remains)
            if slices.is_over():
                await slices.rest()
        left = sum(remains.by_kind.values())
        self._waiting[key] = max(_GATHER, left * _GATHER_EACH)
        await self._report(key, namespace, remains)
        if remains.errors:
            raise Requeue("; ".join(remains.errors[:_SHOWN_ERRORS]))
        if not remains.is_empty:
            return LOOK_AGAIN
        await self._finalize(key, namespace)
        self._waiting.pop(key, None)
        return None

    async def _delete_kind(
        self, key: ObjectKey, kind: ServedKind, remains: RemainingObjects
    ) -> None:
        """Delete what can be deleted of one kind and count what stays."""
        errors = await self._delete_all(key, kind)
        if errors is None:
            return  # there was nothing
        remains.errors += errors[:1]  # one per kind, as a failing collection has one
        count, unkept = 0, 0
        async for page in self._lister.metadata_of(kind.stored, key.cluster, key.name):
            for item in page:
                count += 1
                unkept += not item.finalizers
                for finalizer in (item.finalizers or ())[:NAMED_FINALIZERS]:
                    remains.by_finalizer[finalizer] = remains.by_finalizer.get(finalizer, 0) + 1
        if count:
            remains.by_kind[kind.resource] = count
        if count and unkept == count and not errors:
            remains.errors.append(unexpected_remains(key.name, kind.resource))

    async def _delete_all(
        self, key: ObjectKey | RemovedNamespace, kind: ServedKind
    ) -> list[str] | None:
        """Errors, or None if there was nothing to delete."""
        errors: list[str] | None = None
        async for page in self._lister.metadata_of(kind.stored, key.cluster, key.name):
            errors = errors or []
            going = [(item.name, key.name) for item in page if not item.is_deleting]
            for start in range(0, len(going), _AT_A_TIME):
                some = going[start : start + _AT_A_TIME]
                errors += await delete_together(self._client, key.cluster, kind.resource, some)
        return errors

    async def _report(self, key: ObjectKey, namespace: Object, remains: RemainingObjects) -> None:
        old = (namespace.get("status") or {}).get("conditions") or ()
        now = self._now()
        if update_conditions(old, remains, now) is None:
            return

        def change(live: Object) -> None:
            _check_same(live, namespace)
            status = {**(live.get("status") or {}), "phase": "Terminating"}
            conditions = status.get("conditions") or ()
            status["conditions"] = update_conditions(conditions, remains, now) or conditions
            live["status"] = status

        await self._client.change(key.cluster, NAMESPACES, key.name, change, subresource="status")

    async def _finalize(self, key: ObjectKey, namespace: Object) -> None:
        """Let go of the namespace; the last finalizer's removal removes the object."""

        def change(live: Object) -> None:
            _check_same(live, namespace)
            left = sorted({f for f in _spec_finalizers(live) if f != FINALIZER})
            live["spec"] = {**(live.get("spec") or {}), "finalizers": left}

        if FINALIZER in _spec_finalizers(namespace):
            await self._client.change(
                key.cluster, NAMESPACES, key.name, change, subresource="finalize"
            )

    async def _sweep(self, key: RemovedNamespace) -> None:
        slices = ShortSlices()
        for kind in self._kinds.with_content(key.cluster):
            if errors := await self._delete_all(key, kind):
                raise Requeue("; ".join(errors[:_SHOWN_ERRORS]))
            if slices.is_over():
                await slices.rest()


def _spec_finalizers(namespace: Object) -> list[str]:
    return (namespace.get("spec") or {}).get("finalizers") or []


def _check_same(live: Object, known: Object) -> None:
    if meta.uid(live) != meta.uid(known):
        raise Requeue("namespace uid has changed across retries")
