"""What the operator does inside of installations, and the finalizers that wait for it."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

from pykcp.clients.errors import SendFailed
from pykcp.clients.interface import Client
from pykcp.clients.remote.client import RemoteClient
from pykcp.programs.operator.access import connections, rbac, shards
from pykcp.programs.operator.access.rbac import RbacAction
from pykcp.programs.operator.configuration.kubeconfigs import kubeconfig_target
from pykcp.programs.operator.configuration.world import NotConfigurable, World, at, name_of
from pykcp.programs.operator.drivers.kubernetes.driver import HOST
from pykcp.programs.operator.names import KINDS, RBAC_CLEANUP, SHARD_CLEANUP
from pykcp.types import Object

_log = logging.getLogger(__name__)
_STEPS = 8


class Cleanup:
    """`tend` each object after its status was written."""

    def __init__(self, client: Client, world: World) -> None:
        self._client, self._world = client, world

    async def tend(self, obj: Object, *, is_available: bool) -> None:
        """May raise StatusError and SendFailed: try again later."""
        if obj["kind"] == "Shard":
            await self._tend_shard(obj, is_available)
        elif obj["kind"] == "RootShard" and is_available:
            client = connections.root_client(self._world, obj)
            await self._with(client, lambda: shards.mark(client, obj, "root"))
        elif obj["kind"] == "Kubeconfig":
            await self._tend_kubeconfig(obj)

    # --- shards ----------------------------------------------------------------------

    async def _tend_shard(self, shard: Object, is_available: bool) -> None:
        is_held = SHARD_CLEANUP in (shard["metadata"].get("finalizers") or ())
        if not shard["metadata"].get("deletionTimestamp"):
            if not is_held:
                await self._set_finalizer(shard, SHARD_CLEANUP, wanted=True)
            if is_available:
                client = connections.root_client(self._world, self._world.root_of(shard))
                await self._with(client, lambda: shards.mark(client, shard, name_of(shard)))
        elif is_held:
            await self._unregister(shard)
            await self._set_finalizer(shard, SHARD_CLEANUP, wanted=False)

    async def _unregister(self, shard: Object) -> None:
        """Without the RootShard there is nothing to unregister from."""
        try:
            root = self._world.root_of(shard)
            client = connections.root_client(self._world, root)
        except NotConfigurable as gone:
            _log.info("Shard %s is released: %s", name_of(shard), gone.message)
            return
        if at(shard, "deletionPolicy") == "Refuse":
            own = connections.shard_client(self._world, shard, root)
            left: list[str] = []

            async def look() -> None:
                left.extend(await shards.remaining_clusters(own))

            await self._with(own, look)
            if left:
                shown = ", ".join(left[:5])
                raise SendFailed(f"{len(left)} workspaces are still on the shard: {shown}")
        await self._with(client, lambda: shards.unregister(client, shard))

    # --- kubeconfigs -------------------------------------------------------------------

    async def _tend_kubeconfig(self, obj: Object) -> None:
        for _ in range(_STEPS):
            step = rbac.next_step(obj)
            if step.action is RbacAction.DONE:
                return
            if step.action is RbacAction.BIND:
                await self._bind(obj, step.cluster)
                return
            if step.action in (RbacAction.HOLD, RbacAction.RELEASE):
                wanted = step.action is RbacAction.HOLD
                obj = await self._set_finalizer(obj, RBAC_CLEANUP, wanted=wanted)
                if not wanted:
                    return
            elif step.action is RbacAction.RECORD:
                obj = await self._record(obj, step.cluster)
            else:
                await self._unbind(obj, step.cluster)
                obj = await self._record(obj, "")

    async def _bind(self, obj: Object, cluster: str) -> None:
        target = kubeconfig_target(self._world, obj)
        client = connections.target_client(self._world, target)
        await self._with(client, lambda: rbac.bind(client, obj, cluster))

    async def _unbind(self, obj: Object, cluster: str) -> None:
        """Bindings of an installation that is gone are gone with it."""
        try:
            target = kubeconfig_target(self._world, obj)
            client = connections.target_client(self._world, target)
        except NotConfigurable as gone:
            _log.info("Kubeconfig %s is released: %s", name_of(obj), gone.message)
            return
        await self._with(client, lambda: rbac.unbind(client, obj, cluster))

    async def _record(self, obj: Object, cluster: str) -> Object:
        def change(live: Object) -> None:
            live.setdefault("status", {})["authorization"] = {"provisionedCluster": cluster}

        return await self._change(obj, change, "status")

    async def _set_finalizer(self, obj: Object, name: str, *, wanted: bool) -> Object:
        def change(live: Object) -> None:
            held = [one for one in live["metadata"].get("finalizers") or () if one != name]
            live["metadata"]["finalizers"] = [*held, name] if wanted else held

        return await self._change(obj, change)

    async def _change(
        self, obj: Object, change: Callable[[Object], None], subresource: str = ""
    ) -> Object:
        metadata, kind = obj["metadata"], str(obj["kind"])
        made = await self._client.change(
            HOST, KINDS[kind], metadata["name"], change, metadata["namespace"], subresource
        )
        status = made.get("status") or obj.get("status") or {}
        return {**obj, "metadata": made["metadata"], "status": status}

    async def _with(self, client: RemoteClient, body: Callable[[], Awaitable[None]]) -> None:
        try:
            await body()
        finally:
            client.http.close()
