"""POST to a collection."""

from __future__ import annotations

from pykcp.machinery.schema.growth import Outgrown, bounded
from pykcp.machinery.status import BadRequest
from pykcp.registry.verbs.create import create as create_object
from pykcp.registry.verbs.large import create_large
from pykcp.server.call import Call
from pykcp.server.handlers.get import send_written
from pykcp.server.handlers.options import check_write_options
from pykcp.server.large.changes import Creation
from pykcp.server.media.bodies import Sent, read_sent, sent_of
from pykcp.server.media.negotiation import JSON


async def create(call: Call) -> None:
    if call.resource.namespaced and not call.info.namespace:
        raise BadRequest("an empty namespace may not be set during creation")
    check_write_options(call, "CreateOptions")
    value = await _create(call, sent_of(call))
    await send_written(call, value, 201)


async def _create(call: Call, sent: Sent) -> bytes:
    resource, context, namespace = call.resource, call.context, call.info.namespace
    if not resource.is_large(sent.weight, sent.body if sent.form == JSON else b""):
        try:
            with bounded(resource.has_workers):
                obj = read_sent(sent, resource, context.warn)
            return await create_object(resource, context, namespace, obj, can_restart=True)
        except Outgrown:  # by its defaults, or by a webhook
            pass
    return await create_large(resource, context, namespace, Creation(sent))
