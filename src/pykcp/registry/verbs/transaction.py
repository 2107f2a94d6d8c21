"""Several writes at once: all of them, or none.

Each passes its defaults, admission, validation, quotas and limits as it would alone; then one
write of the store commits them. An object that is created here may bring its status, which
only the system can set on something new. Objects of the program itself can be created unchecked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from pykcp.apis.kube.validation.custom import WHOLE
from pykcp.machinery.resources import LOGICAL_CLUSTERS, NAMESPACES
from pykcp.machinery.status import AlreadyExists, Conflict, NotFound
from pykcp.registry import codec
from pykcp.registry.context import RequestContext
from pykcp.registry.errors import translate
from pykcp.registry.resource import Resource
from pykcp.registry.trash import is_trash, moved_to_trash
from pykcp.registry.verbs.admitting import AdmissionRequest
from pykcp.registry.verbs.changes import ObjectChange, WriteTarget
from pykcp.registry.verbs.create import creation, mutate_new, new_key, validate_new
from pykcp.registry.verbs.large_request import deletion_request
from pykcp.registry.verbs.reservations import write_reserved
from pykcp.registry.verbs.templates import TemplateCopy, uid_and_time
from pykcp.registry.verbs.update import prepare_update
from pykcp.storage.errors import RevisionMismatch, StoreError
from pykcp.storage.interface import Entry, Store
from pykcp.storage.operations import DeleteKey, Operation, PutKey
from pykcp.types import Object


@dataclass(frozen=True, slots=True)
class Create:
    """An object to be created, with its status if it is to have one from the start."""

    resource: Resource
    cluster: str
    obj: Object


@dataclass(frozen=True, slots=True)
class CreateUnchecked:
    """An object of the program itself, complete as it is to be stored: nothing checks or changes it.

    For definitions that are the same at every start, which tests prove to be valid.
    """

    resource: Resource
    cluster: str
    obj: Object


@dataclass(frozen=True, slots=True)
class Update:
    """An object to be changed, spec and status alike."""

    resource: Resource
    cluster: str
    name: str
    make: Callable[[Object], Any]
    """Changes the object in place, or returns another one."""


@dataclass(frozen=True, slots=True)
class Delete:
    """An object to be removed, whatever finalizers of the system it still has."""

    resource: Resource
    cluster: str
    namespace: str
    name: str
    entry: Entry | None = None
    """As it was read a moment ago, if it was; Conflict if it has changed since."""
    to_trash: bool = False
    """It is kept in the trash, from where its workspace can be restored."""


@dataclass(frozen=True, slots=True)
class FromTemplate:
    """An object to be created from a template, in a logical cluster that the same write makes."""

    resource: Resource
    cluster: str
    copy: TemplateCopy


@dataclass(frozen=True, slots=True)
class Raw:
    """Writes of the trash's own records, which are no API objects."""

    operations: Sequence[Operation]

    def __post_init__(self) -> None:
        for operation in self.operations:
            if not is_trash(operation.key):
                raise ValueError(f"{operation.key} is an API object: create, update or delete it")


Write = Create | CreateUnchecked | Update | Delete | FromTemplate | Raw


class _Prepared(NamedTuple):
    operations: Sequence[Operation]
    request: AdmissionRequest | None = None
    """Says which limits keep count of the write."""


_NOTHING = _Prepared(())


async def transaction(
    store: Store, context: Callable[[str], RequestContext], writes: Sequence[Write]
) -> None:
    """Raises what the first refusal raises; Conflict or AlreadyExists if another write came first.

    `context`: as which user the writes are made in a logical cluster.
    """
    operations: list[Operation] = []
    requests: list[AdmissionRequest] = []
    contexts: dict[str, RequestContext] = {}
    for one in writes:
        if isinstance(one, Raw):
            operations += one.operations
            continue
        ctx = contexts.get(one.cluster)
        if ctx is None:
            ctx = contexts[one.cluster] = context(one.cluster)
            # Admission must accept objects in namespaces that exist only after this transaction.
            ctx.forthcoming = _namespaces(one.cluster, writes)
            ctx.is_new = _is_new(one.cluster, writes)
        prepared = await _prepare(store, one, ctx)
        operations += prepared.operations
        # Quotas and object limits reserve during admission and must be committed or released together.
        if prepared.request is not None and prepared.request.reservations:
            requests.append(prepared.request)
    if not operations:
        return
    try:
        await write_reserved(store, operations, requests)
    except RevisionMismatch as error:
        raise _lost_race(error, writes) from error
    except StoreError as error:
        raise translate(error) from error


async def _prepare(
    store: Store,
    one: Create | CreateUnchecked | Update | Delete | FromTemplate,
    ctx: RequestContext,
) -> _Prepared:
    match one:
        case Create():
            return await _create(one, ctx)
        case CreateUnchecked():
            return _create_unchecked(one)
        case FromTemplate():
            return await _instantiate(one, ctx)
        case Update():
            return await _update(store, one, ctx)
        case Delete():
            return await _delete(store, one, ctx)


def _namespaces(cluster: str, writes: Sequence[Write]) -> frozenset[str]:
    return frozenset(
        _namespace_and_name(one)[1]
        for one in writes
        if isinstance(one, Create | FromTemplate)
        and one.cluster == cluster
        and (one.resource.group, one.resource.plural) == ("", NAMESPACES.resource)
    )


def _is_new(cluster: str, writes: Sequence[Write]) -> bool:
    """Whether the writes make the logical cluster itself."""
    return any(
        isinstance(one, Create)
        and one.cluster == cluster
        and one.resource.plural == LOGICAL_CLUSTERS.resource
        and one.resource.group == LOGICAL_CLUSTERS.group
        for one in writes
    )


def _namespace_and_name(one: Create | CreateUnchecked | FromTemplate) -> tuple[str, str]:
    if isinstance(one, FromTemplate):
        return one.copy.namespace, one.copy.name
    metadata = one.obj["metadata"]
    return metadata.get("namespace", ""), metadata["name"]


async def _create(one: Create, ctx: RequestContext) -> _Prepared:
    resource = one.resource
    # Creation resets the status, but here it is part of the desired result: set it afterwards.
    status = one.obj.pop("status", None)
    obj = resource.rules.decode(one.obj, [])
    namespace = obj["metadata"].get("namespace", "")
    request = await mutate_new(resource, ctx, namespace, obj)
    await validate_new(request, status)
    return _Prepared((await creation(request),), request)


def _create_unchecked(one: CreateUnchecked) -> _Prepared:
    sources = one.resource.services.sources
    metadata: Object = {
        "name": "",
        "uid": sources.uid(),
        "generation": 1,
        "creationTimestamp": sources.now(),
        **one.obj["metadata"],
    }
    stored = {**one.obj, "metadata": metadata}
    return _Prepared((new_key(one.resource, one.cluster, metadata.get("namespace", ""), stored),))


async def _instantiate(one: FromTemplate, ctx: RequestContext) -> _Prepared:
    """The first copy is created as any object is, and the template made of it."""
    resource, cluster, copy = one.resource, one.cluster, one.copy
    if not ctx.is_new:
        # The checks of the first copy hold for others only where nothing else has a say.
        raise ValueError(f"{cluster} is not made by this transaction: no template can be used")
    sources = resource.services.sources
    found = copy.template.instantiate((cluster, sources.uid(), sources.now(), *copy.words))
    if found is not None:
        return _Prepared((PutKey(resource.key(cluster, copy.namespace, copy.name), *found, 0),))
    prepared = await _create(Create(resource, cluster, copy.make()), ctx)
    (put,) = prepared.operations
    assert isinstance(put, PutKey)
    copy.template.learn(put, (cluster, *uid_and_time(put), *copy.words))
    return prepared


async def _update(store: Store, one: Update, ctx: RequestContext) -> _Prepared:
    resource = one.resource
    entry = store.get(resource.key(one.cluster, "", one.name))
    if entry is None:
        raise NotFound.resource(resource.group, resource.plural, one.name)

    def make(live: Object | None) -> Object:
        copy = codec.copy(live or {})
        made = one.make(copy)
        new = resource.rules.decode(copy if made is None else made, [])
        codec.strip_cluster(new)
        return new

    change = ObjectChange(make, is_patch=True)
    target = WriteTarget(resource, ctx, "", one.name, WHOLE)
    prepared = await prepare_update(target, change, entry)
    if prepared.operation is None:
        return _NOTHING
    return _Prepared((prepared.operation,), prepared.request)


async def _delete(store: Store, one: Delete, ctx: RequestContext) -> _Prepared:
    resource = one.resource
    entry = one.entry or store.get(resource.key(one.cluster, one.namespace, one.name))
    if entry is None:
        return _NOTHING
    value = await resource.own_form(entry.value)
    request = deletion_request(ctx, resource, one.namespace, one.name, value)
    await resource.services.admission.mutate(request)
    await resource.services.admission.validate(request)
    if one.to_trash:
        return _Prepared(moved_to_trash(store, entry))
    return _Prepared((DeleteKey(entry.key, codec.reopen(entry.value), entry.revision),))


def _lost_race(error: RevisionMismatch, writes: Sequence[Write]) -> AlreadyExists | Conflict:
    for one in writes:
        if isinstance(one, Create | CreateUnchecked | FromTemplate):
            resource, (namespace, name) = one.resource, _namespace_and_name(one)
            if resource.key(one.cluster, namespace, name) == error.key:
                return AlreadyExists.resource(resource.group, resource.plural, name)
    return Conflict("another write was faster, try again")
