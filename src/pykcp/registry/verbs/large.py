"""Writes that are too large for the event loop: what they compute is computed elsewhere.

A write is large if its body or the live object is, or if the schema of its kind is. Then the
two long steps of a write, making the new object (decode, patch, apply, managed fields) and
judging it (validation, conversion, encoding), are done by `LargeWork`, which is given bytes and
gives bytes back. Admission and the commit stay here, in the same order as for small writes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol

import orjson

from pykcp.aio.turns import heavy_turn
from pykcp.apis.kube.validation.custom import WHOLE
from pykcp.machinery.status import AlreadyExists
from pykcp.registry import codec
from pykcp.registry.context import RequestContext
from pykcp.registry.resource import Resource
from pykcp.registry.verbs.admitting import AdmissionRequest
from pykcp.registry.verbs.create import (
    GENERATE_TRIES,
    already_exists,
    check_terminating,
    generated_name,
    write_new,
)
from pykcp.registry.verbs.delete import Deleted, remove
from pykcp.registry.verbs.deletion import DeleteOptions, DeletionAction
from pykcp.registry.verbs.object_parts import ObjectParts
from pykcp.registry.verbs.update import Make, ObjectChange, Recipe, live_object
from pykcp.storage.interface import Entry, Value
from pykcp.storage.operations import DeleteKey, PutKey
from pykcp.types import Object


class Made(NamedTuple):
    """A new object, before admission."""

    text: bytes
    name: str
    generate_name: str
    warnings: list[str]


class Assigned(NamedTuple):
    """What the server gives a new object."""

    name: str
    uid: str
    now: str


class ValidatedObject(NamedTuple):
    """An object that passed validation, as it is shown to admission and as it is stored."""

    shown: bytes
    value: Value
    terms: str
    indexes: tuple[str, ...]
    warnings: list[str]
    dry: bytes
    """What a dry run answers with."""
    failure: Exception | None = None
    """Why it cannot be stored: raised when admission has nothing against it."""
    finding: str = ""
    """What the kind's own admission plug-in has to say against it, if that was looked for."""
    is_removed: bool = False
    """The update took the last finalizer of a deleted object away."""
    is_unchanged: bool = False


class Doomed(NamedTuple):
    """What a delete does to an object."""

    action: DeletionAction
    uid: str
    marked: ValidatedObject | None
    """The object with its deletion mark, if that is what it does."""


class Patched(NamedTuple):
    """What became of an object by the patch of a webhook."""

    text: bytes
    """Empty if it did not change."""
    problem: str = ""
    """Why the patch cannot be read."""


class LargeWork(Protocol):
    """Does the long steps of a write without holding the event loop."""

    async def check(self, resource: Resource, ctx: RequestContext, recipe: Recipe) -> None:
        """Raises what is wrong with the body."""

    async def new_object(
        self,
        resource: Resource,
        ctx: RequestContext,
        namespace: str,
        recipe: Recipe,
        missing: str,
    ) -> Made:
        """`missing`: the name under which an update found nothing; empty for a create."""

    async def judged_new(
        self, resource: Resource, ctx: RequestContext, text: bytes, assigned: Assigned
    ) -> ValidatedObject: ...

    async def changed_object(
        self,
        resource: Resource,
        ctx: RequestContext,
        name: str,
        recipe: Recipe,
        live: bytes,
        subresource: str,
    ) -> Made: ...

    async def judged_change(
        self,
        resource: Resource,
        ctx: RequestContext,
        name: str,
        text: bytes,
        live: bytes,
        subresource: str,
    ) -> ValidatedObject: ...

    async def deletion(
        self, resource: Resource, ctx: RequestContext, value: bytes, options: DeleteOptions
    ) -> Doomed:
        """Conflict if the object is not the one that is to be deleted."""

    async def patched(
        self, resource: Resource, ctx: RequestContext, text: bytes, patch: bytes
    ) -> Patched:
        """An object after a JSON patch that admission applies to it."""

    async def read_values(self, resource: Resource, values: Sequence[bytes]) -> list[bytes]:
        """Stored values as if they had been stored now, in the resource's version."""

    async def read_patched(
        self, resource: Resource, tenant: str, text: bytes, strict: bool
    ) -> bytes:
        """An object as webhooks or policies patched it, decoded by its kind."""

    async def compute(self, tenant: str, function: str, *args: Any) -> Any:
        """The result of `module:function` called with these arguments by a worker process."""

    async def reform(self, tenant: str, media_type: str, is_pretty: bool, body: bytes) -> bytes:
        """A JSON text in another media type, or with lines and indentation."""

    async def stored_form(self, resource: Resource, text: bytes) -> bytes:
        """An object of the resource's version as it is stored."""


class LargeRequest(AdmissionRequest):
    """A write whose objects are decoded only for plug-ins that look at them."""

    __slots__ = ("_obj", "_old", "_old_value", "_parts", "_text", "finding")

    def __init__(
        self,
        context: RequestContext,
        resource: Resource,
        operation: str,
        namespace: str,
        made: Made,
        old: bytes | None = None,
        subresource: str = "",
    ) -> None:
        self.finding = ""
        """What was found by whoever judged the object; for the plug-in that asks for it."""
        self._text = made.text
        self._parts: ObjectParts | None = None
        """The object while only its metadata was looked at."""
        self._old_value = old
        self._obj: Object | None = None
        self._old: Object | None = None
        super().__init__(context, resource, operation, namespace, made.name, None, None)
        self.subresource = subresource

    @property
    def obj(self) -> Object | None:
        if self._obj is None:
            self._obj = orjson.loads(self.text())
            self._parts = None
        return self._obj

    @obj.setter
    def obj(self, value: Object | None) -> None:
        self._obj = value

    @property
    def old(self) -> Object | None:
        if self._old is None and self._old_value is not None:
            self._old = live_object(self.resource, self._old_value)
        return self._old

    @old.setter
    def old(self, value: Object | None) -> None:
        self._old = value

    @property
    def has_object(self) -> bool:
        return self._obj is not None or self._text != _NOTHING

    @property
    def metadata(self) -> Object:
        if self._obj is not None or not self.has_object:
            return super().metadata
        return self._split().metadata

    def _split(self) -> ObjectParts:
        if self._parts is None:
            self._parts = ObjectParts(self._text)
        return self._parts

    @property
    def old_metadata(self) -> Object:
        if self._old is not None or self._old_value is None:
            return super().old_metadata
        return ObjectParts(self._old_value).metadata

    def managed_fields(self) -> object:
        if self._obj is not None or not self.has_object:
            return super().managed_fields()
        return self._split().managed_fields

    def may_mention(self, word: str) -> bool:
        return self.is_decoded or word.encode() in self._text

    @property
    def is_decoded(self) -> bool:
        """Whether a plug-in looked at the object, and may have changed it."""
        return self._obj is not None or self._parts is not None

    def text(self) -> bytes:
        """The object as plug-ins left it."""
        if self._obj is not None:
            return orjson.dumps(self._obj)
        return self._text if self._parts is None else self._parts.text()

    def shown_texts(self, cluster: str = "") -> tuple[bytes, bytes] | None:
        """The new and the old object for others to read, with type and logical cluster.

        None if there is no way to tell without decoding them.
        """
        old, resource = self._old_value, self.resource
        if self._obj is not None or self._old is not None:
            return None
        if old is not None and (resource.conversion is not None or resource.is_older(old)):
            return None
        return (
            _shown_text(resource, self._split(), cluster) if self.has_object else _NOTHING,
            _NOTHING
            if old is None
            else _shown_text(resource, ObjectParts(resource.served(old)), cluster),
        )

    def replace(self, text: bytes) -> None:
        """From here on, the object is this one."""
        self._text, self._obj, self._parts = text, None, None

    def show(self, judged: ValidatedObject) -> None:
        """From here on, the object is the one that passed validation."""
        self.replace(judged.shown)
        self.finding = judged.finding


_NOTHING = b"null"


def _shown_text(resource: Resource, parts: ObjectParts, cluster: str) -> bytes:
    annotations = dict(parts.metadata.get("annotations") or {})
    annotations.pop(codec.CLUSTER_ANNOTATION, None)
    if cluster:
        annotations[codec.CLUSTER_ANNOTATION] = cluster
    return parts.text(annotations, kind=resource.kind, apiVersion=resource.api_version)


def deletion_request(
    ctx: RequestContext, resource: Resource, namespace: str, name: str, value: bytes
) -> LargeRequest:
    """A delete as admission sees it, with an object that is decoded only if it is looked at."""
    nothing = Made(_NOTHING, name, "", [])
    return LargeRequest(ctx, resource, "DELETE", namespace, nothing, value)


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
    await resource.services.admission.validate(request)
    if judged.failure is not None:
        raise judged.failure
    key = resource.key(ctx.cluster, request.namespace, name)
    if ctx.dry_run:
        if resource.services.store.get(key) is not None:
            raise already_exists(resource, key, name)
        return judged.dry
    put = PutKey(key, judged.value, judged.terms, judged.indexes, 0)
    return await write_new(request, name, put)


async def update_large(
    resource: Resource,
    ctx: RequestContext,
    namespace: str,
    name: str,
    change: ObjectChange,
    subresource: str,
    entry: Entry,
) -> bytes:
    """One try of an update; raises Mismatch if somebody was faster."""
    work, admission = _work(resource), resource.services.admission
    recipe: Recipe = change.recipe or await _edited(resource, ctx, change, entry.value)
    shown = "" if subresource == WHOLE else subresource
    made = await work.changed_object(resource, ctx, name, recipe, entry.value, shown)
    _warn(ctx, made.warnings)
    old = await resource.own_form(entry.value)
    request = LargeRequest(ctx, resource, "UPDATE", namespace, made, old, shown)
    request.name = name
    await admission.mutate(request)
    judged = await work.judged_change(resource, ctx, name, request.text(), entry.value, subresource)
    _warn(ctx, judged.warnings)
    request.show(judged)
    await admission.validate(request)
    if judged.failure is not None:
        raise judged.failure
    return await _commit(resource, ctx, judged, entry)


async def _commit(
    resource: Resource, ctx: RequestContext, judged: ValidatedObject, entry: Entry
) -> bytes:
    operation: PutKey | DeleteKey
    if judged.is_removed:
        operation = DeleteKey(entry.key, judged.value, entry.revision)
    elif judged.is_unchanged and not entry.is_stale and not resource.is_outdated(entry.value):
        return await resource.own_form(entry.value)
    else:
        operation = PutKey(entry.key, judged.value, judged.terms, judged.indexes, entry.revision)
    if ctx.dry_run:
        return judged.dry
    (revision,) = await resource.services.store.write((operation,))
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
    """One try of a delete; raises Mismatch if somebody was faster."""
    doomed = await _work(resource).deletion(resource, ctx, entry.value, options)
    value = await resource.own_form(entry.value)
    request = deletion_request(ctx, resource, namespace, name, value)
    request.deletion, request.collection = options, collection
    await resource.services.admission.mutate(request)
    await resource.services.admission.validate(request)
    if doomed.action is DeletionAction.REMOVE:
        await remove(resource, ctx, entry)
        return Deleted(value, is_gone=True, uid=doomed.uid)
    marked = doomed.marked
    if marked is None:
        return Deleted(value, is_gone=False, uid=doomed.uid)
    if ctx.dry_run:
        return Deleted(marked.dry, is_gone=False, uid=doomed.uid)
    put = PutKey(entry.key, marked.value, marked.terms, marked.indexes, entry.revision)
    (revision,) = await resource.services.store.write((put,))
    written = await resource.own_form(codec.fill(marked.value, revision))
    return Deleted(written, is_gone=False, uid=doomed.uid)


async def _edited(
    resource: Resource, ctx: RequestContext, change: ObjectChange, value: bytes
) -> Edited:
    assert change.edit is not None
    async with heavy_turn(ctx.cluster):
        obj = live_object(resource, value)
        made = change.edit(obj)
        return Edited(orjson.dumps(obj if made is None else made))


def _work(resource: Resource) -> LargeWork:
    work = resource.services.large
    assert work is not None  # no write is large without it
    return work


def _warn(ctx: RequestContext, warnings: Sequence[str]) -> None:
    for text in warnings:
        ctx.warn(text)
