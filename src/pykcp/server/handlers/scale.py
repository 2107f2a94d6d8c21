"""The scale subresource of custom resources: one field of the object, seen as another kind."""

from __future__ import annotations

from typing import Any

from pykcp.apis.loader import library
from pykcp.machinery.patch import jsonpatch, mergepatch
from pykcp.machinery.status import BadRequest, InternalError, StatusError, UnsupportedMediaType
from pykcp.registry import codec
from pykcp.registry.native import decode_native
from pykcp.registry.read import find
from pykcp.registry.update import Change, check_name, update
from pykcp.server.answers import send_object
from pykcp.server.bodies import body_of, check_type, parse_as
from pykcp.server.call import Call
from pykcp.server.handlers.options import check_write_options
from pykcp.server.handlers.patch import APPLY_PATCH, CUSTOM, JSON_PATCH
from pykcp.server.negotiation import media_type_of
from pykcp.types import JSON, Object

_VERSION = "autoscaling/v1"


async def get(call: Call) -> None:
    resource = call.resource
    entry = find(resource, call.context, call.info.namespace, call.info.name)
    send_object(call, scale_of(call, resource.object_of(await resource.own_form(entry.value))))


async def put(call: Call) -> None:
    check_write_options(call, "UpdateOptions")
    schema = library().kind("kube/autoscaling_v1", "Scale")
    value = check_type(parse_as(call, "Scale", schema), "Scale", _VERSION, body_of(call))
    scale = decode_native(schema, "Scale", "v1", value, [], None)
    check_name(call.resource, call.info.namespace, call.info.name, scale)
    await _write(call, lambda _live: scale)


async def patch(call: Call) -> None:
    form = media_type_of(call.exchange.request.header("content-type") or "")
    if form not in CUSTOM:
        raise UnsupportedMediaType(CUSTOM)
    check_write_options(call, "PatchOptions", is_apply=form == APPLY_PATCH)
    if form == APPLY_PATCH:
        raise StatusError(
            "failed to create manager for existing fields: scale cannot be applied to custom resources",
            reason="",
            details=False,
        )
    body = body_of(call)

    def changed(live: Object) -> Object:
        shown = scale_of(call, live)
        patched: JSON
        if form == JSON_PATCH:
            patched = jsonpatch.apply(codec.copy(shown), jsonpatch.decode(body, strict=True)[0])
        else:
            patched = mergepatch.apply(shown, mergepatch.decode(body, strict=True)[0])
        schema = library().kind("kube/autoscaling_v1", "Scale")
        return decode_native(schema, "Scale", "v1", patched, [], None)

    await _write(call, changed)


async def _write(call: Call, scale_from: Any) -> None:
    resource, info = call.resource, call.info
    path = _path(call, "specReplicasPath")

    def make(live: Object | None) -> Object:
        assert live is not None  # scale never creates
        scale = scale_from(live)
        new = codec.copy(live)
        metadata = scale.get("metadata") or {}
        for name in ("uid", "resourceVersion"):
            if metadata.get(name):
                new["metadata"][name] = metadata[name]
        _set(new, path, (scale.get("spec") or {}).get("replicas", 0))
        return resource.rules.decode(new, [])

    written = await update(
        resource, call.context, info.namespace, info.name, Change(make, is_patch=True), ""
    )
    send_object(call, scale_of(call, resource.object_of(written.value)))


def scale_of(call: Call, obj: Object) -> Object:
    """The scale that an object shows."""
    spec_path, status_path = _path(call, "specReplicasPath"), _path(call, "statusReplicasPath")
    replicas = _find(obj, spec_path)
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
    if selector:
        status["selector"] = selector
    return {
        "kind": "Scale",
        "apiVersion": _VERSION,
        "metadata": metadata,
        "spec": {"replicas": replicas} if replicas else {},
        "status": status,
    }


def _path(call: Call, which: str) -> tuple[str, ...]:
    scale = call.resource.definition.version(call.resource.version).scale or {}
    text: str = scale.get(which) or ""
    return tuple(part for part in text.split(".") if part)


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
