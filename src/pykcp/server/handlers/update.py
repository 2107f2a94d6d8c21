"""PUT of one object."""

from __future__ import annotations

from pykcp.registry.update import Change, check_name
from pykcp.registry.update import update as update_object
from pykcp.server.answers import send_json, send_object
from pykcp.server.bodies import read_ahead, read_object
from pykcp.server.call import Call
from pykcp.server.handlers.get import transformed
from pykcp.server.handlers.options import check_write_options
from pykcp.types import Object


async def update(call: Call) -> None:
    resource, info = call.resource, call.info
    check_write_options(call, "UpdateOptions")
    await read_ahead(call)
    first = [read_object(call, resource)]
    check_name(resource, info.namespace, info.name, first[0])

    def make(live: Object | None) -> Object:
        # The body is decoded again for another try: the registry changes what it is given.
        obj = first.pop() if first else read_object(call, resource)
        check_name(resource, info.namespace, info.name, obj)
        return obj

    written = await update_object(
        resource, call.context, info.namespace, info.name, Change(make), info.subresource
    )
    status = 201 if written.was_created else 200
    if call.accepted.transform:
        send_object(call, transformed(call, resource.object_of(written.value)), status)
    else:
        send_json(call, resource.served(written.value) + b"\n", status)
