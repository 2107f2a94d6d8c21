"""PATCH of one object: JSON, merge and strategic merge patches, and server-side apply."""

from __future__ import annotations

from pykcp.machinery.patch.strategic_custom import KUBERNETES_GROUPS
from pykcp.machinery.schema.definition import ResourceDefinition
from pykcp.machinery.status import BadRequest, StatusError, UnsupportedMediaType
from pykcp.registry.verbs.changes import ObjectChange, WriteTarget
from pykcp.registry.verbs.update import update as update_object
from pykcp.server.call import Call
from pykcp.server.handlers.get import send_written
from pykcp.server.handlers.options import check_write_options
from pykcp.server.large.changes import (
    APPLY_PATCH,
    JSON_PATCH,
    MERGE_PATCH,
    STRATEGIC_PATCH,
    Applying,
    Patching,
)
from pykcp.server.media.bodies import Sent, body_of
from pykcp.server.media.negotiation import media_type_of

BUILTIN = (JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, APPLY_PATCH)
CUSTOM = (JSON_PATCH, MERGE_PATCH, APPLY_PATCH)
CUSTOM_OF_KUBERNETES = (*CUSTOM, STRATEGIC_PATCH)


async def patch(call: Call) -> None:
    resource, info = call.resource, call.info
    form = media_type_of(call.exchange.request.header("content-type") or "")
    accepted = _accepted(resource.definition)
    if form not in accepted:
        raise _refusal(resource.definition, accepted)
    if not info.name:
        raise BadRequest("name must be provided")
    check_write_options(call, "PatchOptions", is_apply=form == APPLY_PATCH)
    change = ObjectChange.of(_recipe(call, form), resource, call.context)
    target = WriteTarget(resource, call.context, info.namespace, info.name, info.subresource)
    written = await update_object(target, change)
    await send_written(call, written.value, 201 if written.was_created else 200)


def _accepted(definition: ResourceDefinition) -> tuple[str, ...]:
    if definition.native:
        return BUILTIN
    return CUSTOM_OF_KUBERNETES if definition.group in KUBERNETES_GROUPS else CUSTOM


def _refusal(definition: ResourceDefinition, accepted: tuple[str, ...]) -> StatusError:
    """Upstream's router refuses the patch of a built-in kind before its handler can say more."""
    if definition.native:
        return StatusError("415: Unsupported Media Type", code=415, reason="UnsupportedMediaType")
    return UnsupportedMediaType(accepted)


def _recipe(call: Call, form: str) -> Patching | Applying:
    info, context = call.info, call.context
    if form == APPLY_PATCH:
        return apply_of(call)
    sent = Sent(body_of(call), form, context.field_validation)
    cluster = "" if call.is_plain else call.resource.annotated_cluster(context.cluster)
    return Patching(sent, info.namespace, info.name, cluster)


def apply_of(call: Call) -> Applying:
    info, context = call.info, call.context
    sent = Sent(body_of(call), APPLY_PATCH, context.field_validation)
    now = call.resource.services.sources.now()
    return Applying(
        sent,
        info.namespace,
        info.name,
        info.subresource,
        context.manager,
        now,
        force=info.is_true("force"),
    )
