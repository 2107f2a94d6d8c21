"""POST to a collection."""

from __future__ import annotations

from pykcp.machinery.status import BadRequest
from pykcp.registry.create import create as create_object
from pykcp.registry.large import create_large
from pykcp.server.bodies import read_sent, sent_of
from pykcp.server.call import Call
from pykcp.server.changes import Creation
from pykcp.server.handlers.get import send_written
from pykcp.server.handlers.options import check_write_options


async def create(call: Call) -> None:
    resource, info, context = call.resource, call.info, call.context
    if resource.namespaced and not info.namespace:
        raise BadRequest("an empty namespace may not be set during creation")
    check_write_options(call, "CreateOptions")
    sent = sent_of(call)
    if resource.is_large(len(sent.body)):
        value = await create_large(resource, context, info.namespace, Creation(sent))
    else:
        obj = read_sent(sent, resource, context.warn)
        value = await create_object(resource, context, info.namespace, obj)
    await send_written(call, value, 201)
