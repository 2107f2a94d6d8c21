"""The scale subresource of custom resources: one field of the object, seen as another kind."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from pykcp.apis.loader import library
from pykcp.machinery.labels import SelectorError, from_label_selector
from pykcp.machinery.patch import jsonpatch, mergepatch
from pykcp.machinery.patch.apply import FieldManager
from pykcp.machinery.patch.scale import ScaleOwners
from pykcp.machinery.status import BadRequest, InternalError, StatusError, UnsupportedMediaType
from pykcp.registry import codec
from pykcp.registry.catalog.native import decode_native
from pykcp.registry.verbs.admitting import ShownKind
from pykcp.registry.verbs.changes import ObjectChange, WriteTarget
from pykcp.registry.verbs.preconditions import check_name
from pykcp.registry.verbs.read import find
from pykcp.registry.verbs.update import update
from pykcp.server.call import Call
from pykcp.server.handlers.get import transformed
from pykcp.server.handlers.options import check_write_options
from pykcp.server.handlers.patch import CUSTOM, apply_of
from pykcp.server.large.changes import APPLY_PATCH, JSON_PATCH
from pykcp.server.media.answers import send_object
from pykcp.server.media.bodies import body_of, check_type, parse_as
from pykcp.server.media.negotiation import media_type_of
from pykcp.types import JSON, Object

_VERSION = "autoscaling/v1"
_UNSET = -(1 << 31)
"""Upstream's number of replicas where there is none, before the write puts one there."""


async def get(call: Call) -> None:
    resource = call.resource
    entry = find(resource, call.context, call.info.namespace, call.info.name)
    _send(call, resource.object_of(await resource.own_form(entry.value)))


def _send(call: Call, obj: Object) -> None:
    scale = scale_of(call, obj)
    if call.accepted.transform:
        from pykcp.apis import columns

        scale = transformed(call, scale, columns.scale())
    send_object(call, scale)


async def put(call: Call) -> None:
    check_write_options(call, "UpdateOptions")
    scale = _decoded(call)
    check_name(call.resource, call.info.namespace, call.info.name, scale)
    await _write(call, lambda _live: scale)


def _decoded(call: Call) -> Object:
    """The scale that was sent; upstream cannot say what is wrong with one that is none."""
    schema = library().kind("kube/autoscaling_v1", "Scale")
    try:
        value = check_type(parse_as(call, "Scale", _VERSION), "Scale", _VERSION, body_of(call))
        return decode_native(schema, "Scale", "v1", value, [], None)
    except BadRequest as error:
        if "cannot be handled as a Scale" not in error.message:
            raise
        raise BadRequest(
            'no kind is registered for the type v1.Scale in scheme "pkg/runtime/scheme.go:111"'
        ) from error


async def patch(call: Call) -> None:
    form = media_type_of(call.exchange.request.header("content-type") or "")
    if form not in CUSTOM:
        raise UnsupportedMediaType(CUSTOM)
    check_write_options(call, "PatchOptions", is_apply=form == APPLY_PATCH)
    if form == APPLY_PATCH:
        await _write(call, _apply(call), own=_own_as_shown)
        return
    body = body_of(call)

    def changed(live: Object) -> Object:
        shown = scale_of(call, live, missing=_UNSET)
        patched: JSON
        if form == JSON_PATCH:
            patched = jsonpatch.apply(codec.copy(shown), jsonpatch.decode(body, strict=True)[0])
        else:
            patched = mergepatch.apply(shown, mergepatch.decode(body, strict=True)[0])
        schema = library().kind("kube/autoscaling_v1", "Scale")
        return decode_native(schema, "Scale", "v1", patched, [], None)

    await _write(call, changed)


def _apply(call: Call) -> Callable[[Object], Object]:
    """What an applied configuration makes of the scale, with the managers that it then has.

    As in upstream, whose converter does not know scales of custom resources, an apply can share a
    number and conflict about it, but not change it; Kubernetes' own kinds can be scaled so.
    """
    apply = apply_of(call)
    document = apply.document()
    codec.strip_cluster(document)

    def applied(live: Object) -> Object:
        shown = scale_of(call, live, missing=0)
        _show_owners(call, shown, live)
        if "managedFields" not in shown["metadata"]:
            raise _inconvertible(
                "failed to create manager for existing fields: failed to convert live object (/;"
            )
        config = codec.copy(document)
        new = _fields().on_apply(shown, config, apply.manager, apply.now, force=apply.force)
        apply.refuse_repeated_keys()
        if new.get("spec") != shown["spec"] and not call.resource.definition.is_kubernetes:
            metadata = config.get("metadata") or {}
            place = f"{metadata.get('namespace') or ''}/{metadata.get('name') or ''}"
            raise _inconvertible(f"failed to convert new object ({place};")
        return new

    return applied


def _inconvertible(what: str) -> StatusError:
    return StatusError(
        f"{what} {_VERSION}, Kind=Scale) to proper version: "
        f"request to convert CR to an invalid group/version: {_VERSION}",
        reason="",
        details=False,
    )


@cache
def _fields() -> FieldManager:
    schema = library().kind("kube/autoscaling_v1", "Scale")
    return FieldManager(schema, _VERSION, "Scale", subresource="scale")


Own = Callable[[Call, Object, Object], None]
"""Sets the managers of an object that is changed through a scale."""


def _own_as_shown(call: Call, new: Object, scale: Object) -> None:
    owners = _owners(call, new["metadata"].get("managedFields") or [])
    entries = owners.for_parent(scale["metadata"].get("managedFields") or [])
    if entries:
        new["metadata"]["managedFields"] = entries


def _own_if_changed(call: Call, new: Object, scale: Object) -> None:
    replicas = _replicas(scale)
    if _find(new, _path(call, "specReplicasPath")) != replicas:
        _own(call, new, replicas)


def _replicas(scale: Object) -> int:
    replicas: int = (scale.get("spec") or {}).get("replicas", 0)
    return replicas


async def _write(
    call: Call, scale_from: Callable[[Object], Object], own: Own = _own_if_changed
) -> None:
    resource, info = call.resource, call.info
    path = _path(call, "specReplicasPath")
    view = _ScaleView(call)

    def make(live: Object | None) -> Object:
        assert live is not None  # scale never creates
        scale = view.scale = scale_from(live)
        new = codec.copy(live)
        metadata = scale.get("metadata") or {}
        for name in ("uid", "resourceVersion"):
            if metadata.get(name):
                new["metadata"][name] = metadata[name]
        own(call, new, scale)
        _set(new, path, _replicas(scale))
        return resource.rules.decode(new, [])

    change = ObjectChange(make, is_patch=True, is_managed=True, view=view)
    target = WriteTarget(resource, call.context, info.namespace, info.name)
    written = await update(target, change)
    _send(call, resource.object_of(written.value))


@cache
def _kind() -> ShownKind:
    return ShownKind("autoscaling", "v1", "Scale", library().kind("kube/autoscaling_v1", "Scale"))


class _ScaleView:
    """Admission is shown scales, as which clients see the object here."""

    subresource = "scale"

    def __init__(self, call: Call) -> None:
        self._call = call
        self.kind = _kind()
        self.scale: Object = {}
        """What was sent, or what a patch made of what was there."""

    def sent(self, obj: Object) -> Object:
        scale = {"kind": self.kind.kind, "apiVersion": _VERSION, **codec.copy(self.scale)}
        _show_owners(self._call, scale, obj)
        return scale

    def write(self, obj: Object, sent: Object) -> None:
        metadata = sent.get("metadata") or {}
        if metadata.get("resourceVersion"):
            obj["metadata"]["resourceVersion"] = metadata["resourceVersion"]
        replicas = _replicas(sent)
        path = _path(self._call, "specReplicasPath")
        if replicas == _UNSET:
            raise BadRequest(f'the spec replicas field ".{".".join(path)}" cannot be empty')
        _set(obj, path, replicas)

    def show(self, obj: Object, *, is_settled: bool) -> Object:
        scale = scale_of(self._call, obj, missing=0 if is_settled else _UNSET)
        if not is_settled:
            _show_owners(self._call, scale, obj)
        return scale


def _show_owners(call: Call, scale: Object, obj: Object) -> None:
    scale["metadata"].pop("managedFields", None)
    entries = obj["metadata"].get("managedFields")
    owned = _owners(call, entries).for_scale() if entries else []
    if owned:
        scale["metadata"]["managedFields"] = owned


def _owners(call: Call, entries: list[Object]) -> ScaleOwners:
    definition = call.resource.definition
    paths = {
        definition.api_version(v.name): _split((v.scale or {}).get("specReplicasPath")) or None
        for v in definition.all_versions
    }
    return ScaleOwners(entries, call.resource.api_version, paths)


def _own(call: Call, new: Object, replicas: int) -> None:
    """Record the manager of a scale: the only owner of the replicas, if they have one and are not zero.

    A scale of zero omits its replicas, so they have no owner there.
    """
    entries = new["metadata"].get("managedFields")
    if not entries:
        return
    owners = _owners(call, entries)
    scaler = {
        "manager": call.context.manager,
        "operation": "Update",
        "apiVersion": _VERSION,
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:spec": {"f:replicas": {}}},
        "subresource": "scale",
    }
    scalers = [scaler] if replicas and owners.for_scale() else []
    new["metadata"]["managedFields"] = owners.for_parent(scalers)


def scale_of(call: Call, obj: Object, missing: int | None = None) -> Object:
    """The scale that an object shows; `missing`: its replicas if the object does not say."""
    spec_path, status_path = _path(call, "specReplicasPath"), _path(call, "statusReplicasPath")
    replicas = _find(obj, spec_path)
    if replicas is None:
        replicas = missing
    if replicas is None:
        shown = "." + ".".join(spec_path)
        raise InternalError(f'the spec replicas field "{shown}" does not exist')
    metadata = {
        name: obj["metadata"][name]
        for name in ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
        if name in obj["metadata"]
    }
    status: Object = {"replicas": _find(obj, status_path) or 0}
    selector_path = _path(call, "labelSelectorPath")
    selector = _find(obj, selector_path) if selector_path else None
    if call.resource.definition.is_kubernetes:
        selector = _selector_text((obj.get("spec") or {}).get("selector"))
    if selector:
        status["selector"] = selector
    return {
        "kind": "Scale",
        "apiVersion": _VERSION,
        "metadata": metadata,
        "spec": {"replicas": replicas} if replicas else {},
        "status": status,
    }


def _selector_text(selector: Any) -> str:
    """The selector of one of Kubernetes' kinds as text; replication controllers have plain labels."""
    if not isinstance(selector, dict):
        return ""
    if not selector.keys() & {"matchLabels", "matchExpressions"}:
        selector = {"matchLabels": selector}
    try:
        return str(from_label_selector(selector))
    except SelectorError:
        return ""


def _path(call: Call, which: str) -> tuple[str, ...]:
    scale = call.resource.definition.version(call.resource.version).scale or {}
    return _split(scale.get(which))


def _split(path: str | None) -> tuple[str, ...]:
    return tuple(part for part in (path or "").split(".") if part)


def _find(obj: Object, path: tuple[str, ...]) -> Any:
    value: Any = obj
    for name in path:
        if not isinstance(value, dict) or name not in value:
            return None
        value = value[name]
    return value


def _set(obj: Object, path: tuple[str, ...], number: int) -> None:
    for name in path[:-1]:
        inner = obj.setdefault(name, {})
        if not isinstance(inner, dict):
            raise BadRequest(f"{name} is not an object")
        obj = inner
    obj[path[-1]] = number
