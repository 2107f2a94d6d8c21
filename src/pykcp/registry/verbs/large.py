"""Writes that are too large for the event loop: worker processes compute them.

A write is large if its body or the live object is, or if the schema of its kind is. Then the
two long steps of a write, making the new object (decode, patch, apply, managed fields) and
judging it (validation, conversion, encoding), are done by `LargeWork`, which is given bytes and
gives bytes back. Admission and the commit stay here, in the same order as for small writes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import orjson

from pykcp.aio.slices import in_slices
from pykcp.aio.turns import heavy_turn
from pykcp.machinery.status import AlreadyExists
from pykcp.registry import codec
from pykcp.registry.context import RequestContext
from pykcp.registry.resource import Resource
from pykcp.registry.verbs.admitting import AdmissionRequest
from pykcp.registry.verbs.changes import (
    Make,
    ObjectChange,
    Recipe,
    SubresourceView,
    WriteTarget,
)
from pykcp.registry.verbs.create import (
    GENERATE_TRIES,
    already_exists,
    authorize_create,
    check_terminating,
    generated_name,
    write_new,
)
from pykcp.registry.verbs.delete import Deleted, remove, remove_marked
from pykcp.registry.verbs.deletion import DeleteOptions, DeletionAction
from pykcp.registry.verbs.large_request import LargeRequest, deletion_request
from pykcp.registry.verbs.large_work import Assigned, LargeWork, ObjectShape, ValidatedObject
from pykcp.registry.verbs.reservations import write_reserved
from pykcp.storage.interface import Entry
from pykcp.storage.operations import DeleteKey, PutKey
from pykcp.types import Object


@dataclass(frozen=True, slots=True)
class Edited:
    """An object that a controller changed in this process."""

    is_apply: ClassVar[bool] = False
    is_patch: ClassVar[bool] = True
    text: bytes

    @property
    def size(self) -> int:
        return len(self.text)

    def bind(self, resource: Resource, warn: Callable[[str], None]) -> Make:
        def make(_live: Object | None) -> Object:
            new = resource.rules.decode(orjson.loads(self.text), [])
            codec.strip_cluster(new)
            return new

        return make


async def check_readable(resource: Resource, ctx: RequestContext, recipe: Recipe) -> None:
    """Raise what is wrong with a body, although there is no object that it could change."""
    await _work(resource).check(resource, ctx, recipe)


async def create_large(
    resource: Resource, ctx: RequestContext, namespace: str, recipe: Recipe, missing: str = ""
) -> bytes:
    """`create` for a body that is not read yet; returns the stored bytes.

    `missing`: the name under which an update found nothing; empty for a create.
    """
    made = await _work(resource).new_object(resource, ctx, namespace, recipe, missing)
    _warn(ctx, made.warnings)
    check_terminating(resource, made.name)
    request = LargeRequest(ctx, resource, "CREATE", namespace, made)
    await resource.services.admission.mutate(request)
    name, prefix = made.name, made.generate_name
    if request.is_decoded:
        metadata = request.metadata
        name, prefix = metadata.get("name", ""), metadata.get("generateName", "")
    is_generated = bool(prefix) and not name
    text, sources = request.text(), resource.services.sources
    now, uid = sources.now(), sources.uid()
    for attempt in range(GENERATE_TRIES if is_generated else 1):
        if is_generated:
            name = generated_name(prefix, resource)
        try:
            return await _create_named(resource, ctx, request, text, Assigned(name, uid, now))
        except AlreadyExists:
            if not is_generated or attempt == GENERATE_TRIES - 1:
                raise
    raise AssertionError


async def _create_named(
    resource: Resource,
    ctx: RequestContext,
    request: LargeRequest,
    text: bytes,
    assigned: Assigned,
) -> bytes:
    request.name = name = assigned.name
    judged = await _work(resource).judged_new(resource, ctx, text, assigned)
    _warn(ctx, judged.warnings)
    request.show(judged)
    request.reservations = None  # of a try under another name
    await authorize_create(ctx)
    await resource.services.admission.validate(request)
    if judged.failure is not None:
        raise judged.failure
    key = resource.key(ctx.cluster, request.namespace, name)
    if ctx.dry_run:
        if resource.services.store.get(key) is not None:
            raise already_exists(request, key, name)
        return judged.dry
    put = PutKey(key, judged.value, judged.terms, judged.indexes, 0)
    return await write_new(request, name, put)


async def update_large(target: WriteTarget, change: ObjectChange, entry: Entry) -> bytes:
    """One attempt of an update; raises Mismatch on a conflict."""
    resource, ctx, name = target.resource, target.context, target.name
    work, admission = _work(resource), resource.services.admission
    live = await _live(resource, entry)
    old = await resource.own_form(entry.value) if live is entry.value else live
    recipe: Recipe = change.recipe or await _edited(resource, ctx, change, live)
    shown = target.shown_subresource
    made = await work.changed_object(resource, ctx, name, recipe, live, shown)
    _warn(ctx, made.warnings)
    request = LargeRequest(ctx, resource, "UPDATE", target.namespace, made, old, shown)
    request.name = name
    await _show_old(request)
    await admission.mutate(request)
    judged = await work.judged_change(resource, ctx, name, request.text(), live, target.subresource)
    _warn(ctx, judged.warnings)
    request.show(judged)
    await admission.validate(request)
    if judged.failure is not None:
        raise judged.failure
    return await _commit(request, judged, entry)


async def update_viewed(target: WriteTarget, view: SubresourceView, entry: Entry) -> bytes:
    """One attempt of an update through a subresource that shows an object of another kind."""
    resource, ctx, name = target.resource, target.context, target.name
    work, admission = _work(resource), resource.services.admission
    live = await _live(resource, entry)
    made = await work.viewed_change(resource, ctx, name, view.recipe, live)
    _warn(ctx, made.warnings)
    request = AdmissionRequest(
        ctx, resource, "UPDATE", target.namespace, name, made.sent, made.old, view.subresource
    )
    request.kind = view.kind
    await admission.mutate(request)
    assert request.obj is not None
    made = made._replace(sent=request.obj)
    judged = await work.judged_view(resource, ctx, name, view.recipe, made, live)
    _warn(ctx, judged.validated.warnings)
    request.obj, request.old = judged.new, judged.old
    await admission.validate(request)
    if judged.validated.failure is not None:
        raise judged.validated.failure
    view.written = judged.new
    return await _commit(request, judged.validated, entry)


async def _show_old(request: LargeRequest) -> None:
    """What is of an earlier schema or another version is read once, for all plug-ins."""
    value = request.unread_old()
    if value is not None:
        work, tenant = _work(request.resource), request.context.cluster
        (text,) = await work.shown(request.resource, tenant, ObjectShape(), (value,))
        request.show_old(text)


async def _live(resource: Resource, entry: Entry) -> bytes:
    """The live object for a worker: it reads stored values, but does not convert twice."""
    if resource.definition.webhook is None:
        return entry.value
    return await resource.own_form(entry.value)


async def _commit(request: AdmissionRequest, judged: ValidatedObject, entry: Entry) -> bytes:
    resource = request.resource
    operation: PutKey | DeleteKey
    if judged.is_removed:
        operation = DeleteKey(entry.key, codec.reopen(entry.value), entry.revision)
    elif judged.is_unchanged and not entry.is_stale and not resource.is_outdated(entry.value):
        return await resource.own_form(entry.value)
    else:
        operation = PutKey(entry.key, judged.value, judged.terms, judged.indexes, entry.revision)
    if request.context.dry_run:
        return judged.dry
    (revision,) = await write_reserved(resource.services.store, (operation,), (request,))
    if judged.is_removed:
        revision = entry.revision  # who took the last finalizer away sees what there was
    return await resource.own_form(codec.fill(judged.value, revision))


async def delete_large(
    resource: Resource,
    ctx: RequestContext,
    namespace: str,
    name: str,
    options: DeleteOptions,
    entry: Entry,
    collection: Sequence[bytes] | None,
) -> Deleted:
    """One attempt of a delete; raises Mismatch on a conflict."""
    doomed = await _work(resource).deletion(resource, ctx, entry.value, options)
    value = await resource.own_form(entry.value)
    request = deletion_request(ctx, resource, namespace, name, value)
    request.deletion, request.collection = options, collection
    await _show_old(request)
    await resource.services.admission.mutate(request)
    await resource.services.admission.validate(request)
    if doomed.action is DeletionAction.REMOVE:
        await remove(resource, ctx, entry)
        return Deleted(value, is_gone=True, uid=doomed.uid)
    marked = doomed.marked
    if marked is None:
        return Deleted(value, is_gone=False, uid=doomed.uid)
    if ctx.dry_run:
        is_gone = doomed.action is DeletionAction.MARK_AND_REMOVE
        return Deleted(marked.dry, is_gone=is_gone, uid=doomed.uid)
    put = PutKey(entry.key, marked.value, marked.terms, marked.indexes, entry.revision)
    (revision,) = await resource.services.store.write((put,))
    written = await resource.own_form(codec.fill(marked.value, revision))
    if doomed.action is DeletionAction.MARK:
        return Deleted(written, is_gone=False, uid=doomed.uid)
    await remove_marked(resource, ctx, entry.key)
    return Deleted(written, is_gone=True, uid=doomed.uid)


async def _edited(
    resource: Resource, ctx: RequestContext, change: ObjectChange, value: bytes
) -> Edited:
    assert change.edit is not None
    obj = await in_slices(resource.object_in_steps(value), ctx.cluster)
    codec.strip_cluster(obj)
    async with heavy_turn(ctx.cluster):
        made = change.edit(obj)
        return Edited(orjson.dumps(obj if made is None else made))


def _work(resource: Resource) -> LargeWork:
    work = resource.services.large
    assert work is not None  # no write is large without it
    return work


def _warn(ctx: RequestContext, warnings: Sequence[str]) -> None:
    for text in warnings:
        ctx.warn(text)
