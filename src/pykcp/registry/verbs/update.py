"""Update, patch and apply: read, change, check, compare and write; again if somebody was faster."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol, Self, TypeAlias

from pykcp.apis.kube.validation.custom import WHOLE
from pykcp.machinery.patch.idle import without_idle_times
from pykcp.machinery.status import (
    OPTIMISTIC_LOCK,
    BadRequest,
    Conflict,
    Invalid,
    NotFound,
    StatusError,
    invalid,
)
from pykcp.registry import codec
from pykcp.registry.context import RequestContext
from pykcp.registry.errors import translate
from pykcp.registry.resource import Resource
from pykcp.registry.verbs.admitting import AdmissionRequest, Outgrown, ShownKind
from pykcp.registry.verbs.create import create, dedup_owners, facts_of
from pykcp.registry.verbs.deletion import is_finished, is_kept_namespace
from pykcp.storage.errors import RevisionMismatch, StoreError
from pykcp.storage.interface import Entry
from pykcp.storage.operations import DeleteKey, PutKey
from pykcp.types import Object

_TRIES = 64


class SubresourceView(Protocol):
    """A subresource that shows an object as one of another kind, which is what is admitted."""

    subresource: str
    kind: ShownKind

    def sent(self, obj: Object) -> Object:
        """What the client sent, of which the object was made."""

    def write(self, obj: Object, sent: Object) -> None:
        """Take over into the object what admission made of what was sent."""

    def show(self, obj: Object, *, is_settled: bool) -> Object:
        """What it shows of an object; `is_settled`: after all changes, when it is judged."""


Make: TypeAlias = Callable[[Object | None], Object]
"""From the live object (None if there is none yet) to the new one.

Must not change its argument; called again when the write has to be tried again."""


class Recipe(Protocol):
    """How the new object comes from the live one, as data that a worker process understands."""

    is_apply: ClassVar[bool]
    is_patch: ClassVar[bool]

    @property
    def size(self) -> int:
        """How much was sent, in octets of JSON."""

    def bind(self, resource: Resource, warn: Callable[[str], None]) -> Make:
        """Read what was sent; `warn` is told what is wrong with it but accepted."""


def _unbound(_live: Object | None) -> Object:
    raise AssertionError("a large change is made by a worker process")


@dataclass(frozen=True, slots=True)
class ObjectChange:
    """How the new object comes from the live one (None if there is none yet)."""

    make: Make
    is_apply: bool = False
    """The result carries its managedFields already, and a missing object is created."""
    is_managed: bool = False
    """The result carries its managedFields already."""
    is_patch: bool = False
    """The result has the live object's resource version unless the patch says another."""
    view: SubresourceView | None = None
    """How admission sees the object, if not as it is."""
    recipe: Recipe | None = None
    """The same as `make`, for a worker process; None if only this process can do it."""
    edit: Callable[[Object], Any] | None = None
    """The part of `make` that only this process can do: it changes a copy of the live object in
    place, or returns another one."""

    @classmethod
    def of(cls, recipe: Recipe, resource: Resource, ctx: RequestContext) -> Self:
        is_large = resource.is_large(recipe.size)
        make = _unbound if is_large else recipe.bind(resource, ctx.warn)
        return cls(make, is_apply=recipe.is_apply, is_patch=recipe.is_patch, recipe=recipe)


class Written(NamedTuple):
    value: bytes
    was_created: bool


async def update(
    resource: Resource,
    ctx: RequestContext,
    namespace: str,
    name: str,
    change: ObjectChange,
    subresource: str = "",
) -> Written:
    has_outgrown = False
    for _ in range(_TRIES):
        entry = resource.entry(ctx.cluster, namespace, name)
        if entry is None:
            return await _create_missing(resource, ctx, namespace, name, change, subresource)
        is_large = has_outgrown or _is_large(resource, change, entry)
        once = _update_large if is_large else _update_once
        try:
            value = await once(resource, ctx, namespace, name, change, subresource, entry)
        except Outgrown:
            has_outgrown = True
            continue
        except RevisionMismatch:
            continue
        except StoreError as error:
            raise translate(error) from error
        return Written(value, was_created=False)
    raise Conflict.resource(resource.group, resource.plural, name, OPTIMISTIC_LOCK)


async def _update_large(
    resource: Resource,
    ctx: RequestContext,
    namespace: str,
    name: str,
    change: ObjectChange,
    subresource: str,
    entry: Entry,
) -> bytes:
    from pykcp.registry.verbs.large import update_large

    return await update_large(resource, ctx, namespace, name, change, subresource, entry)


def _is_large(resource: Resource, change: ObjectChange, entry: Entry) -> bool:
    recipe = change.recipe
    if recipe is None:
        return change.edit is not None and resource.is_large(len(entry.value))
    return resource.is_large(max(recipe.size, len(entry.value)))


async def _create_missing(
    resource: Resource,
    ctx: RequestContext,
    namespace: str,
    name: str,
    change: ObjectChange,
    subresource: str,
) -> Written:
    from pykcp.registry.verbs.large import check_readable, create_large

    may_create = (
        change.is_apply or (resource.rules.create_on_update and not change.is_patch)
    ) and not subresource
    recipe = change.recipe
    if recipe is not None and not resource.is_large(recipe.size):
        recipe = None
    if not may_create:
        if recipe is not None:
            await check_readable(resource, ctx, recipe)
        raise NotFound.resource(resource.group, resource.plural, name)
    if ctx.authorize_create is not None:
        await ctx.authorize_create()
    if recipe is not None:
        value = await create_large(resource, ctx, namespace, recipe, missing=name)
        return Written(value, was_created=True)
    obj = change.make(None)
    check_missing(resource, ctx, namespace, name, obj, is_apply=change.is_apply)
    recipe = change.recipe
    try:
        value = await create(
            resource,
            ctx,
            namespace,
            obj,
            is_managed=change.is_apply,
            can_restart=recipe is not None,
        )
    except Outgrown:
        assert recipe is not None
        value = await create_large(resource, ctx, namespace, recipe, missing=name)
    return Written(value, was_created=True)


def check_missing(
    resource: Resource,
    ctx: RequestContext,
    namespace: str,
    name: str,
    obj: Object,
    *,
    is_apply: bool,
) -> None:
    """Whether an object that an update found missing may be created as it is."""
    metadata = obj["metadata"]
    uid = metadata.get("uid")
    if uid:
        raise _no_such_uid(resource, name, namespace, uid, is_apply=is_apply)
    check_name(resource, namespace, name, obj)
    if not ctx.dry_run:
        metadata.pop("resourceVersion", None)


def _no_such_uid(
    resource: Resource, name: str, namespace: str, uid: str, *, is_apply: bool
) -> Conflict:
    if not is_apply:
        return _other_uid(resource, name, namespace, uid, "")
    return Conflict.resource(
        resource.group,
        resource.plural,
        name,
        f"uid mismatch: the provided object specified uid {uid}, and no existing object was found",
    )


def check_name(resource: Resource, namespace: str, name: str, obj: Object) -> None:
    """The object's name and namespace must be the URL's; an empty namespace is filled in."""
    metadata = obj.setdefault("metadata", {})
    given = metadata.get("name") or ""
    if not given:
        raise BadRequest(
            f"the name of the object ({name} based on URL) was undeterminable: name must be provided"
        )
    if given != name:
        raise BadRequest(
            f"the name of the object ({given}) does not match the name on the URL ({name})"
        )
    if not resource.namespaced:
        metadata.pop("namespace", None)
        return
    own = metadata.get("namespace") or ""
    if own and own != namespace:
        raise BadRequest(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    metadata["namespace"] = namespace


async def _update_once(
    resource: Resource,
    ctx: RequestContext,
    namespace: str,
    name: str,
    change: ObjectChange,
    subresource: str,
    entry: Entry,
) -> bytes:
    prepared = await prepare_update(resource, ctx, namespace, name, change, subresource, entry)
    operation = prepared.operation
    if operation is None or ctx.dry_run:
        return prepared.value
    (revision,) = await resource.services.store.write((operation,))
    if isinstance(operation, DeleteKey):
        revision = entry.revision  # who took the last finalizer away sees what there was
    return await resource.own_form(codec.fill(operation.value, revision))


class Prepared(NamedTuple):
    """A change that passed admission and validation; what is left is to write it."""

    operation: PutKey | DeleteKey | None
    """None if nothing would change."""
    value: bytes
    """The object as it is, or as a dry run shows it."""


async def prepare_update(
    resource: Resource,
    ctx: RequestContext,
    namespace: str,
    name: str,
    change: ObjectChange,
    subresource: str,
    entry: Entry,
) -> Prepared:
    value = await resource.own_form(entry.value)
    live = live_object(resource, value)
    webhook = resource.webhook
    shown = "" if subresource == WHOLE else subresource
    is_older = resource.is_older(entry.value)
    if webhook is None:
        new = prepare_changed(resource, ctx, name, change, live, shown, is_older=is_older)
    else:
        new = await webhook.retrying(lambda: change.make(live))
        check_versions(resource, name, change, new, live)
        await webhook.retrying(
            lambda: _manage(resource, ctx, change, new, live, shown, is_older=is_older)
        )
        dedup_owners(ctx, new["metadata"])
    rules = resource.rules
    services = resource.services
    request = AdmissionRequest(ctx, resource, "UPDATE", namespace, name, new, live, shown)
    view = change.view
    if view is None:
        request.can_restart = change.recipe is not None or change.edit is not None
        await services.admission.mutate(request)
    else:
        request.subresource, request.kind = view.subresource, view.kind
        request.obj = view.sent(new)
        request.old = view.show(live, is_settled=False)
        await services.admission.mutate(request)
        view.write(new, request.obj)
        check_versions(resource, name, change, new, live)
    judge_changed(resource, ctx, name, new, live, subresource)
    if view is not None:
        request.obj = view.show(new, is_settled=True)
        request.old = view.show(live, is_settled=True)
    await services.admission.validate(request)
    rules.settle(new)
    if is_removed(resource, new):
        return await _removal(resource, ctx, new, entry)
    new = without_idle_times(live, new)
    if new == live and not entry.is_stale and not resource.is_outdated(entry.value):
        return Prepared(None, value)
    return await _replacement(resource, ctx, new, entry)


def prepare_changed(
    resource: Resource,
    ctx: RequestContext,
    name: str,
    change: ObjectChange,
    live: Object,
    subresource: str,
    *,
    is_older: bool,
) -> Object:
    """The new object as admission is going to see it."""
    new = change.make(live)
    check_versions(resource, name, change, new, live)
    _manage(resource, ctx, change, new, live, subresource, is_older=is_older)
    dedup_owners(ctx, new["metadata"])
    return new


def _manage(
    resource: Resource,
    ctx: RequestContext,
    change: ObjectChange,
    new: Object,
    live: Object,
    subresource: str,
    *,
    is_older: bool,
) -> None:
    """Set the new object's managedFields; `is_older`: the live one is of an earlier schema."""
    if change.is_apply or change.is_managed:
        return
    rules = resource.rules
    if is_older and rules.forget_unfit(live, new, subresource):
        return  # upstream cannot say either who owns what there
    rules.manage_update(live, new, ctx.manager, subresource, resource.services.sources.now())


def judge_changed(
    resource: Resource, ctx: RequestContext, name: str, new: Object, live: Object, subresource: str
) -> None:
    """Prepare and check what admission made of the new object; Invalid if it is wrong."""
    errors, warnings = resource.rules.before_update(new, live, subresource, facts_of(resource, ctx))
    for text in warnings:
        ctx.warn(text)
    if errors:
        called = new["metadata"].get("name") or name  # admission may have renamed it
        raise Invalid.fields(resource.error_group, resource.kind, called, errors)


def is_removed(resource: Resource, new: Object) -> bool:
    """Whether the last finalizer is gone, so that the update is the deletion."""
    return is_finished(new["metadata"]) and not _is_kept(resource, new)


def _is_kept(resource: Resource, new: Object) -> bool:
    return (resource.group, resource.plural) == ("", "namespaces") and is_kept_namespace(new)


def live_object(resource: Resource, value: bytes) -> Object:
    obj = resource.object_of(value)
    codec.strip_cluster(obj)
    return obj


def check_versions(
    resource: Resource, name: str, change: ObjectChange, new: Object, live: Object
) -> None:
    metadata, old = new["metadata"], live["metadata"]
    uid = metadata.get("uid")
    if uid and uid != old["uid"] and not change.is_patch and not change.is_apply:
        raise _other_uid(resource, name, old.get("namespace", ""), uid, old["uid"])
    version = metadata.get("resourceVersion") or ""
    if version in ("", "0"):
        if not resource.rules.unconditional_update and not change.is_patch and not change.is_apply:
            raise Invalid.fields(
                resource.group,
                resource.plural,
                name,
                [invalid("metadata.resourceVersion", 0, "must be specified for an update")],
            )
        metadata["resourceVersion"] = old["resourceVersion"]
    elif version != old["resourceVersion"]:
        if not (version.isascii() and version.isdigit()):
            raise StatusError(
                f'strconv.ParseUint: parsing "{version}": invalid syntax', reason="", details=False
            )
        raise Conflict.resource(resource.group, resource.plural, name, OPTIMISTIC_LOCK)


def _other_uid(resource: Resource, name: str, namespace: str, wanted: str, found: str) -> Conflict:
    place = (
        f"/{resource.plural}/{namespace}/{name}"
        if resource.namespaced
        else f"/{resource.plural}/{name}"
    )
    return Conflict.resource(
        resource.group,
        resource.plural,
        name,
        f"StorageError: invalid object, Code: 4, Key: {place}, ResourceVersion: 0, AdditionalErrorMsg: "
        f"Precondition failed: UID in precondition: {wanted}, UID in object meta: {found}",
    )


async def _replacement(
    resource: Resource, ctx: RequestContext, new: Object, entry: Entry
) -> Prepared:
    stored = await resource.stored_form(new)
    put = PutKey(
        entry.key,
        resource.encode(stored, ctx.cluster),
        resource.terms_of(stored, ctx.cluster),
        resource.index_entries(ctx.cluster, stored),
        entry.revision,
    )
    return Prepared(
        put,
        resource.unversioned(resource.unstored_form(new), ctx.cluster)
        if ctx.dry_run
        else entry.value,
    )


async def _removal(resource: Resource, ctx: RequestContext, new: Object, entry: Entry) -> Prepared:
    """The last finalizer is gone: the update is the deletion."""
    stored = await resource.stored_form(new)
    deletion = DeleteKey(entry.key, resource.encode(stored, ctx.cluster), entry.revision)
    return Prepared(
        deletion,
        resource.unversioned(resource.unstored_form(new), ctx.cluster)
        if ctx.dry_run
        else entry.value,
    )
