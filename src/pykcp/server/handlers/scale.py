"""The scale subresource of custom resources."""

from __future__ import annotations

from pykcp.apis.loader import library
from pykcp.machinery.status import BadRequest, UnsupportedMediaType
from pykcp.registry.catalog.native import decode_native
from pykcp.registry.verbs.changes import ObjectChange, WriteTarget
from pykcp.registry.verbs.object_parts import ObjectParts
from pykcp.registry.verbs.preconditions import check_name
from pykcp.registry.verbs.read import find
from pykcp.registry.verbs.update import update
from pykcp.server.call import Call
from pykcp.server.handlers.get import transformed
from pykcp.server.handlers.options import check_write_options
from pykcp.server.handlers.patch import CUSTOM, apply_of
from pykcp.server.large.changes import APPLY_PATCH
from pykcp.server.large.scales import (
    VERSION,
    AppliedScale,
    PatchedScale,
    ReplacedScale,
    ScaleRecipe,
    Scaling,
    scale_of,
)
from pykcp.server.media.answers import send_object
from pykcp.server.media.bodies import (
    Sent,
    body_of,
    check_small,
    check_type,
    parse_as,
    raise_or_warn,
)
from pykcp.server.media.negotiation import media_type_of
from pykcp.types import Object


async def get(call: Call) -> None:
    resource = call.resource
    entry = find(resource, call.context, call.info.namespace, call.info.name)
    value = await resource.own_form(entry.value)
    large = resource.services.large
    if large is not None and resource.is_large(len(value)):
        _send(call, await large.shown_scale(resource, call.context, value))
    else:
        _send(call, scale_of(resource, resource.object_of(value)))


def _send(call: Call, scale: Object) -> None:
    if call.accepted.transform:
        from pykcp.apis import columns

        scale = transformed(call, scale, columns.scale())
    send_object(call, scale)


async def put(call: Call) -> None:
    check_write_options(call, "UpdateOptions")
    scale = _decoded(call)
    check_name(call.resource, call.info.namespace, call.info.name, scale)
    await _write(call, ReplacedScale(scale))


def _decoded(call: Call) -> Object:
    """The scale that was sent; upstream cannot say what is wrong with one that is none."""
    schema = library().kind("kube/autoscaling_v1", "Scale")
    try:
        value = check_type(parse_as(call, "Scale", VERSION), "Scale", VERSION, body_of(call))
        problems: list[str] = []
        scale = decode_native(schema, "Scale", "v1", value, problems, None)
        if call.context.field_validation != "Ignore":
            raise_or_warn(call.context.field_validation, problems, call.context.warn)
    except BadRequest as error:
        text = error.message
        if "cannot be handled as a Scale" not in text and "strict decoding error" not in text:
            raise
        raise BadRequest(
            'no kind is registered for the type v1.Scale in scheme "pkg/runtime/scheme.go:111"'
        ) from error
    return scale


async def patch(call: Call) -> None:
    form = media_type_of(call.exchange.request.header("content-type") or "")
    if form not in CUSTOM:
        raise UnsupportedMediaType(CUSTOM)
    check_write_options(call, "PatchOptions", is_apply=form == APPLY_PATCH)
    check_small(Sent(body_of(call), form))
    if form == APPLY_PATCH:
        await _write(call, AppliedScale(apply_of(call)))
    else:
        sent = Sent(body_of(call), form, call.context.field_validation)
        await _write(call, PatchedScale(sent, call.info.namespace, call.info.name))


async def _write(call: Call, scaling: Scaling) -> None:
    resource, info = call.resource, call.info
    view = ScaleRecipe(scaling).bind(resource, call.context.manager, call.context.warn)
    change = ObjectChange(view.make, is_patch=True, is_managed=True, view=view)
    target = WriteTarget(resource, call.context, info.namespace, info.name)
    written = await update(target, change)
    if view.written is None:
        _send(call, scale_of(resource, resource.object_of(written.value)))
    else:
        _send(call, _with_version(view.written, written.value))


def _with_version(scale: Object, value: bytes) -> Object:
    """A scale with the resource version under which its object was written."""
    metadata = dict(scale["metadata"])
    metadata.pop("resourceVersion", None)
    if version := ObjectParts(value).metadata.get("resourceVersion"):
        metadata["resourceVersion"] = version
    return {**scale, "metadata": metadata}
