"""Update, patch and apply: read, change, check and compare-and-write; again after a conflict."""

from __future__ import annotations

from typing import NamedTuple

from pykcp.machinery.patch.idle import without_idle_times
from pykcp.machinery.schema.growth import Outgrown, bounded
from pykcp.machinery.status import OPTIMISTIC_LOCK, Conflict, Invalid, NotFound
from pykcp.registry import codec
from pykcp.registry.context import RequestContext
from pykcp.registry.errors import translate
from pykcp.registry.resource import Resource
from pykcp.registry.verbs.admitting import AdmissionRequest
from pykcp.registry.verbs.changes import ObjectChange, WriteTarget, Written, live_object
from pykcp.registry.verbs.create import create, dedup_owners, facts_of
from pykcp.registry.verbs.deletion import is_finished, is_kept_namespace
from pykcp.registry.verbs.preconditions import check_missing, check_versions
from pykcp.registry.verbs.reservations import write_reserved
from pykcp.storage.errors import RevisionMismatch, StoreError
from pykcp.storage.interface import Entry
from pykcp.storage.operations import DeleteKey, PutKey
from pykcp.types import Object

_TRIES = 64


async def update(target: WriteTarget, change: ObjectChange) -> Written:
    """Update, or create what is missing where the kind or an apply allows that."""
    resource = target.resource
    has_outgrown = change.is_large
    for _ in range(_TRIES):
        entry = resource.entry(target.context.cluster, target.namespace, target.name)
        if entry is None:
            return await _create_missing(target, change)
        is_large = has_outgrown or _is_large(resource, change, entry)
        once = _update_large if is_large else _update_once
        try:
            value = await once(target, change, entry)
        except Outgrown:
            has_outgrown = True
            continue
        except RevisionMismatch:
            continue
        except StoreError as error:
            raise translate(error) from error
        return Written(value, was_created=False)
    raise Conflict.resource(resource.group, resource.plural, target.name, OPTIMISTIC_LOCK)


async def _update_large(target: WriteTarget, change: ObjectChange, entry: Entry) -> bytes:
    from pykcp.registry.verbs.large import update_large, update_viewed

    if change.view is not None:
        return await update_viewed(target, change.view, entry)
    return await update_large(target, change, entry)


def _is_large(resource: Resource, change: ObjectChange, entry: Entry) -> bool:
    recipe = change.recipe
    if recipe is None:
        is_known = change.edit is not None or change.view is not None
        return is_known and resource.is_large(len(entry.value), entry.value)
    return resource.is_large(max(recipe.size, len(entry.value)))


async def _create_missing(target: WriteTarget, change: ObjectChange) -> Written:
    from pykcp.registry.verbs.large import check_readable, create_large

    resource, ctx, namespace, name = (
        target.resource,
        target.context,
        target.namespace,
        target.name,
    )
    may_create = (
        change.is_apply or (resource.rules.create_on_update and not change.is_patch)
    ) and not target.subresource
    recipe = change.recipe
    if recipe is not None and not change.is_large:
        recipe = None
    if not may_create:
        if recipe is not None and not (recipe.is_patch or recipe.is_apply):
            await check_readable(resource, ctx, recipe)
        raise NotFound.resource(resource.group, resource.plural, name)
    if recipe is not None:
        value = await create_large(resource, ctx, namespace, recipe, missing=name)
        return Written(value, was_created=True)
    recipe = change.recipe
    try:
        with bounded(recipe is not None and resource.has_workers):
            obj = change.make(None)
        check_missing(target, obj, is_apply=change.is_apply)
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


async def _update_once(target: WriteTarget, change: ObjectChange, entry: Entry) -> bytes:
    resource = target.resource
    prepared = await prepare_update(target, change, entry)
    operation = prepared.operation
    if operation is None or target.context.dry_run:
        return prepared.value
    store, request = resource.services.store, prepared.request
    if request is None:
        (revision,) = await store.write((operation,))
    else:
        (revision,) = await write_reserved(store, (operation,), (request,))
    if isinstance(operation, DeleteKey):
        return prepared.value
    return await resource.own_form(codec.fill(operation.value, revision))


class Prepared(NamedTuple):
    """A change that passed admission and validation; what is left is to write it."""

    operation: PutKey | DeleteKey | None
    """None if nothing would change."""
    value: bytes
    """The object as it is, as a dry run shows it, or as it was left by the update that removed it."""
    request: AdmissionRequest | None = None
    """If limits keep count of the change: says which."""


async def prepare_update(target: WriteTarget, change: ObjectChange, entry: Entry) -> Prepared:
    """Everything but the commit: the new object is made, admitted and validated."""
    resource, ctx, name = target.resource, target.context, target.name
    value = await resource.own_form(entry.value)
    is_bounded = change.can_restart and resource.has_workers
    with bounded(is_bounded):
        live = live_object(resource, value)
    new = await new_object(target, change, live, is_older=resource.is_older(entry.value))
    services = resource.services
    shown = target.shown_subresource
    request = AdmissionRequest(ctx, resource, "UPDATE", target.namespace, name, new, live, shown)
    view = change.view
    if view is None:
        request.can_restart = change.can_restart
        await services.admission.mutate(request)
        dedup_owners(ctx, new["metadata"], is_admitted=True)
    else:
        request.subresource, request.kind = view.subresource, view.kind
        request.obj = view.sent(new)
        request.old = view.show(live, is_settled=False)
        await services.admission.mutate(request)
        view.write(new, request.obj)
        check_versions(target, change, new, live)
    with bounded(is_bounded):
        judge_changed(target, new, live)
    if view is not None:
        request.obj = view.show(new, is_settled=True)
        request.old = view.show(live, is_settled=True)
    await services.admission.validate(request)
    resource.rules.settle(new)
    if is_removed(resource, new):
        return await _removal(resource, ctx, new, entry)
    new = without_idle_times(live, new)
    is_current = not (entry.is_stale or resource.is_outdated(entry.value))
    if new == live and is_current and not resource.is_changed_by_reading(value):
        return Prepared(None, value)
    made = await _replacement(resource, ctx, new, entry, can_restart=request.can_restart)
    return made if request.reservations is None else made._replace(request=request)


async def new_object(
    target: WriteTarget, change: ObjectChange, live: Object, *, is_older: bool
) -> Object:
    """The new object as admission is going to see it. Waits only for a conversion webhook."""
    webhook = target.resource.webhook
    if webhook is None:
        return prepare_changed(target, change, live, is_older=is_older)
    can_restart = change.can_restart
    new = await webhook.retrying(lambda: _make(target, change, live), can_restart=can_restart)
    check_versions(target, change, new, live)
    new["metadata"].pop("selfLink", None)

    def manage() -> None:
        _manage(target, change, new, live, is_older=is_older)

    _dedup_sent(target.context, change, new)
    await webhook.retrying(manage, can_restart=can_restart)
    return new


def prepare_changed(
    target: WriteTarget, change: ObjectChange, live: Object, *, is_older: bool
) -> Object:
    """The new object as admission is going to see it."""
    new = _make(target, change, live)
    check_versions(target, change, new, live)
    new["metadata"].pop("selfLink", None)
    _dedup_sent(target.context, change, new)
    _manage(target, change, new, live, is_older=is_older)
    return new


def _dedup_sent(ctx: RequestContext, change: ObjectChange, new: Object) -> None:
    """As upstream: what a patch makes of owner references is looked at after admission only."""
    if not (change.is_patch or change.is_apply):
        dedup_owners(ctx, new["metadata"])


def _make(target: WriteTarget, change: ObjectChange, live: Object) -> Object:
    """What becomes of the live object. Raises Outgrown if that can be left to a worker process."""
    with bounded(change.can_restart and target.resource.has_workers):
        return change.make(live)


def _manage(
    target: WriteTarget, change: ObjectChange, new: Object, live: Object, *, is_older: bool
) -> None:
    """Set the new object's managedFields; `is_older`: the live one is of an earlier schema."""
    if change.is_apply or change.is_managed:
        return
    resource, subresource = target.resource, target.shown_subresource
    rules, now = resource.rules, resource.services.sources.now()
    if is_older and rules.forget_unfit(live, new, subresource):
        return  # upstream does not know the owners of its fields either
    rules.manage_update(live, new, target.context.manager, subresource, now)


def judge_changed(target: WriteTarget, new: Object, live: Object) -> None:
    """Prepare and check what admission made of the new object; Invalid if it is wrong."""
    resource, ctx = target.resource, target.context
    facts = facts_of(resource, ctx)
    errors, warnings = resource.rules.before_update(new, live, target.subresource, facts)
    for text in warnings:
        ctx.warn(text)
    if errors:
        called = new["metadata"].get("name") or target.name  # admission may have renamed it
        raise Invalid.fields(resource.error_group, resource.kind, called, errors)


def is_removed(resource: Resource, new: Object) -> bool:
    """Whether the last finalizer is gone, so that the update is the deletion."""
    return is_finished(new["metadata"]) and not _is_kept(resource, new)


def _is_kept(resource: Resource, new: Object) -> bool:
    return (resource.group, resource.plural) == ("", "namespaces") and is_kept_namespace(new)


async def _replacement(
    resource: Resource, ctx: RequestContext, new: Object, entry: Entry, *, can_restart: bool
) -> Prepared:
    stored = await resource.stored_form(new, can_restart=can_restart)
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
    # Watches are shown what was stored, with the finalizer; the response is without it.
    deletion = DeleteKey(entry.key, codec.reopen(entry.value), entry.revision)
    if ctx.dry_run:
        return Prepared(deletion, resource.unversioned(resource.unstored_form(new), ctx.cluster))
    left = codec.fill(resource.encode(await resource.stored_form(new), ctx.cluster), entry.revision)
    return Prepared(deletion, await resource.own_form(left))
