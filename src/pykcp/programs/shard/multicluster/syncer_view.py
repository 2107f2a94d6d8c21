"""The view of one Cluster's syncer.

It shows the objects that are assigned to the Cluster, in its own workspace and in those that bind
an API of it, and objects that still carry the finalizer of the syncer, which it has to take off.
Beside them it has what the syncer reports to: its Cluster, its Lease and the imports of its types.
Of an assigned object the syncer may change the status, its own finalizer and its own annotations.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from pykcp.apis.catalog import ResourceDefinition
from pykcp.auth.authz.attributes import Attributes, Decision
from pykcp.caching import BoundedCache
from pykcp.clients.interface import Lister
from pykcp.machinery import meta
from pykcp.machinery.kcp.clusters import WILDCARD
from pykcp.machinery.status import Forbidden, NotFound
from pykcp.machinery.terms import Condition, field_term, label_term
from pykcp.multicluster.names import (
    CLUSTER_LABEL,
    CLUSTERS,
    IMPORTS,
    LOCATION_LABEL,
    SYNCER_SUBRESOURCE,
    shared_name,
    syncer_finalizer,
)
from pykcp.multicluster.syncer.lease import LEASE_NAMESPACE, LEASES
from pykcp.programs.shard.multicluster.known import providers_of
from pykcp.registry.keys import range_prefix
from pykcp.registry.resource import Resource, finalizer_field
from pykcp.registry.verbs.admitting import Admission, AdmissionRequest
from pykcp.registry.watch.selection import Selection
from pykcp.server.call import Call
from pykcp.server.media.answers import PageNotFound
from pykcp.storage.interface import Query
from pykcp.types import Object
from pykcp.virtual.framework import Parts, VirtualView, restricted

_READ = ("get", "list", "watch")
_STATUS = {"status": ("get", "patch", "update")}
_OWN_ANNOTATIONS = "workloads.kcp.dev/"
_BOOKKEEPING = ("resourceVersion", "managedFields", "generation", "annotations", "finalizers")
_HIDDEN_GROUPS = ("rbac.authorization.k8s.io", "admissionregistration.k8s.io")
_KEEP = 128

Check = Callable[[AdmissionRequest], str]
"""Why a write is rejected; empty if it is not."""


class _Shown(NamedTuple):
    """How a kind is shown."""

    verbs: tuple[str, ...]
    subresources: Mapping[str, tuple[str, ...]]
    condition: Condition
    check: Check


class SyncerView(VirtualView):
    def __init__(self, parts: Parts, lister: Lister, home: str, name: str, uid: str) -> None:
        """`home`: the logical cluster of the Cluster object."""
        self._parts, self._lister = parts, lister
        self._home, self._name, self._uid = home, name, uid
        self._resources: BoundedCache[tuple[str, ...], tuple[Resource, Resource]] = BoundedCache(
            "syncer-resources", _KEEP
        )

    def exists(self) -> bool:
        try:
            found = self._lister.get(self._home, CLUSTERS, self._name)
        except NotFound:  # the workspace does not have the kind
            return False
        replica = self._parts.lookup.replica
        if found is None and replica is not None:  # a Cluster of another shard that serves this one
            found = replica.get(CLUSTERS, self._home, self._name)
        return found is not None and meta.uid(found) == self._uid

    async def authorize(self, call: Call) -> Decision:
        return await self._parts.authorizer.authorize(self._home, self._question(call))

    def peek(self, call: Call) -> Decision | None:
        if not self._is_served(call.cluster):
            return None
        decision = self._parts.authorizer.peek(self._home, self._question(call))
        return decision if decision is not None and decision.allowed else None

    def _question(self, call: Call) -> Attributes:
        return Attributes(
            call.user,
            call.info.verb,
            group=CLUSTERS.group,
            resource=CLUSTERS.resource,
            subresource=SYNCER_SUBRESOURCE,
            name=self._name,
            version=CLUSTERS.version,
        )

    # --- what there is

    def find(self, call_cluster: str, group: str, version: str, plural: str) -> Resource | None:
        if call_cluster == WILDCARD:
            return None
        is_served = self._is_served(call_cluster)
        base = self._parts.directory.find(call_cluster, group, version, plural)
        shown = self._shown(call_cluster, group, plural, is_served=is_served)
        if base is None or shown is None:
            return None
        key = (call_cluster, group, version, plural, str(is_served))
        known = self._resources.get(key)
        if known is not None and known[0] is base:
            return known[1]
        made = base.viewed(
            definition=restricted(base.definition, shown.verbs, shown.subresources),
            scope=Selection(
                f"syncer:{self._uid}:{call_cluster}:{plural}:{is_served}", (shown.condition,)
            ),
            admission=_Gate(shown.check, base.services.admission),
        )
        return self._resources.put(key, (base, made))[1]

    def definitions(self, cluster: str) -> tuple[ResourceDefinition, ...]:
        if not self._is_served(cluster):
            return ()
        pairs = (
            (one, self._shown(cluster, one.group, one.plural, is_served=True))
            for one in self._parts.directory.definitions(cluster)
        )
        return tuple(
            restricted(one, shown.verbs, shown.subresources)
            for one, shown in pairs
            if shown is not None
        )

    def _is_served(self, cluster: str) -> bool:
        """Other workspaces are served if they bind an API of the Cluster's own one."""
        if cluster == self._home:
            return True
        return cluster != WILDCARD and self._home in providers_of(self._lister, cluster)

    async def enter(self, call: Call) -> None:
        """Of a workspace that is served no longer the syncer sees what it still has to release;
        if that is nothing, the workspace is not shown at all.
        """
        info = call.info
        if self._is_served(call.cluster):
            return
        resource = self.find(call.cluster, info.group, info.version, info.resource)
        if resource is None or resource.scope is None:
            raise PageNotFound
        place, held = range_prefix(resource.prefix, call.cluster), resource.scope.conditions
        page = await resource.services.store.list(Query(place, where=held, limit=1))
        if not page.values:
            raise PageNotFound

    def _shown(self, cluster: str, group: str, plural: str, *, is_served: bool) -> _Shown | None:
        own = {
            (CLUSTERS.group, CLUSTERS.resource): self._own_cluster,
            (LEASES.group, LEASES.resource): self._own_lease,
            (IMPORTS.group, IMPORTS.resource): self._own_imports,
        }.get((group, plural))
        if own is not None:
            return own() if cluster == self._home else None
        if group in _HIDDEN_GROUPS or group.endswith((".kcp.io", ".kcp.dev")):
            return None
        return self._assigned(cluster, is_served=is_served)

    def _own_cluster(self) -> _Shown:
        condition = Condition((field_term("metadata.name", self._name),))
        return _Shown(_READ, _STATUS, condition, _only_status)

    def _own_lease(self) -> _Shown:
        name = f"syncer-{self._name}"

        def check(request: AdmissionRequest) -> str:
            if (request.namespace, request.name) == (LEASE_NAMESPACE, name):
                return ""
            return f"a syncer has the lease {LEASE_NAMESPACE}/{name} only"

        condition = Condition((field_term("metadata.name", name),))
        return _Shown(("get", "create", "update"), {}, condition, check)

    def _own_imports(self) -> _Shown:
        condition = Condition((label_term(LOCATION_LABEL, self._name),))
        verbs = (*_READ, "create", "update", "patch", "delete")
        return _Shown(verbs, {}, condition, self._check_import)

    def _check_import(self, request: AdmissionRequest) -> str:
        new = request.obj
        if new is None:
            return ""
        place = (new.get("spec") or {}).get("location"), meta.labels(new).get(LOCATION_LABEL)
        is_owned = all(one.get("uid") == self._uid for one in meta.owner_references(new))
        if place == (self._name, self._name) and is_owned:
            return ""
        return f"a syncer imports types of its own cluster {self._name} only"

    def _assigned(self, cluster: str, *, is_served: bool) -> _Shown:
        label = self._name if cluster == self._home else shared_name(self._home, self._name)
        finalizer = syncer_finalizer(label)
        held = field_term(finalizer_field(finalizer), "true")
        assigned = (label_term(CLUSTER_LABEL, label),) if is_served else ()
        condition = Condition((*assigned, held))

        def check(request: AdmissionRequest) -> str:
            return assigned_problem(request.old, request.obj, finalizer)

        return _Shown((*_READ, "update", "patch"), _STATUS, condition, check)


class _Gate:
    """Admission in front of the ordinary one."""

    def __init__(self, check: Check, then: Admission) -> None:
        self._check, self._then = check, then

    async def mutate(self, request: AdmissionRequest) -> None:
        problem = self._check(request)
        if problem:
            resource = request.resource
            raise Forbidden.resource(resource.group, resource.plural, request.name, problem)
        await self._then.mutate(request)

    async def validate(self, request: AdmissionRequest) -> None:
        await self._then.validate(request)


def _only_status(request: AdmissionRequest) -> str:
    return assigned_problem(request.old, request.obj, "")


def assigned_problem(old: Object | None, new: Object | None, finalizer: str) -> str:
    """Why a syncer may not make `new` of an object; empty if it may."""
    if old is None or new is None:
        return "a syncer creates and deletes no objects of the workspace"
    if _kept(old) != _kept(new):
        return "a syncer changes the status, its finalizer and its annotations only"
    before, after = ([f for f in meta.finalizers(one) if f != finalizer] for one in (old, new))
    if before != after:
        return "a syncer changes its own finalizer only"
    return ""


def _kept(obj: Object) -> Object:
    """What a syncer leaves as it is."""
    metadata = {name: value for name, value in obj["metadata"].items() if name not in _BOOKKEEPING}
    notes = meta.annotations(obj).items()
    metadata["annotations"] = {k: v for k, v in notes if not k.startswith(_OWN_ANNOTATIONS)}
    content = {name: value for name, value in obj.items() if name not in ("metadata", "status")}
    return {**content, "metadata": metadata}
