"""POST to a collection."""

from __future__ import annotations

from pykcp.machinery.status import BadRequest
from pykcp.registry.create import create as create_object
from pykcp.server.answers import send_json, send_object
from pykcp.server.bodies import read_ahead, read_object
from pykcp.server.call import Call
from pykcp.server.handlers.get import transformed
from pykcp.server.handlers.options import check_write_options


async def create(call: Call) -> None:
    resource, info = call.resource, call.info
    if resource.namespaced and not info.namespace:
        raise BadRequest("an empty namespace may not be set during creation")
    check_write_options(call, "CreateOptions")
    await read_ahead(call)
    obj = read_object(call, resource)
    value = await create_object(resource, call.context, info.namespace, obj)
    if call.accepted.transform:
        send_object(call, transformed(call, resource.object_of(value)), 201)
    else:
        send_json(call, resource.served(value) + b"\n", 201)
