"""PATCH of one object: JSON, merge and strategic merge patches, and server-side apply."""

from __future__ import annotations

from collections.abc import Callable

from pykcp.machinery.patch import jsonpatch, mergepatch, strategic
from pykcp.machinery.patch.strategic_custom import KUBERNETES_GROUPS
from pykcp.machinery.schema.definition import ResourceDefinition
from pykcp.machinery.status import BadRequest, Invalid, UnsupportedMediaType, invalid
from pykcp.registry import codec
from pykcp.registry.update import Change, check_name
from pykcp.registry.update import update as update_object
from pykcp.server import yaml_text
from pykcp.server.answers import send_json, send_object
from pykcp.server.bodies import (
    body_of,
    check_custom_kind,
    check_type,
    mark_reset,
    raise_or_warn,
    read_ahead,
    yaml_of,
)
from pykcp.server.call import Call
from pykcp.server.handlers.get import transformed
from pykcp.server.handlers.options import check_write_options
from pykcp.server.negotiation import media_type_of
from pykcp.types import JSON, Object

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
BUILTIN = (JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, APPLY_PATCH)
CUSTOM = (JSON_PATCH, MERGE_PATCH, APPLY_PATCH)
CUSTOM_OF_KUBERNETES = (*CUSTOM, STRATEGIC_PATCH)


async def patch(call: Call) -> None:
    resource, info = call.resource, call.info
    form = media_type_of(call.exchange.request.header("content-type") or "")
    accepted = _accepted(resource.definition)
    if form not in accepted:
        raise UnsupportedMediaType(accepted)
    check_write_options(call, "PatchOptions", is_apply=form == APPLY_PATCH)
    body = body_of(call)
    await read_ahead(call)
    change = _apply(call, body) if form == APPLY_PATCH else _patch(call, form, body)
    written = await update_object(
        resource, call.context, info.namespace, info.name, change, info.subresource
    )
    status = 201 if written.was_created else 200
    if call.accepted.transform:
        send_object(call, transformed(call, resource.object_of(written.value)), status)
    else:
        send_json(call, resource.served(written.value) + b"\n", status)


def _accepted(definition: ResourceDefinition) -> tuple[str, ...]:
    if definition.native:
        return BUILTIN
    return CUSTOM_OF_KUBERNETES if definition.group in KUBERNETES_GROUPS else CUSTOM


def _patch(call: Call, form: str, body: bytes) -> Change:
    resource, info = call.resource, call.info
    found: list[str] = []
    changed = _patcher(call, form, body, found)
    keeps_type = form == STRATEGIC_PATCH

    def make(live: Object | None) -> Object:
        assert live is not None  # only apply creates
        patched = changed(live)
        new = _decode_patched(call, patched, list(found), keeps_type=keeps_type)
        check_name(resource, info.namespace, info.name, new)
        return new

    return Change(make, is_patch=True)


def _decode_patched(call: Call, patched: JSON, problems: list[str], *, keeps_type: bool) -> Object:
    """The patched object, typed; what does not fit is the patch's fault: 422.

    `problems` are those found in the patch itself.
    """
    resource = call.resource
    if keeps_type:
        patched = {**patched, "kind": resource.kind, "apiVersion": resource.api_version}
    text = codec.sorted_text(patched)
    try:
        if resource.definition.native:
            obj = mark_reset(check_type(patched, resource.kind, resource.api_version, text))
        else:
            obj = patched
            check_custom_kind(obj, resource)
        new = resource.rules.decode(obj, problems)
    except BadRequest as error:
        raise _bad_patch(
            text, str(error).partition(f"as a {resource.kind}: ")[2] or str(error)
        ) from error
    if problems and call.context.field_validation == "Strict":
        raise _bad_patch(text, "strict decoding error: " + ", ".join(problems))
    if call.context.field_validation != "Ignore":
        raise_or_warn(call, problems)
    return new


def _bad_patch(text: bytes, why: str) -> Invalid:
    return Invalid.fields("", "", "", [invalid("patch", text.decode(), why)])


def _patcher(call: Call, form: str, body: bytes, problems: list[str]) -> Callable[[Object], JSON]:
    """The patch, read once; applied to the live object as often as the write is tried."""
    strict = call.context.field_validation != "Ignore"
    if form == JSON_PATCH:
        operations, found = jsonpatch.decode(body, strict=strict)
        problems += found
        return lambda live: jsonpatch.apply(codec.copy(live), operations)
    if form == MERGE_PATCH:
        merge, found = mergepatch.decode(body, strict=strict)
        problems += found
        if call.resource.definition.native:
            return lambda live: mergepatch.apply(live, merge)
        # what the patch leaves alone is the live object's own, and defaults are filled in place
        return lambda live: mergepatch.apply(codec.copy(live), merge)
    document, found = strategic.decode(body, strict=strict)
    problems += found
    schema = call.resource.definition.schema(call.resource.version)
    return lambda live: strategic.apply(schema, live, document)


def _apply(call: Call, body: bytes) -> Change:
    resource, info, context = call.resource, call.info, call.context
    try:
        document = yaml_of(call, body)
    except yaml_text.BadYAML as error:
        raise BadRequest(f"error decoding YAML: error converting YAML to JSON: {error}") from error
    if document is None:
        document = {}
    if not isinstance(document, dict):
        raise BadRequest("error decoding YAML: the applied configuration must be an object")
    force = info.is_true("force")
    now = resource.services.sources.now()
    codec.strip_cluster(document)

    def make(live: Object | None) -> Object:
        merged = resource.rules.manage_apply(
            live, codec.copy(document), context.manager, info.subresource, now, force=force
        )
        new = resource.rules.decode_applied(merged)
        check_name(resource, info.namespace, info.name, new)
        return new

    return Change(make, is_apply=True)
