"""The way of a binding to Bound: what is looked at, in which order, and what it means."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field

from pykcp.aio.slices import Slices, in_slices
from pykcp.controllers.apis import binding as steps
from pykcp.controllers.apis.binding import BoundSchema, Taken, TakenNames
from pykcp.controllers.apis.bound_crds import BoundCRDs
from pykcp.controllers.apis.objects import ApiObjects, export_reference, schema_to_bind
from pykcp.machinery import meta
from pykcp.machinery.kcp import claims, resource_locks
from pykcp.machinery.kcp.bound_crd import NoConversion
from pykcp.machinery.kcp.condition_marks import mark_true
from pykcp.machinery.kcp.resource_locks import Locks, MalformedLocks, ResourceLock
from pykcp.machinery.status import Conflict, Invalid, StatusError
from pykcp.types import Object

_log = logging.getLogger(__name__)


class BindingBlocked(Exception):
    """The binding cannot go on before something in its cluster changes; its status says what."""


@dataclass(slots=True)
class Attempt:
    """One look at one binding."""

    cluster: str
    binding: Object
    now: str
    is_large: bool = False
    """It takes long to decode and to check."""
    schemas: list[tuple[BoundSchema, Object, bool]] = field(default_factory=list)
    """With the object, and whether its objects are stored as those of CRDs are."""
    identity: str = ""
    takes: frozenset[str] = frozenset()
    """Locks that are free, and taken together with the status that says so."""
    replaced: list[str] = field(default_factory=list)
    """UIDs of schemas that it uses no longer."""
    wants_labels: bool = False
    """Objects must be labelled, for its claims."""
    waits_for_crd: bool = False
    """A bound CRD is going and must be gone before it can be made anew."""


class Binder:
    """Takes a binding as far as it can go now; writes nothing but bound CRDs."""

    def __init__(self, objects: ApiObjects, crds: BoundCRDs) -> None:
        self._objects, self._crds = objects, crds

    async def bind(self, attempt: Attempt) -> None:
        """Blocked if it cannot go on before something in its cluster changes."""
        export = await self._find_export(attempt)
        if export is None:
            return
        await self._judge_claims(attempt, export)
        if not await self._find_schemas(attempt, export):
            return
        locks, held = self._lock(attempt)
        waiting = await self._bind_resources(attempt, locks, held)
        if waiting is None:
            return
        binding, now = attempt.binding, attempt.now
        mark_true(binding, steps.EXPORT_VALID, now)
        if waiting:
            steps.waiting(binding, waiting, now)
            attempt.waits_for_crd = True
        elif held:
            steps.held_by_others(binding, held, now)
            raise BindingBlocked
        else:
            steps.bound(binding, now)

    async def _find_export(self, attempt: Attempt) -> Object | None:
        binding, now = attempt.binding, attempt.now
        reference = export_reference(binding)
        if reference is None:
            steps.no_reference(binding, now)
            return None
        path, name = reference
        export = await self._objects.read_export(attempt.cluster, path, name)
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

    async def _find_schemas(self, attempt: Attempt, export: Object) -> bool:
        cluster, slices = meta.cluster(export), Slices(attempt.cluster)
        for resource in (export.get("spec") or {}).get("resources") or ():
            schema = self._objects.schema(cluster, resource["schema"])
            if schema is None:
                steps.no_schema(attempt.binding, resource["schema"], attempt.now)
                return False
            is_stored = (resource.get("storage") or {}).get("virtual") is None
            attempt.schemas.append((schema_to_bind(schema, cluster), schema, is_stored))
            if slices.is_over():
                await slices.next()
        return True

    def _lock(self, attempt: Attempt) -> tuple[Locks, Locks]:
        """Choose what is free of the export's resources; returns all locks, and what others hold."""
        cluster, binding = attempt.cluster, attempt.binding
        found = self._objects.lookup.logical_cluster(cluster)
        if found is None:
            steps.no_logical_cluster(binding, attempt.now)
            raise BindingBlocked
        try:
            locks = resource_locks.parse(meta.annotation(found, resource_locks.ANNOTATION))
        except MalformedLocks as error:
            steps.conflicting(binding, str(error), attempt.now)
            raise BindingBlocked from error
        lock = ResourceLock(meta.name(binding))
        wanted = [schema.lock for schema, _, _ in attempt.schemas]
        crds = self._objects.crd_locks(cluster)
        after, held = resource_locks.acquire(locks, wanted, lock, crds=crds, now=attempt.now)
        # Only the names: the write compares the LogicalCluster again and fails if another one took them.
        attempt.takes = frozenset(name for name in after if after[name] != locks.get(name))
        return locks, held

    async def _bind_resources(
        self, attempt: Attempt, locks: Locks, held: Locks
    ) -> list[str] | None:
        """Bind what is not held by others; returns what must wait, None if something is wrong."""
        binding, now = attempt.binding, attempt.now
        taken = await self._taken(attempt, locks)
        waiting, slices = [], Slices(attempt.cluster)
        listed = steps.BoundList(binding)
        for schema, obj, is_stored in attempt.schemas:
            if slices.is_over():
                await slices.next()
            if schema.lock in held:
                continue  # the free resources are bound nevertheless, as in kcp
            conflict = steps.naming_conflict(schema, taken)
            if conflict:
                steps.conflicting(binding, conflict, now)
                raise BindingBlocked
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
            replaced = listed.upsert(schema._replace(stored_versions=versions), attempt.identity)
            if replaced:
                attempt.replaced.append(replaced)
        return waiting

    async def _taken(self, attempt: Attempt, locks: Locks) -> TakenNames:
        """The names that others in the cluster have in the groups that are to be bound.

        Who they are is known by their locks: a cluster may have very many bindings.
        """
        groups = {schema.group for schema, _, _ in attempt.schemas}
        others = resource_locks.bindings_in(locks, groups) - {meta.name(attempt.binding)}
        taken, slices = TakenNames(), Slices(attempt.cluster)
        for other in self._objects.bindings_named(attempt.cluster, sorted(others)):
            for bound in (other.get("status") or {}).get("boundResources") or ():
                if (bound.get("group") or "") not in groups:
                    continue
                crd = self._objects.bound(bound["schema"]["UID"])
                if crd is not None:
                    taken.add(Taken(steps.held_by_binding(other), crd.group, crd.names))
            if slices.is_over():
                await slices.next()
        for one in self._objects.taken_by_crds(attempt.cluster, groups):
            taken.add(one)
            if slices.is_over():
                await slices.next()
        return taken

    # --- claims

    async def _judge_claims(self, attempt: Attempt, export: Object) -> None:
        """Claims without anything to label are settled here; the others have a controller."""
        binding, now = attempt.binding, attempt.now
        state = await in_slices(claims.compare(export, binding), attempt.cluster)
        steps.judge_claims(binding, state, now)
        if state.changes:
            attempt.wants_labels = True
            await self._define_claimed(attempt.cluster, state.expected)
        else:
            done = steps.claims_applied(binding, state.expected, (), now)
            await in_slices(done, attempt.cluster)

    async def _define_claimed(self, cluster: str, keys: Sequence[claims.ClaimKey]) -> None:
        """Resources of other exports that are claimed must be known here, bound or not."""
        offered = self._objects.offered()
        for key in keys:
            if not key.identity:
                continue
            found = await in_slices(self._objects.claimed_schema(key, offered), cluster)
            if found is None:
                continue  # its export may still be on the way from another shard
            try:
                await self._crds.ensure(*found)
            except (StatusError, NoConversion) as error:
                if isinstance(error, Conflict):
                    raise
                _log.warning("cannot resolve the schema of a claim on %s: %s", key, error)


_NO_DEFINITION = (
    "An internal error prevented the APIBinding process from completing. "
    "Please contact your system administrator for assistance"
)


def _causes(error: Invalid) -> str:
    """The causes of a refusal, as Go prints them."""
    shown = (f"{{{c.reason} {c.message} {c.field}}}" for c in error.causes)
    return f"[{' '.join(shown)}]"
