"""Idempotent bootstrap steps: create missing objects, update different ones.

Every step is idempotent and writes nothing if there is nothing to do.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

from pykcp.machinery.resources import GroupVersionResource
from pykcp.machinery.status import AlreadyExists, Conflict
from pykcp.programs.shard.bootstrap.root_objects import CREATE_ONLY
from pykcp.registry import codec
from pykcp.registry.local import LocalClient
from pykcp.types import Object

_log = logging.getLogger(__name__)

_TRIES = 16


async def repeated(steps: Callable[[], Awaitable[None]]) -> None:
    """Do steps again that another server on the same store did at the same time."""
    for _ in range(_TRIES - 1):
        try:
            await steps()
        except (AlreadyExists, Conflict) as error:
            _log.info("another server starts at the same time: %s", error)
        else:
            return
    await steps()


async def ensure(
    client: LocalClient, cluster: str, kind: GroupVersionResource, obj: Object
) -> None:
    """Create what is missing; leave what is there."""
    metadata = obj["metadata"]
    if await client.get(cluster, kind, metadata["name"], metadata.get("namespace", "")) is not None:
        return
    try:
        await client.create(cluster, kind, codec.copy(obj))
    except AlreadyExists:
        return  # another replica was faster


async def put(client: LocalClient, cluster: str, kind: GroupVersionResource, obj: Object) -> None:
    """Create it, or make it as it is meant to be; metadata of others and status stay."""
    await ensure(client, cluster, kind, obj)
    annotations = obj["metadata"].get("annotations") or {}

    def overwrite(live: Object) -> None:
        kept = live["metadata"].get("annotations") or {}
        if CREATE_ONLY in kept:
            return
        if annotations:
            live["metadata"]["annotations"] = {**kept, **annotations}
        for part in ("spec", "rules", "roleRef", "subjects"):
            if part in obj:
                live[part] = codec.copy(obj[part])

    await change(client, cluster, kind, obj["metadata"]["name"], overwrite)


async def align(client: LocalClient, cluster: str, kind: GroupVersionResource, obj: Object) -> None:
    """Create it, or set what it says; what it does not say stays, in its objects, too."""
    await ensure(client, cluster, kind, obj)
    metadata = obj["metadata"]

    def merge(live: Object) -> None:
        for part, wanted in obj.items():
            if part not in ("apiVersion", "kind", "metadata"):
                copied, kept = codec.copy({part: wanted})[part], live.get(part)
                if isinstance(wanted, dict) and isinstance(kept, dict):
                    copied = {**kept, **copied}
                live[part] = copied

    await change(
        client, cluster, kind, metadata["name"], merge, namespace=metadata.get("namespace", "")
    )


async def change(
    client: LocalClient,
    cluster: str,
    kind: GroupVersionResource,
    name: str,
    change: Callable[[Object], None],
    subresource: str = "",
    namespace: str = "",
) -> None:
    """Change what is not yet as it should be: most starts find everything in place."""
    live = await client.get(cluster, kind, name, namespace)
    if live is not None:
        wanted = codec.copy(live)
        change(wanted)
        if wanted == live:
            return
    await client.change(cluster, kind, name, change, namespace=namespace, subresource=subresource)
