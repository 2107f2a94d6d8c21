"""PUT of one object."""

from __future__ import annotations

from pykcp.registry.verbs.changes import ObjectChange, WriteTarget
from pykcp.registry.verbs.update import update as update_object
from pykcp.server.call import Call
from pykcp.server.handlers.get import send_written
from pykcp.server.handlers.options import check_write_options
from pykcp.server.large.changes import Replacement
from pykcp.server.media.bodies import sent_of


async def update(call: Call) -> None:
    resource, info = call.resource, call.info
    check_write_options(call, "UpdateOptions")
    recipe = Replacement(sent_of(call), info.namespace, info.name)
    change = ObjectChange.of(recipe, resource, call.context)
    target = WriteTarget(resource, call.context, info.namespace, info.name, info.subresource)
    written = await update_object(target, change)
    await send_written(call, written.value, 201 if written.was_created else 200)
