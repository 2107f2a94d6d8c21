"""Delete and delete-collection."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from pykcp.machinery.metadata import metadata_of
from pykcp.machinery.schema.growth import Outgrown, bounded
from pykcp.machinery.status import OPTIMISTIC_LOCK, Conflict, NotFound
from pykcp.registry import codec
from pykcp.registry.context import RequestContext
from pykcp.registry.errors import translate
from pykcp.registry.resource import Resource
from pykcp.registry.verbs.admitting import AdmissionRequest
from pykcp.registry.verbs.changes import live_object
from pykcp.registry.verbs.deletion import (
    DeleteOptions,
    DeletionAction,
    check_early_preconditions,
    check_namespace_preconditions,
    check_preconditions,
    plan,
    plan_definition,
    plan_namespace,
    plan_pod,
)
from pykcp.registry.verbs.read import Listing, ListOptions, find, list_objects
from pykcp.storage.errors import RevisionMismatch, StoreError
from pykcp.storage.interface import Entry
from pykcp.storage.operations import DeleteKey, PutKey
from pykcp.types import Object

_TRIES = 64
_NAMESPACES = ("", "namespaces")
_PODS = ("", "pods")
_DEFINITIONS = ("apiextensions.k8s.io", "customresourcedefinitions")


class Deleted(NamedTuple):
    value: bytes
    """The object's last state, or its state with the deletion mark."""
    is_gone: bool
    uid: str


async def delete(
    resource: Resource,
    ctx: RequestContext,
    namespace: str,
    name: str,
    options: DeleteOptions,
    *,
    is_collective: bool = False,
    collection: Sequence[bytes] | None = None,
) -> Deleted:
    """`is_collective`: the request is for a collection, so admission gets no name."""
    for _ in range(_TRIES):
        entry = find(resource, ctx, namespace, name)
        asked = "" if is_collective else name
        try:
            return await _delete_once(resource, ctx, namespace, asked, options, entry, collection)
        except RevisionMismatch:
            continue
        except StoreError as error:
            raise translate(error) from error
    raise Conflict.resource(resource.group, resource.plural, name, OPTIMISTIC_LOCK)


async def _delete_once(
    resource: Resource,
    ctx: RequestContext,
    namespace: str,
    name: str,
    options: DeleteOptions,
    entry: Entry,
    collection: Sequence[bytes] | None,
) -> Deleted:
    from pykcp.registry.verbs.large import delete_large

    if resource.is_large(len(entry.value)):
        return await delete_large(resource, ctx, namespace, name, options, entry, collection)
    value = await resource.own_form(entry.value)
    obj = codec.decode_without_cluster(value)
    check_wanted(resource, obj, options)
    try:
        old = _shown_old(resource, value, obj)
    except Outgrown:  # by defaults of the schema of today
        return await delete_large(resource, ctx, namespace, name, options, entry, collection)
    request = AdmissionRequest(ctx, resource, "DELETE", namespace, name, None, old)
    request.deletion, request.collection = options, collection
    await resource.services.admission.mutate(request)
    await resource.services.admission.validate(request)
    uid = obj["metadata"]["uid"]
    action = decide(resource, obj, options, resource.services.sources.now())
    if action is DeletionAction.REMOVE:
        await remove(resource, ctx, entry)
        return Deleted(value, is_gone=True, uid=uid)
    if action is DeletionAction.NOTHING:
        return Deleted(value, is_gone=False, uid=uid)
    marked = await _mark(resource, ctx, obj, entry)
    if action is DeletionAction.MARK:
        return Deleted(marked, is_gone=False, uid=uid)
    await remove_marked(resource, ctx, entry.key)
    return Deleted(marked, is_gone=True, uid=uid)


def _shown_old(resource: Resource, value: bytes, obj: Object) -> Object:
    """The object as admission sees it; `obj` is what is stored."""
    if resource.conversion is None and not resource.is_older(value):
        return obj
    with bounded(resource.has_workers):
        return live_object(resource, value)


def check_wanted(resource: Resource, obj: Object, options: DeleteOptions) -> None:
    """Conflict if the object is not the one that is to be deleted."""
    if (resource.group, resource.plural) == _NAMESPACES:
        check_namespace_preconditions(obj, options)
    elif (resource.group, resource.plural) == _DEFINITIONS:
        check_early_preconditions(obj, options, *_DEFINITIONS)
    else:
        check_preconditions(obj, options, resource.error_group, resource.kind)


def decide(resource: Resource, obj: Object, options: DeleteOptions, now: str) -> DeletionAction:
    """What the delete does; the object is changed in place if it is only marked."""
    if resource.ignores_finalizers:
        return DeletionAction.REMOVE
    if (resource.group, resource.plural) == _NAMESPACES:
        return plan_namespace(obj, options, now)
    if (resource.group, resource.plural) == _DEFINITIONS:
        return plan_definition(obj, options, now)
    if (resource.group, resource.plural) == _PODS and resource.definition.is_kubernetes:
        return plan_pod(obj, options, now)
    return plan(obj, options, now=now, collects_garbage=resource.collects_garbage)


async def remove(resource: Resource, ctx: RequestContext, entry: Entry) -> None:
    if not ctx.dry_run:
        last = codec.reopen(entry.value)
        await resource.services.store.write((DeleteKey(entry.key, last, entry.revision),))


async def remove_marked(resource: Resource, ctx: RequestContext, key: str) -> None:
    """Take an object out that has just been marked. Raises RevisionMismatch."""
    entry = resource.services.store.get(key)
    if entry is not None:
        await remove(resource, ctx, entry)


async def _mark(resource: Resource, ctx: RequestContext, obj: Object, entry: Entry) -> bytes:
    if ctx.dry_run:
        return resource.unversioned(obj, ctx.cluster)
    stored = await resource.webhook.to_storage(obj) if resource.webhook is not None else obj
    value = resource.encode(stored, ctx.cluster)
    put = PutKey(
        entry.key,
        value,
        resource.terms_of(stored, ctx.cluster),
        resource.index_entries(ctx.cluster, stored),
        entry.revision,
    )
    (revision,) = await resource.services.store.write((put,))
    return await resource.own_form(codec.fill(value, revision))


async def delete_collection(
    resource: Resource,
    ctx: RequestContext,
    namespace: str,
    options: DeleteOptions,
    listing: ListOptions,
) -> Listing:
    """Delete everything that a list finds; returns what it found.

    One is deleted first: it is with the first that admission is shown all of them. The others
    go some at a time, which share commits.
    """
    found = await list_objects(resource, ctx, namespace, listing)
    values = found.values

    async def go(value: bytes, collection: Sequence[bytes] | None = None) -> bool:
        metadata = metadata_of(value)  # some of them are large, and many begin at once
        place, name = metadata.namespace, metadata.name
        try:
            await delete(
                resource, ctx, place, name, options, is_collective=True, collection=collection
            )
        except NotFound:
            return False  # it was deleted concurrently, which is the desired result
        return True

    done = 0
    while done < len(values):
        done += 1
        if await go(values[done - 1], values):
            break
    for start in range(done, len(values), _AT_A_TIME):
        some = map(go, values[start : start + _AT_A_TIME])
        for outcome in await asyncio.gather(*some, return_exceptions=True):
            if isinstance(outcome, BaseException):
                raise outcome
    return found


_AT_A_TIME = 32
