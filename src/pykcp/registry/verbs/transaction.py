"""Several writes as one: all of them or none.

Each passes its defaults, admission and validation as it would alone; then one transaction
commits them. What is created here may bring its status with it, which only the system can
say of something new.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pykcp.apis.kube.validation.custom import WHOLE
from pykcp.machinery.resources import LOGICAL_CLUSTERS, NAMESPACES
from pykcp.machinery.status import AlreadyExists, Conflict, Invalid, NotFound
from pykcp.registry import codec
from pykcp.registry.context import RequestContext
from pykcp.registry.errors import translate
from pykcp.registry.resource import Resource
from pykcp.registry.verbs.admitting import AdmissionRequest
from pykcp.registry.verbs.create import facts_of, match_namespace
from pykcp.registry.verbs.large import deletion_request
from pykcp.registry.verbs.templates import TemplateCopy, uid_and_time
from pykcp.registry.verbs.update import ObjectChange, prepare_update
from pykcp.storage.errors import RevisionMismatch, StoreError
from pykcp.storage.interface import DeleteKey, Entry, Operation, PutKey, Store
from pykcp.types import Object


@dataclass(frozen=True, slots=True)
class Create:
    """An object to be created, with its status if it is to have one from the start."""

    resource: Resource
    cluster: str
    obj: Object


@dataclass(frozen=True, slots=True)
class Delete:
    """An object to be removed, whatever finalizers of ours it still has."""

    resource: Resource
    cluster: str
    namespace: str
    name: str
    entry: Entry | None = None
    """As it was a moment ago, if somebody has just read it; Conflict if it is another by now."""


@dataclass(frozen=True, slots=True)
class Update:
    """An object to be changed, spec and status alike."""

    resource: Resource
    cluster: str
    name: str
    make: Callable[[Object], Any]
    """Changes the object in place, or returns another one."""


@dataclass(frozen=True, slots=True)
class FromTemplate:
    """An object to be created in a logical cluster that the same write makes, like others there."""

    resource: Resource
    cluster: str
    alike: TemplateCopy


@dataclass(frozen=True, slots=True)
class Raw:
    """Operations that the store is to carry out along with the rest, as they are."""

    operations: Sequence[Operation]


Write = Create | Update | Delete | FromTemplate | Raw


async def write_together(
    store: Store, context: Callable[[str], RequestContext], writes: Sequence[Write]
) -> None:
    """Raises what the first refusal raises; Conflict or AlreadyExists if somebody was faster."""
    operations: list[Operation] = []
    contexts: dict[str, RequestContext] = {}
    for one in writes:
        if isinstance(one, Raw):
            operations += one.operations
            continue
        ctx = contexts.get(one.cluster)
        if ctx is None:
            ctx = contexts[one.cluster] = context(one.cluster)
            ctx.forthcoming = _namespaces(one.cluster, writes)
            ctx.is_newborn = _is_newborn(one.cluster, writes)
        operation: Operation | None
        match one:
            case Create():
                operation = await _creation(one, ctx)
            case FromTemplate():
                operation = await _casting(one, ctx)
            case Update():
                operation = await _change(store, one, ctx)
            case Delete():
                operation = await _removal(store, one, ctx)
        if operation is not None:
            operations.append(operation)
    if not operations:
        return
    try:
        await store.write(operations)
    except RevisionMismatch as error:
        raise _lost_race(error, writes) from error
    except StoreError as error:
        raise translate(error) from error


def _namespaces(cluster: str, writes: Sequence[Write]) -> frozenset[str]:
    return frozenset(
        _place_of(one)[1]
        for one in writes
        if isinstance(one, Create | FromTemplate)
        and one.cluster == cluster
        and (one.resource.group, one.resource.plural) == ("", NAMESPACES.resource)
    )


def _is_newborn(cluster: str, writes: Sequence[Write]) -> bool:
    """Whether the writes make the logical cluster itself."""
    return any(
        isinstance(one, Create)
        and one.cluster == cluster
        and one.resource.plural == LOGICAL_CLUSTERS.resource
        and one.resource.group == LOGICAL_CLUSTERS.group
        for one in writes
    )


def _place_of(one: Create | FromTemplate) -> tuple[str, str]:
    """Namespace and name of something new."""
    if isinstance(one, FromTemplate):
        return one.alike.namespace, one.alike.name
    metadata = one.obj["metadata"]
    return metadata.get("namespace", ""), metadata["name"]


async def _casting(one: FromTemplate, ctx: RequestContext) -> PutKey:
    resource, cluster, alike = one.resource, one.cluster, one.alike
    sources = resource.services.sources
    found = alike.mould.cast((cluster, sources.uid(), sources.now(), *alike.words))
    if found is None:
        put = await _creation(Create(resource, cluster, alike.make()), ctx)
        alike.mould.take(put, (cluster, *uid_and_time(put), *alike.words))
        return put
    return PutKey(resource.key(cluster, alike.namespace, alike.name), *found, 0)


async def _creation(new: Create, ctx: RequestContext) -> PutKey:
    resource, services = new.resource, new.resource.services
    status = new.obj.pop("status", None)
    obj = resource.rules.decode(new.obj, [])
    metadata = obj["metadata"]
    namespace = metadata.get("namespace", "")
    match_namespace(resource, namespace, metadata)
    now = services.sources.now()
    resource.rules.manage_update(None, obj, ctx.manager, "", now)
    request = AdmissionRequest(ctx, resource, "CREATE", namespace, metadata["name"], obj)
    await services.admission.mutate(request)
    metadata["creationTimestamp"] = now
    metadata["uid"] = services.sources.uid()
    errors, _ = resource.rules.before_create(obj, facts_of(resource, ctx))
    if errors:
        raise Invalid.fields(resource.error_group, resource.kind, metadata["name"], errors)
    if status is not None:
        obj["status"] = status
    await services.admission.validate(request)
    stored = await resource.stored_form(obj)
    return PutKey(
        resource.key(ctx.cluster, namespace, metadata["name"]),
        resource.encode(stored, ctx.cluster),
        resource.terms_of(stored, ctx.cluster),
        resource.index_entries(ctx.cluster, stored),
        0,
    )


async def _change(store: Store, changed: Update, ctx: RequestContext) -> Operation | None:
    resource = changed.resource
    entry = store.get(resource.key(changed.cluster, "", changed.name))
    if entry is None:
        raise NotFound.resource(resource.group, resource.plural, changed.name)

    def make(live: Object | None) -> Object:
        copy = codec.copy(live or {})
        made = changed.make(copy)
        new = resource.rules.decode(copy if made is None else made, [])
        codec.strip_cluster(new)
        return new

    change = ObjectChange(make, is_patch=True)
    prepared = await prepare_update(resource, ctx, "", changed.name, change, WHOLE, entry)
    return prepared.operation


async def _removal(store: Store, gone: Delete, ctx: RequestContext) -> Operation | None:
    resource = gone.resource
    entry = gone.entry or store.get(resource.key(gone.cluster, gone.namespace, gone.name))
    if entry is None:
        return None
    value = await resource.own_form(entry.value)
    request = deletion_request(ctx, resource, gone.namespace, gone.name, value)
    await resource.services.admission.mutate(request)
    await resource.services.admission.validate(request)
    return DeleteKey(entry.key, codec.reopen(entry.value), entry.revision)


def _lost_race(error: RevisionMismatch, writes: Sequence[Write]) -> AlreadyExists | Conflict:
    for one in writes:
        if isinstance(one, Create | FromTemplate):
            resource, (namespace, name) = one.resource, _place_of(one)
            if resource.key(one.cluster, namespace, name) == error.key:
                return AlreadyExists.resource(resource.group, resource.plural, name)
    return Conflict("another write was faster, try again")
