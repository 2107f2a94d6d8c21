"""Create: from a decoded object to a committed one."""

from __future__ import annotations

from pykcp.apis.kube.validation.rules import Facts
from pykcp.machinery.schema.growth import bounded
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
from pykcp.registry.verbs.admitting import AdmissionRequest
from pykcp.registry.verbs.object_parts import ObjectParts
from pykcp.registry.verbs.reservations import write_reserved
from pykcp.storage.errors import RevisionMismatch, StoreError
from pykcp.storage.operations import PutKey
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
    request = await mutate_new(
        resource, ctx, namespace, obj, is_managed=is_managed, can_restart=can_restart
    )
    metadata = obj["metadata"]
    is_generated = bool(metadata.get("generateName")) and not metadata.get("name")
    for attempt in range(GENERATE_TRIES if is_generated else 1):
        if is_generated:
            metadata["name"] = generated_name(metadata["generateName"], resource)
        try:
            await validate_new(request)
            return await _write(request)
        except AlreadyExists:
            if not is_generated or attempt == GENERATE_TRIES - 1:
                raise
    raise AssertionError


async def mutate_new(
    resource: Resource,
    ctx: RequestContext,
    namespace: str,
    obj: Object,
    *,
    is_managed: bool = False,
    can_restart: bool = False,
) -> AdmissionRequest:
    """A new object after mutating admission, with what the server gives it but a name."""
    kept = prepare_new(resource, ctx, namespace, obj, is_managed=is_managed)
    metadata = obj["metadata"]
    name = metadata.get("name", "")
    check_terminating(resource, name)
    sources = resource.services.sources
    now = sources.now()
    request = AdmissionRequest(ctx, resource, "CREATE", namespace, name, obj)
    request.can_restart = can_restart
    await resource.services.admission.mutate(request)
    dedup_owners(ctx, metadata, is_admitted=True)
    metadata["creationTimestamp"] = now
    metadata["uid"] = sources.uid()
    if kept:
        metadata.update(kept)
    return request


async def validate_new(request: AdmissionRequest, status: object | None = None) -> None:
    """Validation of a named object, then validating admission; raises why it is refused.

    `status`: what the object is given as its status, which only the system may do.
    """
    resource, obj = request.resource, request.obj
    assert obj is not None
    request.name = obj["metadata"].get("name", "")
    with bounded(request.can_restart and resource.has_workers):
        judge_new(resource, request.context, obj)
    if status is not None:
        obj["status"] = status
    request.reservations = None  # of a try under another name
    await authorize_create(request.context)
    await resource.services.admission.validate(request)
    resource.rules.settle(obj)


async def authorize_create(ctx: RequestContext) -> None:
    """Whether an update may create what it finds missing; Forbidden if not.

    As upstream, not before mutating admission and validation: what is wrong with the object, or
    that its namespace is missing, is told first.
    """
    if ctx.authorize_create is not None:
        await ctx.authorize_create()


def prepare_new(
    resource: Resource, ctx: RequestContext, namespace: str, obj: Object, *, is_managed: bool
) -> Object:
    """What is done to a new object before admission; returns fields that are put back after it."""
    metadata = obj.setdefault("metadata", {})
    kept = resource.kept_fields(metadata)
    wipe_system_fields(metadata)
    match_namespace(resource, namespace, metadata)
    dedup_owners(ctx, metadata)
    if not is_managed:
        now = resource.services.sources.now()
        resource.rules.manage_update(None, obj, ctx.manager, "", now)
    return kept


def wipe_system_fields(metadata: Object) -> None:
    """Forget what a client said of a new object that only the server may say."""
    for name in _SYSTEM_FIELDS:
        metadata.pop(name, None)


def check_terminating(resource: Resource, name: str) -> None:
    if resource.definition.is_terminating:
        raise Forbidden.resource(resource.group, resource.plural, name, _TERMINATING)


def generated_name(generate_name: str, resource: Resource) -> str:
    return generate_name[:_GENERATED_LENGTH] + resource.services.sources.suffix()


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


async def _write(request: AdmissionRequest) -> bytes:
    resource, ctx, obj = request.resource, request.context, request.obj
    assert obj is not None
    name = obj["metadata"]["name"]
    if ctx.dry_run:
        key = resource.key(ctx.cluster, request.namespace, name)
        if resource.services.store.get(key) is not None:
            raise already_exists(request, key, name)
        return resource.unversioned(resource.unstored_form(obj), ctx.cluster)
    return await write_new(request, name, await creation(request))


async def creation(request: AdmissionRequest) -> PutKey:
    """What stores a new object that passed admission and validation."""
    resource, cluster, obj = request.resource, request.context.cluster, request.obj
    assert obj is not None
    check_unversioned(obj)
    stored = await resource.stored_form(obj, can_restart=request.can_restart)
    return new_key(resource, cluster, request.namespace, stored)


def new_key(resource: Resource, cluster: str, namespace: str, stored: Object) -> PutKey:
    """What stores an object, in its stored form, under a name that must be free."""
    return PutKey(
        resource.key(cluster, namespace, stored["metadata"]["name"]),
        resource.encode(stored, cluster),
        resource.terms_of(stored, cluster),
        resource.index_entries(cluster, stored),
        0,
    )


def check_unversioned(obj: Object) -> None:
    """A new object has no resource version. As upstream, "0" and texts that are none are dropped."""
    if _is_version(obj["metadata"].pop("resourceVersion", "")):
        raise StatusError(
            "resourceVersion should not be set on objects to be created", reason="", details=False
        )


def _is_version(text: str) -> bool:
    return text.isascii() and text.isdigit() and 0 < int(text[:20]) < 1 << 64 and len(text) <= 20


async def write_new(request: AdmissionRequest, name: str, put: PutKey) -> bytes:
    """Commit a new object; AlreadyExists if there is one of that name."""
    resource = request.resource
    store = resource.services.store
    try:
        if request.reservations is None:
            (revision,) = await store.write((put,))
        else:
            (revision,) = await write_reserved(store, (put,), (request,))
    except RevisionMismatch as error:
        if error.key != put.key:
            raise Conflict.resource(
                resource.group, resource.plural, name, OPTIMISTIC_LOCK
            ) from error
        raise already_exists(request, put.key, name) from error
    except StoreError as error:
        raise translate(error) from error
    return await resource.own_form(codec.fill(put.value, revision))


def dedup_owners(ctx: RequestContext, metadata: Object, *, is_admitted: bool = False) -> None:
    """Remove duplicate owner references, with a warning for the client.

    `is_admitted`: mutating admission is over. It is done again then, and first for patches.
    """
    owners = metadata.get("ownerReferences")
    if not owners or len(owners) < 2:
        return
    distinct: dict[frozenset[tuple[str, str | bool]], Object] = {}
    repeated = [
        owner["uid"]
        for owner in owners
        if distinct.setdefault(frozenset(owner.items()), owner) is not owner
    ]
    if repeated:
        metadata["ownerReferences"] = list(distinct.values())
        when = " after mutating admission happens" if is_admitted else ""
        ctx.warn(_REPEATED_OWNERS.format(when) + ", ".join(repeated))


_REPEATED_OWNERS = (
    ".metadata.ownerReferences contains duplicate entries{}; API server dedups owner references in "
    "1.20+, and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) "
    "observed: "
)


def already_exists(request: AdmissionRequest, key: str, name: str) -> AlreadyExists:
    resource = request.resource
    refusal = AlreadyExists.resource(resource.group, resource.plural, name)
    if request.metadata.get("generateName"):  # also if the client chose the name itself
        refusal.message += ", the server was not able to generate a unique name for the object"
        refusal.retry_after = 1
    entry = resource.services.store.get(key)
    if entry is not None and ObjectParts(entry.value).metadata.get("deletionTimestamp"):
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
