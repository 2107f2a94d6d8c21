"""Create: from a decoded object to a committed one."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AsyncExitStack

from pykcp.apis.kube.validation.rules import Facts
from pykcp.machinery.status import (
    OPTIMISTIC_LOCK,
    AlreadyExists,
    BadRequest,
    Conflict,
    Forbidden,
    Invalid,
    StatusError,
)
from pykcp.registry import codec
from pykcp.registry.context import RequestContext
from pykcp.registry.errors import translate
from pykcp.registry.resource import Resource
from pykcp.registry.verbs.admitting import AdmissionRequest, Reserve
from pykcp.storage.errors import RevisionMismatch, StoreError
from pykcp.storage.interface import PutKey, Store
from pykcp.types import Object

_SYSTEM_FIELDS = (
    "creationTimestamp",
    "uid",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "selfLink",
)
GENERATE_TRIES = 8
_GENERATED_LENGTH = 58
_RESERVE_TRIES = 64
_TERMINATING = "create not allowed while custom resource definition is terminating"


async def create(
    resource: Resource,
    ctx: RequestContext,
    namespace: str,
    obj: Object,
    *,
    is_managed: bool = False,
    can_restart: bool = False,
) -> bytes:
    """Create a decoded object; returns the stored bytes.

    `is_managed`: the object comes from server-side apply and knows its managers already.
    `can_restart`: Outgrown may be raised, for a write that can be done by `create_large`, too.
    """
    kept = prepare_new(resource, ctx, namespace, obj, is_managed=is_managed)
    metadata = obj["metadata"]
    sources = resource.services.sources
    now = sources.now()
    check_terminating(resource, metadata.get("name", ""))
    admission = resource.services.admission
    request = AdmissionRequest(ctx, resource, "CREATE", namespace, metadata.get("name", ""), obj)
    request.can_restart = can_restart
    await admission.mutate(request)
    metadata["creationTimestamp"] = now
    metadata["uid"] = sources.uid()
    if kept:
        metadata.update(kept)
    is_generated = bool(metadata.get("generateName")) and not metadata.get("name")
    for attempt in range(GENERATE_TRIES if is_generated else 1):
        if is_generated:
            metadata["name"] = generated_name(metadata["generateName"], resource)
        try:
            return await _create_named(resource, ctx, request)
        except AlreadyExists:
            if not is_generated or attempt == GENERATE_TRIES - 1:
                raise
    raise AssertionError


def prepare_new(
    resource: Resource, ctx: RequestContext, namespace: str, obj: Object, *, is_managed: bool
) -> Object:
    """What is done to a new object before admission; returns fields that are put back after it."""
    metadata = obj.setdefault("metadata", {})
    kept = resource.kept_fields(metadata)
    for name in _SYSTEM_FIELDS:
        metadata.pop(name, None)
    match_namespace(resource, namespace, metadata)
    dedup_owners(ctx, metadata)
    if not is_managed:
        now = resource.services.sources.now()
        resource.rules.manage_update(None, obj, ctx.manager, "", now)
    return kept


def check_terminating(resource: Resource, name: str) -> None:
    if resource.definition.is_terminating:
        raise Forbidden.resource(resource.group, resource.plural, name, _TERMINATING)


def generated_name(generate_name: str, resource: Resource) -> str:
    return generate_name[:_GENERATED_LENGTH] + resource.services.sources.suffix()


async def _create_named(
    resource: Resource, ctx: RequestContext, request: AdmissionRequest
) -> bytes:
    obj = request.obj
    assert obj is not None
    metadata = obj["metadata"]
    request.name = metadata.get("name", "")
    judge_new(resource, ctx, obj)
    request.reservations = None  # of a try under another name
    await resource.services.admission.validate(request)
    resource.rules.settle(obj)
    return await _write(resource, ctx, request.namespace, obj, request.reservations)


def judge_new(resource: Resource, ctx: RequestContext, obj: Object) -> None:
    """Prepare and check what admission made of a new object; Invalid if it is wrong."""
    errors, warnings = resource.rules.before_create(obj, facts_of(resource, ctx))
    if errors:
        name = obj["metadata"].get("name", "")
        raise Invalid.fields(resource.error_group, resource.kind, name, errors)
    for text in warnings:
        ctx.warn(text)


def facts_of(resource: Resource, ctx: RequestContext) -> Facts:
    """What a kind's rules may know of the request."""
    user, sources = ctx.user, resource.services.sources
    return Facts(
        user.name,
        user.uid,
        user.groups,
        user.extra,
        sources.now.clock(),
        sources.uid,
        resource.services.check_cel,
        resource.services.schema_checks,
    )


async def _write(
    resource: Resource,
    ctx: RequestContext,
    namespace: str,
    obj: Object,
    reservations: Sequence[Reserve] | None,
) -> bytes:
    name = obj["metadata"]["name"]
    key = resource.key(ctx.cluster, namespace, name)
    store = resource.services.store
    if ctx.dry_run:
        if store.get(key) is not None:
            raise already_exists(resource, key, name)
        return resource.unversioned(resource.unstored_form(obj), ctx.cluster)
    check_unversioned(obj)
    stored = await resource.stored_form(obj)
    value = resource.encode(stored, ctx.cluster)
    indexes = resource.index_entries(ctx.cluster, stored)
    put = PutKey(key, value, resource.terms_of(stored, ctx.cluster), indexes, 0)
    return await write_new(resource, name, put, reservations)


def check_unversioned(obj: Object) -> None:
    """A new object has no resource version; an empty one is dropped."""
    if obj["metadata"].pop("resourceVersion", ""):
        raise StatusError(
            "resourceVersion should not be set on objects to be created", reason="", details=False
        )


async def write_new(
    resource: Resource, name: str, put: PutKey, reservations: Sequence[Reserve] | None
) -> bytes:
    """Commit a new object; AlreadyExists if there is one of that name."""
    key, store = put.key, resource.services.store
    try:
        if reservations is None:
            (revision,) = await store.write((put,))
        else:
            revision = await _write_reserved(store, put, reservations)
    except RevisionMismatch as error:
        if error.key != key:
            raise Conflict.resource(
                resource.group, resource.plural, name, OPTIMISTIC_LOCK
            ) from error
        raise already_exists(resource, key, name) from error
    except StoreError as error:
        raise translate(error) from error
    return await resource.own_form(codec.fill(put.value, revision))


async def _write_reserved(store: Store, put: PutKey, reservations: Sequence[Reserve]) -> int:
    """Write together with what limits keep count of; again while that changes under our hands."""
    for attempt in range(_RESERVE_TRIES):
        try:
            async with AsyncExitStack() as held:
                counted = [
                    operation
                    for reserve in reservations
                    for operation in await held.enter_async_context(reserve())
                ]
                return (await store.write((*counted, put)))[-1]
        except RevisionMismatch as mismatch:
            if mismatch.key == put.key or attempt == _RESERVE_TRIES - 1:
                raise
    raise AssertionError


def dedup_owners(ctx: RequestContext, metadata: Object) -> None:
    """Equal owner references are kept once; the client is told."""
    owners = metadata.get("ownerReferences")
    if not owners or len(owners) < 2:
        return
    distinct: dict[frozenset[tuple[str, str | bool]], Object] = {}
    repeated: dict[str, None] = {}
    for owner in owners:
        if distinct.setdefault(frozenset(owner.items()), owner) is not owner:
            repeated[owner["uid"]] = None
    if repeated:
        metadata["ownerReferences"] = list(distinct.values())
        ctx.warn(_REPEATED_OWNERS + ", ".join(repeated))


_REPEATED_OWNERS = (
    ".metadata.ownerReferences contains duplicate entries; API server dedups owner references in 1.20+, "
    "and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: "
)


def already_exists(resource: Resource, key: str, name: str) -> AlreadyExists:
    refusal = AlreadyExists.resource(resource.group, resource.plural, name)
    entry = resource.services.store.get(key)
    if entry is not None and codec.decode(entry.value)["metadata"].get("deletionTimestamp"):
        refusal.message = f"object is being deleted: {refusal.message}"
    return refusal


def match_namespace(resource: Resource, namespace: str, metadata: Object) -> None:
    """The object's namespace is the request's; an empty one is filled in."""
    if not resource.namespaced:
        metadata.pop("namespace", None)
        return
    given = metadata.get("namespace") or ""
    if given and given != namespace:
        raise BadRequest(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    metadata["namespace"] = namespace
