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
from pykcp.admission.plugins.kcp.api_export import export_finding
from pykcp.admission.plugins.kcp.api_resource_schema import schema_finding
from pykcp.admission.plugins.kcp.binding_parts import binding_finding
from pykcp.admission.policies.jobs import Seen, mutate
from pykcp.admission.schema_checks import SCHEMA_CHECKS
from pykcp.apis.catalog import definition_of
from pykcp.apis.loader import shared_type
from pykcp.caching import BoundedCache
from pykcp.machinery.patch import jsonpatch
from pykcp.machinery.patch.idle import without_idle_times
from pykcp.machinery.protobuf.wire import ProtobufError
from pykcp.machinery.resources import API_BINDINGS, API_EXPORTS, API_RESOURCE_SCHEMAS
from pykcp.machinery.schema.crd import SchemaStore, definition_from_crd
from pykcp.machinery.status import StatusError
from pykcp.registry import codec
from pykcp.registry.catalog.custom import as_kubernetes
from pykcp.registry.catalog.make import make_custom, make_resource
from pykcp.registry.clock import Sources, Timestamps
from pykcp.registry.context import RequestContext
from pykcp.registry.conversion.review import ConversionFailed
from pykcp.registry.resource import Resource, Services
from pykcp.registry.stored import Value
from pykcp.registry.verbs.admitting import NoAdmission
from pykcp.registry.verbs.changes import (
    ObjectChange,
    Recipe,
    SubresourceView,
    ViewRecipe,
    WriteTarget,
    live_object,
)
from pykcp.registry.verbs.create import (
    check_unversioned,
    dedup_owners,
    facts_of,
    judge_new,
    prepare_new,
)
from pykcp.registry.verbs.delete import check_wanted, decide
from pykcp.registry.verbs.deletion import DeleteOptions, DeletionAction
from pykcp.registry.verbs.large_work import (
    Assigned,
    Doomed,
    Made,
    Mutated,
    ObjectShape,
    Patched,
    ValidatedObject,
    ValidatedView,
    ViewedObject,
)
from pykcp.registry.verbs.preconditions import check_missing, check_versions
from pykcp.registry.verbs.update import is_removed, judge_changed
from pykcp.registry.verbs.update import new_object as changed
from pykcp.server.large.conversions import ConversionAnswers, ReplayedCalls, finished
from pykcp.server.large.refs import Asker, KindRef
from pykcp.server.large.scales import scale_of
from pykcp.server.media.answers import in_form
from pykcp.server.media.bodies import Sent, read_sent
from pykcp.server.media.pieces import piece
from pykcp.types import Object

_KEEP = 64
_webhook = ReplayedCalls()
"""Conversion webhooks, as far as they have answered."""


def with_answers(job: str, given: ConversionAnswers, *args: Any) -> Any:
    """A job of a kind with a conversion webhook. Raises ConversionAsked."""
    with _webhook.knowing(given):
        return globals()[job](*args)


def check(ref: KindRef, asker: Asker, recipe: Recipe) -> None:
    """Raises what is wrong with a body."""
    recipe.bind(_resource(ref), asker.context().warn)


def read_body(ref: KindRef, sent: Sent) -> tuple[bytes, list[str]]:
    """An object that is answered, not stored, and the warnings about it."""
    warnings: list[str] = []
    return orjson.dumps(read_sent(sent, _resource(ref), warnings.append)), warnings


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
    dedup_owners(ctx, metadata, is_admitted=True)
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
    new = finished(changed(target, change, old, is_older=is_older))
    return _made(new, ctx)


def judged_change(
    ref: KindRef, asker: Asker, name: str, text: bytes, live: bytes, subresource: str
) -> ValidatedObject:
    resource, ctx = _resource(ref), asker.context()
    new: Object = orjson.loads(text)
    old = live_object(resource, live)
    dedup_owners(ctx, new["metadata"], is_admitted=True)
    judge_changed(WriteTarget(resource, ctx, "", name, subresource), new, old)
    finding = _finding(resource, ctx, new, old)
    judged = _settled(resource, ctx, new, old, live, orjson.dumps(new))
    return judged._replace(finding=finding)


def _settled(
    resource: Resource, ctx: RequestContext, new: Object, old: Object, live: bytes, shown: bytes
) -> ValidatedObject:
    """A changed object that passed validation."""
    resource.rules.settle(new)
    if is_removed(resource, new):
        return _judged(resource, ctx, new, shown)._replace(is_removed=True)
    new = without_idle_times(old, new)
    is_unchanged = new == old and not resource.is_changed_by_reading(live)
    return _judged(resource, ctx, new, shown)._replace(is_unchanged=is_unchanged)


def viewed_change(
    ref: KindRef, asker: Asker, name: str, recipe: ViewRecipe, live: bytes
) -> ViewedObject:
    """A change through a subresource that shows the object as one of another kind."""
    resource, ctx = _resource(ref), asker.context()
    view = recipe.bind(resource, ctx.manager, ctx.warn)
    target, change = _through(view, resource, ctx, name)
    old, is_older = live_object(resource, live), resource.is_older(live)
    new = finished(changed(target, change, old, is_older=is_older))
    shown = view.show(old, is_settled=False)
    return ViewedObject(orjson.dumps(new), view.sent(new), shown, ctx.warnings)


def judged_view(
    ref: KindRef, asker: Asker, name: str, recipe: ViewRecipe, made: ViewedObject, live: bytes
) -> ValidatedView:
    """The change after admission, which has left its mark on what was sent."""
    resource, ctx = _resource(ref), asker.context()
    view = recipe.bind(resource, ctx.manager, ctx.warn)
    target, change = _through(view, resource, ctx, name)
    new: Object = orjson.loads(made.text)
    old = live_object(resource, live)
    view.write(new, made.sent)
    check_versions(target, change, new, old)
    judge_changed(target, new, old)
    shown_new, shown_old = (view.show(each, is_settled=True) for each in (new, old))
    validated = _settled(resource, ctx, new, old, live, b"")
    return ValidatedView(validated, shown_new, shown_old)


def _through(
    view: SubresourceView, resource: Resource, ctx: RequestContext, name: str
) -> tuple[WriteTarget, ObjectChange]:
    change = ObjectChange(view.make, is_patch=True, is_managed=True, view=view)
    return WriteTarget(resource, ctx, "", name), change


def shown_scale(ref: KindRef, asker: Asker, value: bytes) -> Object:
    """The scale of an object that is in the resource's version."""
    resource = _resource(ref)
    return scale_of(resource, resource.object_of(value))


def _finding(resource: Resource, ctx: RequestContext, obj: Object, old: Object | None) -> str:
    """What the kind's own admission plug-in says, if that takes as long as all the rest."""
    if resource.group != API_RESOURCE_SCHEMAS.group:
        return ""
    if resource.plural == API_BINDINGS.resource:
        return binding_finding(obj, old, resource.version).text()
    if resource.plural == API_EXPORTS.resource:
        return export_finding(obj, resource.version).text()
    if resource.plural == API_RESOURCE_SCHEMAS.resource:
        return schema_finding(obj, old, facts_of(resource, ctx))
    return ""


def deletion(ref: KindRef, asker: Asker, value: bytes, options: DeleteOptions) -> Doomed:
    """What a delete does to a stored object."""
    resource, ctx = _resource(ref), asker.context()
    obj = codec.decode_without_cluster(value)
    obj.pop("apiVersion", None)  # names the version that it is stored in
    check_wanted(resource, obj, options)
    uid = obj["metadata"]["uid"]
    action = decide(resource, obj, options, resource.services.sources.now())
    if action in (DeletionAction.REMOVE, DeletionAction.NOTHING):
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


def mutated(ref: KindRef, policy: bytes, seen: Seen) -> Mutated:
    """An object after the mutations of a policy."""
    return mutate(_resource(ref), policy, seen)


def read_values(ref: KindRef, values: Sequence[bytes]) -> list[bytes]:
    """Stored values as if they had been stored now, in the resource's version."""
    resource = _resource(ref)
    if resource.webhook is not None:
        values = finished(resource.webhook.from_storage(values))
    return [_read_value(resource, value) for value in values]


def shown(ref: KindRef, shape: ObjectShape, values: Sequence[bytes]) -> list[bytes]:
    """What clients see of stored values, some of which must be decoded for that."""
    resource = _resource(ref)
    if shape.is_plain:
        resource = resource.plain()
    return [piece(resource, shape, value) for value in values]


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
    return orjson.dumps(finished(_resource(ref).stored_form(orjson.loads(text))))


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
        stored = finished(resource.stored_form(obj))
    except ConversionFailed as error:
        return ValidatedObject(shown, _NOTHING, "", (), ctx.warnings, b"", failure=error)
    return ValidatedObject(
        shown,
        resource.encode(stored, ctx.cluster),
        resource.terms_of(stored, ctx.cluster),
        resource.index_entries(ctx.cluster, stored),
        ctx.warnings,
        resource.unversioned(resource.unstored_form(obj), ctx.cluster) if ctx.dry_run else b"",
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
    schemas = SchemaStore(shared_type, keep=4)
    definition = as_kubernetes(definition_from_crd(orjson.loads(ref.source), schemas))
    definition = replace(definition, stored_versions=ref.stored_versions)
    return make_custom(definition, ref.version, ref.since, _services())


@cache
def _services() -> Services:
    """Rules, clocks and checks; nothing here reads or writes the store."""
    nothing: Any = None
    sources = Sources(Timestamps(), uid=_webhook.uid)
    return Services(
        nothing, nothing, NoAdmission(), sources, check_cel, SCHEMA_CHECKS, call_converter=_webhook
    )
