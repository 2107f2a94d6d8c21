"""kcp-apibinding: what an export offers is bound where somebody asks for it.

One look at a binding takes it from nothing to Bound if nothing is in the way: its resources
are locked in the LogicalCluster (one write, unless they were), its status is written once.
What is in the way is remembered, per cluster, until something there changes. A change of an
export is taken to its bindings a few at a time.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from pykcp.clients.interface import Client
from pykcp.controllers.kcp import binding as steps
from pykcp.controllers.kcp.api_metrics import ApiMetrics
from pykcp.controllers.kcp.api_objects import (
    BINDINGS,
    CRDS,
    EXPORTS,
    SCHEMAS,
    ApiObjects,
    ExportName,
    crd_lock,
    export_reference,
    key_of,
    schema_to_bind,
)
from pykcp.controllers.kcp.binding import BoundSchema, Taken
from pykcp.controllers.kcp.bound_crds import BoundCRDs
from pykcp.controllers.runtime.controller import Controller, ObjectKey
from pykcp.controllers.runtime.feed import LogFeed
from pykcp.controllers.runtime.metrics import ControllerMetrics
from pykcp.machinery import bound_crd, claims, meta, resource_locks
from pykcp.machinery.bound_crd import NoConversion
from pykcp.machinery.condition_marks import mark_true
from pykcp.machinery.resource_locks import Lock, Locks, MalformedLocks
from pykcp.machinery.resources import API_BINDINGS, LOGICAL_CLUSTERS
from pykcp.machinery.status import Conflict, Invalid, NotFound, StatusError
from pykcp.registry.api_indexes import OPEN_BINDINGS, bindings_to_schema, is_settled
from pykcp.registry.clock import Timestamps
from pykcp.registry.codec import decode
from pykcp.registry.keys import kind_prefix, split_key
from pykcp.storage.interface import Event
from pykcp.types import Object

_log = logging.getLogger(__name__)

NAME = "kcp-apibinding"
_CLUSTERS = kind_prefix(LOGICAL_CLUSTERS)
_AT_A_TIME = 16
"""Bindings of one export that are brought up to date at a time: few enough to let others in."""
_COMPLETE = b'"phase":"Bound"'


class Blocked(Exception):
    """The binding cannot go on before something in its cluster changes; its status says what."""


@dataclass(slots=True)
class Hooks:
    """Whom else a binding concerns."""

    relabel: Callable[[ObjectKey], None] = lambda _: None
    """Its claims want labels changed."""
    let_go: Callable[[str], None] = lambda _: None
    """It no longer uses the schema of this UID."""
    metrics: ApiMetrics | None = None


@dataclass(slots=True)
class _Attempt:
    """One look at one binding."""

    cluster: str
    binding: Object
    now: str
    schemas: list[tuple[BoundSchema, Object, bool]] = field(default_factory=list)
    """With the object, and whether its objects are stored as those of CRDs are."""
    identity: str = ""
    replaced: list[str] = field(default_factory=list)
    wants_labels: bool = False


class APIBindings:
    def __init__(
        self,
        objects: ApiObjects,
        client: Client,
        crds: BoundCRDs,
        now: Timestamps,
        hooks: Hooks,
        metrics: ControllerMetrics | None = None,
    ) -> None:
        self._objects, self._client, self._crds = objects, client, crds
        self._now, self._hooks = now, hooks
        self._writing: dict[ObjectKey, list[int]] = {}
        """Bindings that are being written here, with the revisions that were seen meanwhile."""
        self._blocked: dict[str, set[str]] = {}
        """Bindings that wait for a change in their cluster, by cluster."""
        self._waiting: set[ObjectKey] = set()
        """Bindings that wait for a bound CRD to be gone, so that it can be made anew."""
        self.controller: Controller[ObjectKey | ExportName] = Controller(
            NAME, self.reconcile, workers=8, metrics=metrics
        )

    # --- what happened

    def follow(self, feed: LogFeed) -> None:
        feed.on(BINDINGS, self._on_binding)
        feed.on(EXPORTS, self._on_export)
        feed.on(SCHEMAS, self._on_schema)
        feed.on(CRDS, self._on_crd)
        feed.on(_CLUSTERS, self._on_cluster)
        feed.at_start(self._resume)
        if self._hooks.metrics is not None:
            self._hooks.metrics.bindings.follow(feed)

    def _on_binding(self, event: Event) -> None:
        key = key_of(event.key)
        seen = self._writing.get(key)
        if seen is not None:
            seen.append(event.revision)
        elif event.deleted:
            self._unblock(key.cluster)
        elif not (event.created and _COMPLETE in event.value):  # made complete: nothing to do
            self.controller.add(key)

    def _on_export(self, event: Event) -> None:
        parts = split_key(event.key)
        self.look_at_export(ExportName(parts.cluster, parts.name))

    def look_at_export(self, export: ExportName) -> None:
        """An export changed, here or on another shard."""
        if self._objects.is_bound(export):
            self.controller.add(export)

    def _on_schema(self, event: Event) -> None:
        parts = split_key(event.key)
        for export in self._objects.exports_with_schema(parts.cluster, parts.name):
            self.look_at_export(export)

    def _on_crd(self, event: Event) -> None:
        parts = split_key(event.key)
        if parts.cluster != bound_crd.CLUSTER:
            self._unblock(parts.cluster)
        elif event.deleted:
            for key in self._objects.store.lookup(bindings_to_schema(parts.name)):
                self.controller.add(key_of(key))
            while self._waiting:
                self.controller.add(self._waiting.pop())

    def _on_cluster(self, event: Event) -> None:
        if not event.deleted:
            self._unblock(split_key(event.key).cluster)

    def _unblock(self, cluster: str) -> None:
        for name in self._blocked.pop(cluster, ()):
            self.controller.add(ObjectKey(cluster, "", name))

    async def _resume(self) -> None:
        for key in self._objects.store.lookup(OPEN_BINDINGS):
            if key.startswith(BINDINGS):
                self.controller.add(key_of(key))

    # --- what is done about it

    async def reconcile(self, key: ObjectKey | ExportName) -> None:
        if isinstance(key, ExportName):
            await self._roll_out(key)
        else:
            await self._reconcile_binding(key)

    async def _roll_out(self, name: ExportName) -> None:
        """Bring the bindings of an export up to date, a few at a time."""
        for page in self._objects.bindings_of(name):
            stale = [key_of(key) for key in page if not self._is_current(key, name)]
            for start in range(0, len(stale), _AT_A_TIME):
                await asyncio.gather(*map(self._try, stale[start : start + _AT_A_TIME]))
            await asyncio.sleep(0)

    async def _try(self, key: ObjectKey) -> None:
        """One of many: what goes wrong is tried again on its own."""
        try:
            await self._reconcile_binding(key)
        except StatusError:
            self.controller.add(key)

    def _is_current(self, key: str, name: ExportName) -> bool:
        """Whether a look at the binding would change nothing."""
        entry = self._objects.store.get(key)
        if entry is None:
            return True
        binding = decode(entry.value)
        export = self._objects.export(name.cluster, "", name.name)
        if export is None or not is_settled(binding):
            return False
        spec, status = export.get("spec") or {}, binding["status"]
        bound = {one["schema"]["name"] for one in status.get("boundResources") or ()}
        return (
            (status.get("exportPermissionClaims") or []) == (spec.get("permissionClaims") or [])
            and bound >= {one["schema"] for one in spec.get("resources") or ()}
            and not claims.compare(export, binding).changes
        )

    async def _reconcile_binding(self, key: ObjectKey) -> None:
        live = self._client.get(key.cluster, API_BINDINGS, key.name)
        if live is None or meta.is_deleting(live):
            return
        attempt = _Attempt(key.cluster, {**live}, self._now())
        steps.begin(attempt.binding, attempt.now)
        failure: StatusError | None = None
        try:
            await self._bind(attempt)
        except Blocked:
            self._blocked.setdefault(key.cluster, set()).add(key.name)
        except StatusError as error:
            failure = error  # the status may say so; it is raised when that is written
        steps.finish(attempt.binding, attempt.now)
        if attempt.binding["status"] != live.get("status"):
            await self._write(key, attempt.binding)
            self._tell(live, attempt)
        if attempt.wants_labels:
            self._hooks.relabel(key)
        if failure is not None:
            raise failure

    async def _write(self, key: ObjectKey, binding: Object) -> None:
        seen = self._writing[key] = []
        written = 0
        try:
            after = await self._client.update(key.cluster, API_BINDINGS, binding, "status")
            written = int(meta.resource_version(after))
        except NotFound:
            return
        finally:
            del self._writing[key]
            if any(revision != written for revision in seen):
                self.controller.add(key)  # somebody else wrote, too

    def _tell(self, before: Object, attempt: _Attempt) -> None:
        after, metrics = attempt.binding, self._hooks.metrics
        for uid in attempt.replaced:
            self._hooks.let_go(uid)
        if metrics is not None:
            metrics.bindings.changed(before, after)
            if _phase(after) == steps.BOUND != _phase(before):
                metrics.binding_ready(after)

    # --- the way to Bound

    async def _bind(self, attempt: _Attempt) -> None:
        export = self._find_export(attempt)
        if export is None:
            return
        await self._judge_claims(attempt, export)
        if not self._find_schemas(attempt, export):
            return
        held = await self._lock(attempt)
        waiting = await self._bind_resources(attempt, held)
        if waiting is None:
            return
        binding, now = attempt.binding, attempt.now
        mark_true(binding, steps.EXPORT_VALID, now)
        if waiting:
            steps.waiting(binding, waiting, now)
            self._waiting.add(ObjectKey(attempt.cluster, "", meta.name(binding)))
        elif held:
            steps.held_by_others(binding, held, now)
            raise Blocked
        else:
            steps.bound(binding, now)

    def _find_export(self, attempt: _Attempt) -> Object | None:
        binding, now = attempt.binding, attempt.now
        reference = export_reference(binding)
        if reference is None:
            steps.no_reference(binding, now)
            return None
        path, name = reference
        export = self._objects.export(attempt.cluster, path, name)
        if export is None:
            steps.no_export(binding, path or attempt.cluster, name, now)
            return None
        status = binding["status"]
        asked = (export.get("spec") or {}).get("permissionClaims")
        if asked:
            status["exportPermissionClaims"] = asked
        else:
            status.pop("exportPermissionClaims", None)
        attempt.identity = (export.get("status") or {}).get("identityHash") or ""
        if not attempt.identity:
            steps.no_identity(binding, path or attempt.cluster, name, now)
            return None
        status["apiExportClusterName"] = meta.cluster(export)
        return export

    def _find_schemas(self, attempt: _Attempt, export: Object) -> bool:
        cluster = meta.cluster(export)
        for resource in (export.get("spec") or {}).get("resources") or ():
            schema = self._objects.schema(cluster, resource["schema"])
            if schema is None:
                steps.no_schema(attempt.binding, resource["schema"], attempt.now)
                return False
            is_stored = (resource.get("storage") or {}).get("virtual") is None
            attempt.schemas.append((schema_to_bind(schema, cluster), schema, is_stored))
        return True

    async def _lock(self, attempt: _Attempt) -> Locks:
        """Take what is free of the export's resources; returns what others hold."""
        cluster, binding = attempt.cluster, attempt.binding
        wanted = [schema.lock for schema, _, _ in attempt.schemas]
        lock = Lock(meta.name(binding))
        crds = {crd_lock(name) for name in self._objects.crd_names(cluster)}

        def acquired(logical_cluster: Object) -> tuple[Locks, Locks, Locks]:
            before = resource_locks.parse(
                meta.annotation(logical_cluster, resource_locks.ANNOTATION)
            )
            after, held = resource_locks.acquire(before, wanted, lock, crds=crds, now=attempt.now)
            return before, after, held

        found = self._objects.lookup.logical_cluster(cluster)
        if found is None:
            steps.no_logical_cluster(binding, attempt.now)
            raise Blocked
        try:
            before, after, held = acquired(found)
            if before == after:
                return held

            def change(live: Object) -> None:
                nonlocal held
                _, taken, held = acquired(live)
                meta.set_annotation(live, resource_locks.ANNOTATION, resource_locks.text(taken))

            await self._client.change(cluster, LOGICAL_CLUSTERS, "cluster", change)
        except MalformedLocks as error:
            steps.conflicting(binding, str(error), attempt.now)
            raise Blocked from error
        return held

    async def _bind_resources(self, attempt: _Attempt, held: Locks) -> list[str] | None:
        """Bind what is not held by others; returns what must wait, None if something is wrong."""
        binding, now = attempt.binding, attempt.now
        taken = self._taken(attempt)
        waiting = []
        for schema, obj, is_stored in attempt.schemas:
            if schema.lock in held:
                continue
            conflict = steps.naming_conflict(schema, taken)
            if conflict:
                steps.conflicting(binding, conflict, now)
                raise Blocked
            try:
                crd = await self._crds.ensure(obj, schema.cluster)
            except NoConversion:
                steps.bad_schema(binding, now)
                return None
            except Invalid as error:
                steps.invalid_schema(binding, schema, _causes(error), now)
                return None
            except StatusError:
                steps.not_up_to_date(binding, steps.INTERNAL_ERROR, _NO_DEFINITION, now)
                raise
            if crd is None or crd.is_terminating or not crd.is_established:
                waiting.append(schema.name)
                continue
            versions = crd.stored_versions if is_stored else ()
            replaced = steps.upsert(
                binding, schema._replace(stored_versions=versions), attempt.identity
            )
            if replaced:
                attempt.replaced.append(replaced)
        return waiting

    def _taken(self, attempt: _Attempt) -> Sequence[Taken]:
        """The names that others in the cluster have in the groups that are to be bound."""
        groups = {schema.group for schema, _, _ in attempt.schemas}
        own = meta.name(attempt.binding)
        taken = []
        for other in self._objects.bindings(attempt.cluster):
            if meta.name(other) == own:
                continue
            for bound in (other.get("status") or {}).get("boundResources") or ():
                if (bound.get("group") or "") not in groups:
                    continue
                crd = self._objects.bound(bound["schema"]["UID"])
                if crd is not None:
                    taken.append(Taken(steps.held_by_binding(other), crd.group, crd.names))
        taken += self._objects.taken_by_crds(attempt.cluster, groups)
        return taken

    # --- claims

    async def _judge_claims(self, attempt: _Attempt, export: Object) -> None:
        """Claims without anything to label are settled here; the others have a controller."""
        binding, now = attempt.binding, attempt.now
        state = claims.compare(export, binding)
        steps.judge_claims(binding, state, now)
        if state.changes:
            attempt.wants_labels = True
            await self._define_claimed(state.expected)
        else:
            steps.claims_applied(binding, state.expected, (), now)

    async def _define_claimed(self, keys: Sequence[claims.ClaimKey]) -> None:
        """Resources of other exports that are claimed must be known here, bound or not."""
        for key in keys:
            if not key.identity:
                continue
            found = self._objects.schema_with_identity(key.identity, key.group, key.resource)
            if found is None:
                continue  # its export may still be on the way from another shard
            try:
                await self._crds.ensure(*found)
            except (StatusError, NoConversion) as error:
                if isinstance(error, Conflict):
                    raise
                _log.warning("%s: the schema of a claim on %s: %s", NAME, key, error)


_NO_DEFINITION = (
    "An internal error prevented the APIBinding process from completing. "
    "Please contact your system administrator for assistance"
)


def _phase(binding: Object) -> str:
    return (binding.get("status") or {}).get("phase") or ""


def _causes(error: Invalid) -> str:
    """The causes of a refusal, as Go prints them."""
    shown = (f"{{{c.reason} {c.message} {c.field}}}" for c in error.causes)
    return f"[{' '.join(shown)}]"
