"""What worker processes compute of large writes: bytes in, bytes out, no effects.

Runs in a worker process only; `large_work` is what calls it. Definitions are kept compiled from
one job to the next.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import orjson

from pykcp.admission.cel_checks import check_cel
from pykcp.admission.patches import decoded, patched_object
from pykcp.admission.plugins.kcp.api_resource_schema import schema_finding
from pykcp.admission.schema_checks import SCHEMA_CHECKS
from pykcp.apis.catalog import definition_of
from pykcp.apis.loader import shared_type
from pykcp.caching import BoundedCache
from pykcp.machinery.patch import jsonpatch
from pykcp.machinery.patch.idle import without_idle_times
from pykcp.machinery.protobuf.wire import ProtobufError
from pykcp.machinery.resources import API_RESOURCE_SCHEMAS
from pykcp.machinery.schema.crd import SchemaStore, definition_from_crd
from pykcp.machinery.status import StatusError
from pykcp.registry import codec
from pykcp.registry.catalog.make import make_custom, make_resource
from pykcp.registry.clock import Sources, Timestamps
from pykcp.registry.context import RequestContext
from pykcp.registry.conversion.review import ConversionFailed
from pykcp.registry.resource import Resource, Services
from pykcp.registry.stored import Value
from pykcp.registry.verbs.admitting import NoAdmission
from pykcp.registry.verbs.changes import ObjectChange, Recipe, WriteTarget, live_object
from pykcp.registry.verbs.create import check_unversioned, facts_of, judge_new, prepare_new
from pykcp.registry.verbs.delete import check_wanted, decide
from pykcp.registry.verbs.deletion import DeleteOptions, DeletionAction
from pykcp.registry.verbs.large_work import Assigned, Doomed, Made, Patched, ValidatedObject
from pykcp.registry.verbs.preconditions import check_missing
from pykcp.registry.verbs.update import is_removed, judge_changed, prepare_changed
from pykcp.server.large.refs import Asker, KindRef
from pykcp.server.media.answers import in_form
from pykcp.types import Object

_KEEP = 64


def check(ref: KindRef, asker: Asker, recipe: Recipe) -> None:
    """Raises what is wrong with a body."""
    recipe.bind(_resource(ref), asker.context().warn)


def new_object(ref: KindRef, asker: Asker, namespace: str, recipe: Recipe, missing: str) -> Made:
    resource, ctx = _resource(ref), asker.context()
    obj = recipe.bind(resource, ctx.warn)(None)
    if missing:
        target = WriteTarget(resource, ctx, namespace, missing)
        check_missing(target, obj, is_apply=recipe.is_apply)
    prepare_new(resource, ctx, namespace, obj, is_managed=recipe.is_apply)
    return _made(obj, ctx)


def judged_new(ref: KindRef, asker: Asker, text: bytes, assigned: Assigned) -> ValidatedObject:
    resource, ctx = _resource(ref), asker.context()
    obj: Object = orjson.loads(text)
    metadata = obj["metadata"]
    metadata["creationTimestamp"], metadata["uid"] = assigned.now, assigned.uid
    if assigned.name:
        metadata["name"] = assigned.name
    judge_new(resource, ctx, obj)
    finding = _finding(resource, ctx, obj, None)
    shown = orjson.dumps(obj)
    resource.rules.settle(obj)
    if not ctx.dry_run:
        check_unversioned(obj)
    return _judged(resource, ctx, obj, shown)._replace(finding=finding)


def changed_object(
    ref: KindRef, asker: Asker, name: str, recipe: Recipe, live: bytes, subresource: str
) -> Made:
    resource, ctx = _resource(ref), asker.context()
    make = recipe.bind(resource, ctx.warn)
    change = ObjectChange(make, is_apply=recipe.is_apply, is_patch=recipe.is_patch)
    target = WriteTarget(resource, ctx, "", name, subresource)
    old, is_older = live_object(resource, live), resource.is_older(live)
    new = prepare_changed(target, change, old, is_older=is_older)
    return _made(new, ctx)


def judged_change(
    ref: KindRef, asker: Asker, name: str, text: bytes, live: bytes, subresource: str
) -> ValidatedObject:
    resource, ctx = _resource(ref), asker.context()
    new: Object = orjson.loads(text)
    old = live_object(resource, live)
    judge_changed(WriteTarget(resource, ctx, "", name, subresource), new, old)
    finding = _finding(resource, ctx, new, old)
    shown = orjson.dumps(new)
    resource.rules.settle(new)
    if is_removed(resource, new):
        judged = _judged(resource, ctx, new, shown)
        return judged._replace(is_removed=True, finding=finding)
    new = without_idle_times(old, new)
    judged = _judged(resource, ctx, new, shown)
    is_unchanged = new == old and not resource.is_changed_by_reading(live)
    return judged._replace(is_unchanged=is_unchanged, finding=finding)


def _finding(resource: Resource, ctx: RequestContext, obj: Object, old: Object | None) -> str:
    """What the admission plug-in of schemas says: that takes as long as all the rest."""
    if (resource.group, resource.plural) != (API_RESOURCE_SCHEMAS.group, _SCHEMAS):
        return ""
    return schema_finding(obj, old, facts_of(resource, ctx))


_SCHEMAS = API_RESOURCE_SCHEMAS.resource


def deletion(ref: KindRef, asker: Asker, value: bytes, options: DeleteOptions) -> Doomed:
    """What a delete does to a stored object."""
    resource, ctx = _resource(ref), asker.context()
    obj = codec.decode_without_cluster(value)
    obj.pop("apiVersion", None)  # names the version that it is stored in
    check_wanted(resource, obj, options)
    uid = obj["metadata"]["uid"]
    action = decide(resource, obj, options, resource.services.sources.now())
    if action is not DeletionAction.MARK:
        return Doomed(action, uid, None)
    marked = ValidatedObject(
        b"",
        codec.encode(obj, ctx.cluster, _suffix_of(value)),
        resource.terms_of(obj, ctx.cluster),
        resource.index_entries(ctx.cluster, obj),
        [],
        resource.unversioned(obj, ctx.cluster) if ctx.dry_run else b"",
    )
    return Doomed(action, uid, marked)


def _suffix_of(value: bytes) -> bytes:
    """The suffix with the version that a value is stored in: a delete does not change that."""
    version = codec.stored_version(value)
    return codec.version_suffix(version) if version else b""


def patched(ref: KindRef, asker: Asker, text: bytes, patch: bytes) -> Patched:
    """An object after the patch of a webhook."""
    try:
        operations = jsonpatch.decode(patch, strict=False)[0]
    except StatusError as error:
        return Patched(b"", error.message)
    before: Object = orjson.loads(text)
    new = patched_object(_resource(ref), before, operations, asker.cluster)
    return Patched(b"" if new is None else orjson.dumps(new))


def read_values(ref: KindRef, values: Sequence[bytes]) -> list[bytes]:
    """Stored values as if they had been stored now, in the resource's version."""
    resource = _resource(ref)
    return [_read_value(resource, value) for value in values]


def read_patched(ref: KindRef, text: bytes, strict: bool) -> bytes:
    """An object as webhooks or policies patched it, decoded by its kind."""
    return orjson.dumps(decoded(_resource(ref), orjson.loads(text), strict=strict))


def reform(media_type: str, is_pretty: bool, body: bytes) -> bytes | None:
    """A JSON text in another media type, or with lines and indentation; None if it has no such form."""
    try:
        return in_form(media_type, is_pretty, orjson.loads(body))
    except ProtobufError:
        return None


def stored_form(ref: KindRef, text: bytes) -> bytes:
    """An object of the resource's version as it is stored."""
    return orjson.dumps(_resource(ref).unstored_form(orjson.loads(text)))


def _read_value(resource: Resource, value: bytes) -> bytes:
    obj = resource.object_of(value)
    cluster = obj["metadata"]["annotations"][codec.CLUSTER_ANNOTATION]
    return codec.fill(codec.encode(obj, cluster), codec.revision_of(value))


def _made(obj: Object, ctx: RequestContext) -> Made:
    metadata = obj["metadata"]
    name, prefix = metadata.get("name") or "", metadata.get("generateName") or ""
    return Made(orjson.dumps(obj), name, prefix, ctx.warnings)


_NOTHING = Value(b"", b"")


def _judged(resource: Resource, ctx: RequestContext, obj: Object, shown: bytes) -> ValidatedObject:
    try:
        stored = resource.unstored_form(obj)
    except ConversionFailed as error:
        return ValidatedObject(shown, _NOTHING, "", (), ctx.warnings, b"", failure=error)
    return ValidatedObject(
        shown,
        resource.encode(stored, ctx.cluster),
        resource.terms_of(stored, ctx.cluster),
        resource.index_entries(ctx.cluster, stored),
        ctx.warnings,
        resource.unversioned(stored, ctx.cluster) if ctx.dry_run else b"",
    )


_resources: BoundedCache[tuple[Any, ...], Resource] = BoundedCache("", _KEEP)


def _resource(ref: KindRef) -> Resource:
    """The resource as this process knows it: with rules and forms, but without a store."""
    content = hashlib.blake2b(ref.source, digest_size=16).digest() if ref.source else b""
    key = (*ref._replace(source=content),)
    found = _resources.get(key)
    if found is None:
        found = _resources.put(key, _make(ref))
    return found


def _make(ref: KindRef) -> Resource:
    if not ref.source:
        return make_resource(definition_of(ref.group, ref.plural), ref.version, _services())
    definition = definition_from_crd(orjson.loads(ref.source), SchemaStore(shared_type, keep=4))
    definition = replace(definition, stored_versions=ref.stored_versions)
    return make_custom(definition, ref.version, ref.since, _services())


@cache
def _services() -> Services:
    """Rules, clocks and checks; nothing here reads or writes the store."""
    nothing: Any = None
    return Services(
        nothing, nothing, NoAdmission(), Sources(Timestamps()), check_cel, SCHEMA_CHECKS
    )
