"""Status up: writes the status of a copy to its object in the workspace.

A status is written with a test of the object's UID and of its assignment, so that it never reaches
an object of the same name. Changes in quick succession are written as one.
"""

from __future__ import annotations

import time

import msgspec

from pykcp.clients.interface import JSON_PATCH
from pykcp.machinery.meta import labels
from pykcp.machinery.status import BadRequest, Invalid, MethodNotAllowed, NotFound, StatusError
from pykcp.multicluster.names import CLUSTER_LABEL
from pykcp.multicluster.syncer.projections import Leaf, SyncedCopy
from pykcp.multicluster.syncer.work import SyncContext, SyncKey, TypeSync
from pykcp.types import Object

_LABEL_PATH = f"/metadata/labels/{CLUSTER_LABEL.replace('/', '~1')}"


class UpSync:
    def __init__(self, context: SyncContext) -> None:
        self._context = context

    def is_due(self, leaf: Leaf, copy: SyncedCopy) -> bool:
        """Whether the status of a copy is news."""
        if copy.origin_uid != leaf.uid or copy.status is None or leaf.is_terminating:
            return False
        if copy.status_hash == leaf.status:
            return False
        # The workspace may not keep all fields: what it made of this status counts.
        return leaf.reported != (copy.status_hash, leaf.status)

    async def reconcile(self, key: SyncKey) -> float | None:
        synced = self._context.types.get(key.kind)
        leaf = synced.leaves.get(key.key) if synced is not None else None
        copy = synced.copies.get(leaf.target) if synced is not None and leaf is not None else None
        if synced is None or leaf is None or copy is None or not self.is_due(leaf, copy):
            return None
        now = time.monotonic()
        wait = leaf.reported_at + self._context.settings.status_delay - now
        if wait > 0:
            return wait
        leaf.reported_at = now
        try:
            obj = await self._write(synced, leaf, copy)
        except NotFound:
            return None  # the object is gone; its deletion follows
        except (Invalid, BadRequest) as error:
            # Either the tests failed, and an event follows, or the status is not accepted.
            self._context.metrics.reported.add((str(error.code),))
            leaf.reported = (copy.status_hash, leaf.status)
            return None
        except StatusError as error:
            self._context.metrics.reported.add((str(error.code),))
            raise
        self._context.metrics.reported.add(("200",))
        self._context.metrics.status_lag.observe((), time.monotonic() - copy.changed_at)
        if labels(obj).get(CLUSTER_LABEL) == self._label(leaf):
            leaf = synced.leaves.note(obj)
        leaf.reported = (copy.status_hash, leaf.status)
        return None

    def _label(self, leaf: Leaf) -> str:
        return self._context.registration.label_in(leaf.key.cluster)

    async def _write(self, synced: TypeSync, leaf: Leaf, copy: SyncedCopy) -> Object:
        cluster, namespace, name = leaf.key
        assert copy.status is not None
        patch = [
            {"op": "test", "path": "/metadata/uid", "value": leaf.uid},
            {"op": "test", "path": _LABEL_PATH, "value": self._label(leaf)},
            {"op": "add", "path": "/status", "value": msgspec.json.decode(copy.status)},
        ]
        client = self._context.upstream
        if synced.has_upstream_status:
            try:
                return await client.patch(
                    cluster, synced.kind, name, patch, namespace, "status", form=JSON_PATCH
                )
            except (NotFound, MethodNotAllowed) as error:
                if isinstance(error, NotFound) and error.name:
                    raise
                synced.has_upstream_status = False
        return await client.patch(cluster, synced.kind, name, patch, namespace, form=JSON_PATCH)
