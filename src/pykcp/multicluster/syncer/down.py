"""Specs down: makes the copy of an object in the cluster what the workspace says.

A copy is deleted only with proof: the object is being deleted, is gone, or is assigned to another
cluster, as the API server of the workspace said about this very object; and the copy carries its
UID. Every delete names the UID of the copy. A failure of any kind is no proof.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any

import orjson

from pykcp.controllers.runtime.controller import Requeue
from pykcp.machinery.meta import annotations as annotations_of
from pykcp.machinery.meta import finalizers, is_deleting, labels, now_rfc3339, uid
from pykcp.machinery.status import (
    BadRequest,
    Conflict,
    Forbidden,
    Invalid,
    MethodNotAllowed,
    NotFound,
    RequestEntityTooLarge,
    StatusError,
    Unauthorized,
)
from pykcp.multicluster.names import (
    APPLIED_HASH,
    CLUSTER_LABEL,
    DOWNSTREAM_CLUSTER,
    ORIGIN_UID,
    SYNC_STATE,
)
from pykcp.multicluster.syncer.namespaces import (
    NamespaceCollision,
    NamespaceTerminating,
    is_namespace_missing,
)
from pykcp.multicluster.syncer.projections import Leaf, SyncedCopy
from pykcp.multicluster.syncer.render import CopyName
from pykcp.multicluster.syncer.state import SyncState, parse_state
from pykcp.multicluster.syncer.work import SyncContext, SyncKey, TypeSync
from pykcp.types import Object

_log = logging.getLogger(__name__)

_REJECTED = (Invalid, BadRequest, RequestEntityTooLarge, MethodNotAllowed)
_FORBIDDEN_RETRY = 60.0
_MOST_ERROR = 1000
_DRIFT_FIRST, _DRIFT_LAST = 0.05, 60.0
_MOST_RESTORED = 10_000


class SyncRefused(Exception):
    """The object cannot be synced as it is; the reason is noted on it."""

    def __init__(self, reason: str, message: str, retry: float) -> None:
        super().__init__(message)
        self.reason, self.message, self.retry = reason, message, retry


class DownSync:
    def __init__(self, context: SyncContext, rediscover: Callable[[], None]) -> None:
        """`rediscover`: called when the cluster says that it does not serve a type."""
        self._context, self._rediscover = context, rediscover
        self._restored: dict[SyncKey, tuple[int, float]] = {}
        """How often a copy was restored in a row, and when last."""
        self._rejected: dict[SyncKey, tuple[str, float]] = {}
        """Content that the cluster rejected, and when it is tried again."""

    async def reconcile(self, key: SyncKey) -> float | None:
        synced = self._context.types.get(key.kind)
        if synced is None:
            return None
        leaf = synced.leaves.get(key.key)
        if not synced.is_ready:
            if synced.problem:
                await self._note(synced, leaf, "Forbidden", synced.problem)
            return None  # all are queued when the copies are known
        try:
            released = synced.leaves.released.get(key.key)
            if leaf is None or (released is not None and released.uid != leaf.uid):
                delay = await self._release(synced, key, released)
                if leaf is None or delay is not None:
                    return delay
            if leaf.is_terminating:
                return await self._withdraw(synced, leaf)
            if synced.is_retired:
                return await self._leave(synced, leaf)
            return await self._bring(synced, key, leaf)
        except SyncRefused as refused:
            await self._note(synced, leaf, refused.reason, refused.message)
            return refused.retry

    # --- applying

    async def _leave(self, synced: TypeSync, leaf: Leaf) -> float | None:
        """The cluster does not accept the type any more: what it has stays as it is."""
        copy = synced.copies.get(leaf.target)
        if copy is not None and (copy.origin_uid, copy.hash) == (leaf.uid, leaf.hash):
            return await self._note_applied(synced, leaf)
        text = f"the cluster does not accept {synced.kind} any more: its copies are not changed"
        raise SyncRefused("TypeNotAccepted", text, self._context.settings.permanent_retry)

    async def _bring(self, synced: TypeSync, key: SyncKey, leaf: Leaf) -> float | None:
        owner = synced.leaves.owner(leaf.target)
        if owner is not None and owner.key != leaf.key:
            if owner.is_terminating or owner.root == leaf.uid:
                # It goes soon: an object that a user labels for a cluster loses its parts.
                return self._context.settings.deleting_retry
            other = f"{owner.key.namespace}/{owner.key.name}"
            raise SyncRefused(
                "NameCollision",
                f'the name "{leaf.target.name}" in the cluster is used for {other}',
                self._context.settings.permanent_retry,
            )
        copy = synced.copies.get(leaf.target)
        if copy is not None and copy.origin_uid == leaf.uid and not copy.is_terminating:
            if copy.hash == leaf.hash and copy.is_intact:
                return await self._note_applied(synced, leaf)
            wait = self._before_restoring(key, leaf, copy)
            if wait:
                return wait
        rejected, due = self._rejected.get(key, ("", 0.0))
        if rejected == leaf.hash and due > time.monotonic():
            return due - time.monotonic()
        self._rejected.pop(key, None)
        leaf = await self._hold(synced, leaf)
        try:
            if leaf.key.namespace:
                await self._context.namespaces.ensure(leaf.locator)
            return await self._apply(synced, leaf, copy)
        except NamespaceCollision as error:
            raise SyncRefused("NamespaceCollision", str(error), _FORBIDDEN_RETRY) from None
        except NamespaceTerminating as error:
            raise Requeue(f"namespace {error} is being deleted") from None
        except Unauthorized:
            raise
        except Forbidden as error:
            raise SyncRefused("Forbidden", error.message, _FORBIDDEN_RETRY) from None
        except _REJECTED as error:
            retry = self._context.settings.permanent_retry
            self._rejected[key] = (leaf.hash, time.monotonic() + retry)
            raise SyncRefused("Rejected", error.message, retry) from None
        except NotFound as error:
            if is_namespace_missing(error):
                raise Requeue("the namespace is gone") from None
            self._rediscover()
            text = f"the cluster does not serve {synced.kind}"
            raise SyncRefused("TypeUnavailable", text, _FORBIDDEN_RETRY) from None

    def _before_restoring(self, key: SyncKey, leaf: Leaf, copy: SyncedCopy) -> float:
        """Seconds to wait: a change that keeps coming back is not fought at full speed."""
        if copy.hash != leaf.hash or copy.is_intact:
            return 0.0
        now = time.monotonic()
        times, last = self._restored.get(key, (0, 0.0))
        if now - last > _DRIFT_LAST:
            times = 0
        due = last + min(_DRIFT_LAST, _DRIFT_FIRST * (1 << min(times, 11))) if times else 0.0
        if due > now:
            return due - now
        self._restored[key] = (times + 1, now)
        if len(self._restored) > _MOST_RESTORED:
            self._restored.clear()
        self._context.metrics.drift.add()
        return 0.0

    async def _hold(self, synced: TypeSync, leaf: Leaf) -> Leaf:
        """The finalizer first: a copy may exist from now on."""
        finalizer = self._finalizer(leaf.key.cluster)
        if finalizer in leaf.finalizers:
            return leaf
        patch = _metadata_patch(leaf, {"finalizers": [*leaf.finalizers, finalizer]})
        return await self._patch(synced, leaf, patch)

    async def _apply(self, synced: TypeSync, leaf: Leaf, copy: SyncedCopy | None) -> float | None:
        context = self._context
        if copy is None:
            found = await self._live(synced, leaf.target)
            if found is not None:
                copy = self._judge(synced, leaf, found)
        if copy is not None and copy.origin_uid not in ("", leaf.uid):
            return await self._replace(synced, leaf, copy)
        if copy is not None and copy.is_terminating:
            return context.settings.deleting_retry
        body: Object = orjson.loads(leaf.body)
        if copy is not None:
            body["metadata"]["uid"] = copy.uid  # never onto another object of that name
        try:
            live = await context.downstream.apply("", synced.kind, body, force=True)
        except Conflict:
            synced.copies.drop(leaf.target)  # it is not the one that was known
            context.metrics.applied.add(("409",))
            raise
        except StatusError as error:
            context.metrics.applied.add((str(error.code),))
            raise
        context.metrics.applied.add(("200",))
        context.metrics.sync_lag.observe((), time.monotonic() - leaf.changed_at)
        synced.copies.note(live, is_applied=True)
        return await self._note_applied(synced, leaf)

    def _judge(self, synced: TypeSync, leaf: Leaf, live: Object) -> SyncedCopy | None:
        """An object with the name of the copy, which does not carry the label."""
        if self._is_own(leaf, live):
            # Its label was taken away, or it appeared a moment ago.
            origin = annotations_of(live).get(ORIGIN_UID, "")
            return SyncedCopy(uid(live), "", origin, "", "", is_deleting(live), False, None)
        if leaf.takes_over:
            return None
        raise SyncRefused(
            "Conflict",
            f'{synced.kind.resource} "{leaf.target.name}" exists in the cluster and was not created '
            f"for this object",
            _FORBIDDEN_RETRY,
        )

    def _is_own(self, leaf: Leaf, live: Object) -> bool:
        notes = annotations_of(live)
        label = labels(live).get(DOWNSTREAM_CLUSTER)
        if notes.get(ORIGIN_UID) == leaf.uid:
            return label in (None, self._context.registration.downstream_label)
        # One that carries our label is a copy of an earlier object of that name.
        return label == self._context.registration.downstream_label and APPLIED_HASH in notes

    async def _replace(self, synced: TypeSync, leaf: Leaf, copy: SyncedCopy) -> float | None:
        """The copy of an object of the same name that is gone: this one has another UID."""
        await self._delete(synced, leaf.target, copy.uid, "replaced")
        if synced.copies.get(leaf.target) is None:
            return 0.0
        return self._context.settings.deleting_retry

    # --- removing

    async def _withdraw(self, synced: TypeSync, leaf: Leaf) -> float | None:
        """The object is being deleted."""
        if self._finalizer(leaf.key.cluster) not in leaf.finalizers:
            return None
        if not await self._is_gone(synced, leaf.target, leaf.uid, "deleted"):
            return self._context.settings.deleting_retry
        await self._let_go(synced, leaf)
        return None

    async def _is_gone(self, synced: TypeSync, target: CopyName, origin: str, reason: str) -> bool:
        """Delete the copy of an object; whether the cluster has it no longer."""
        live = await self._live(synced, target)
        if live is None or annotations_of(live).get(ORIGIN_UID) != origin:
            return True
        if not is_deleting(live):
            await self._delete(synced, target, uid(live), reason)
            live = await self._live(synced, target)
        return live is None or annotations_of(live).get(ORIGIN_UID) != origin

    async def _live(self, synced: TypeSync, target: CopyName) -> Object | None:
        return await self._context.downstream.get("", synced.kind, target.name, target.namespace)

    async def _delete(self, synced: TypeSync, target: CopyName, copy_uid: str, reason: str) -> None:
        context = self._context
        _log.info(
            "cluster %s: deleting %s %s/%s: %s",
            context.registration.name, synced.kind, target.namespace, target.name, reason,
        )  # fmt: skip
        await context.downstream.delete(
            "", synced.kind, target.name, target.namespace, uid=copy_uid, propagation="Background"
        )
        context.metrics.deleted.add((reason,))
        if await self._live(synced, target) is None:
            synced.copies.drop(target)

    async def _release(self, synced: TypeSync, key: SyncKey, last: Leaf | None) -> float | None:
        """The object is gone, or assigned to another cluster: the workspace is asked which."""
        self._rejected.pop(key, None)
        if last is None:
            return None
        obj = await self._context.upstream.get(key.cluster, synced.kind, key.name, key.namespace)
        if obj is not None and uid(obj) == last.uid and self._is_assigned(obj, key.cluster):
            synced.leaves.released.pop(key.key, None)
            if synced.leaves.get(key.key) is None:
                synced.leaves.note(obj)  # it was assigned again meanwhile
            return None
        if obj is None and not self._context.hosts(key.cluster):
            synced.leaves.released.pop(key.key, None)  # its workspace is on another shard now
            return None
        reason = "unassigned" if obj is not None and uid(obj) == last.uid else "origin gone"
        if not await self._is_gone(synced, last.target, last.uid, reason):
            return self._context.settings.deleting_retry
        if obj is not None and uid(obj) == last.uid:
            await self._strip(synced, key, obj)
        synced.leaves.released.pop(key.key, None)
        return None

    def _is_assigned(self, obj: Object, workspace: str) -> bool:
        return labels(obj).get(CLUSTER_LABEL) == self._context.registration.label_in(workspace)

    def _finalizer(self, workspace: str) -> str:
        return self._context.registration.finalizer_in(workspace)

    async def remove_orphan(
        self, synced: TypeSync, target: CopyName, copy: SyncedCopy, key: SyncKey
    ) -> bool:
        """A copy whose object is not among the assigned ones: the workspace is asked for it.

        Returns whether it is proven that the copy has no origin.
        """
        obj = await self._context.upstream.get(key.cluster, synced.kind, key.name, key.namespace)
        is_same = obj is not None and uid(obj) == copy.origin_uid
        if obj is not None and is_same and self._is_assigned(obj, key.cluster):
            return False
        if await self._is_gone(synced, target, copy.origin_uid, "orphan") and obj and is_same:
            await self._strip(synced, key, obj)
        return True

    async def _strip(self, synced: TypeSync, key: SyncKey, obj: Object) -> None:
        """Take the finalizer off an object that is assigned to another cluster."""
        finalizer = self._finalizer(key.cluster)
        kept = [one for one in finalizers(obj) if one != finalizer]
        if len(kept) == len(finalizers(obj)):
            return
        metadata = obj["metadata"]
        patch = {
            "metadata": {
                "uid": metadata["uid"],
                "resourceVersion": metadata["resourceVersion"],
                "finalizers": kept,
            }
        }
        await self._context.upstream.patch(key.cluster, synced.kind, key.name, patch, key.namespace)

    async def strip_finalizer(self, synced: TypeSync, key: SyncKey) -> None:
        """The finalizer of an object that is not assigned here, if no copy of it is left."""
        obj = await self._context.upstream.get(key.cluster, synced.kind, key.name, key.namespace)
        if obj is None or self._is_assigned(obj, key.cluster):
            return
        for target, copy in synced.copies.items():
            if copy.origin_uid == uid(obj):
                await self._is_gone(synced, target, copy.origin_uid, "unassigned")
                return
        await self._strip(synced, key, obj)

    async def _let_go(self, synced: TypeSync, leaf: Leaf) -> None:
        finalizer = self._finalizer(leaf.key.cluster)
        kept = [one for one in leaf.finalizers if one != finalizer]
        try:
            await self._patch(synced, leaf, _metadata_patch(leaf, {"finalizers": kept}))
        except NotFound:
            return  # it is gone

    # --- what is noted on the object

    async def _note_applied(self, synced: TypeSync, leaf: Leaf) -> float | None:
        """Kinds with a status tell the generation in it: nothing is noted for them but the end of a
        failure, and the first success if no status comes. Returns when to look again.
        """
        before = parse_state(leaf.state)
        if synced.served.has_status:
            if before is not None and not before.reason:
                return None
            if before is None and leaf.observed >= leaf.generation:
                return None
            wait = leaf.changed_at + synced.note_delay - time.monotonic()
            if before is None and wait > 0:
                return wait
        await self._write_state(synced, leaf, SyncState(leaf.generation))
        return None

    async def _note(self, synced: TypeSync, leaf: Leaf | None, reason: str, message: str) -> None:
        if leaf is None:
            return
        before = parse_state(leaf.state)
        applied = before.applied_generation if before is not None else 0
        await self._write_state(synced, leaf, SyncState(applied, reason, message[:_MOST_ERROR]))

    async def _write_state(self, synced: TypeSync, leaf: Leaf, state: SyncState) -> None:
        if state.is_noted_in(leaf.state):
            return
        patch = {
            "metadata": {
                "uid": leaf.uid,
                "annotations": {SYNC_STATE: state.to_json(now_rfc3339(time.time()))},
            }
        }
        try:
            await self._patch(synced, leaf, patch)
        except NotFound:
            return  # its deletion follows

    async def _patch(self, synced: TypeSync, leaf: Leaf, patch: Any) -> Leaf:
        cluster, namespace, name = leaf.key
        obj = await self._context.upstream.patch(cluster, synced.kind, name, patch, namespace)
        if self._is_assigned(obj, cluster) and not (is_deleting(obj) and not finalizers(obj)):
            return synced.leaves.note(obj)
        return leaf


def _metadata_patch(leaf: Leaf, fields: Object) -> Object:
    return {"metadata": {"uid": leaf.uid, "resourceVersion": leaf.version, **fields}}
