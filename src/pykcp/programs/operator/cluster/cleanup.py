"""What the operator does inside of installations, and the finalizers that wait for it."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from pykcp.clients.errors import SendFailed
from pykcp.clients.interface import Client
from pykcp.clients.remote.client import RemoteClient
from pykcp.machinery.status import Forbidden, NotFound
from pykcp.programs.operator.access import connections, rbac, shards
from pykcp.programs.operator.access.rbac import BindingPlace, RbacAction
from pykcp.programs.operator.configuration.kubeconfigs import (
    KubeconfigTarget,
    find_target,
    kubeconfig_target,
)
from pykcp.programs.operator.configuration.world import NotConfigurable, World, at, name_of
from pykcp.programs.operator.drivers.kubernetes.driver import HOST
from pykcp.programs.operator.names import KINDS, RBAC_CLEANUP, SHARD_CLEANUP
from pykcp.types import Object

_log = logging.getLogger(__name__)
_STEPS = 8
_T = TypeVar("_T")


class Cleanup:
    """`tend` each object after its status was written."""

    def __init__(self, client: Client, world: World) -> None:
        self._client, self._world = client, world

    async def tend(self, obj: Object, *, is_available: bool) -> bool | None:
        """May raise StatusError and SendFailed: try again later.

        Returns whether a shard is closed for new workspaces; None if that is not known.
        """
        try:
            if obj["kind"] == "Shard":
                return await self._tend_shard(obj, is_available)
            if obj["kind"] == "RootShard" and is_available:
                return await self._mark(obj, obj, "root")
            if obj["kind"] == "Kubeconfig":
                await self._tend_kubeconfig(obj)
        except NotConfigurable as error:
            raise SendFailed(error.message) from error
        return None

    # --- shards ----------------------------------------------------------------------

    async def _tend_shard(self, shard: Object, is_available: bool) -> bool | None:
        is_held = SHARD_CLEANUP in (shard["metadata"].get("finalizers") or ())
        # The shard that is registered under the name of a refused one is another.
        is_refused = ("Shard", name_of(shard)) in self._world.refused
        if shard["metadata"].get("deletionTimestamp"):
            if is_held:
                if not is_refused:
                    await self._unregister(shard)
                await self._set_finalizer(shard, SHARD_CLEANUP, wanted=False)
            return None
        if is_refused:
            return None
        if not is_held:
            await self._set_finalizer(shard, SHARD_CLEANUP, wanted=True)
        if not is_available:
            return None
        return await self._mark(shard, self._world.root_of(shard), name_of(shard))

    async def _mark(self, shard: Object, root: Object, name: str) -> bool:
        client = connections.root_client(self._world, root)
        return await self._with(client, lambda: shards.mark(client, shard, name))

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
            left = await self._with(own, lambda: shards.remaining_clusters(own))
            if left:
                shown = ", ".join(left[:5])
                raise SendFailed(f"{len(left)} workspaces are still on the shard: {shown}")
        await self._with(client, lambda: shards.unregister(client, shard))

    # --- kubeconfigs -------------------------------------------------------------------

    async def _tend_kubeconfig(self, obj: Object) -> None:
        for _ in range(_STEPS):
            step = rbac.next_step(obj, self._root_name(obj))
            if step.action is RbacAction.DONE:
                return
            if step.action is RbacAction.BIND:
                await self._bind(obj, step.place)
                return
            if step.action in (RbacAction.HOLD, RbacAction.RELEASE):
                wanted = step.action is RbacAction.HOLD
                obj = await self._set_finalizer(obj, RBAC_CLEANUP, wanted=wanted)
                if not wanted:
                    return
            elif step.action is RbacAction.RECORD:
                obj = await self._record(obj, step.place)
            else:
                await self._unbind(obj, step.place)
                obj = await self._record(obj, None)

    def _root_name(self, obj: Object) -> str:
        """Of the installation that the target belongs to; "" if the target does not exist."""
        try:
            return name_of(kubeconfig_target(self._world, obj).root)
        except NotConfigurable:
            return ""

    async def _bind(self, obj: Object, place: BindingPlace) -> None:
        target = kubeconfig_target(self._world, obj)
        client = connections.target_client(self._world, target, place.cluster)
        await self._with(client, lambda: rbac.bind(client, obj, place.cluster))

    async def _unbind(self, obj: Object, place: BindingPlace) -> None:
        """Bindings outlive a target; those of an installation that is gone are gone with it."""
        # Records of earlier versions do not name the RootShard.
        root = place.root or self._root_name(obj)
        roots = [one for one in self._world.all("RootShard") if root in ("", name_of(one))]
        if not roots:
            _log.info("Kubeconfig %s is released: there is no RootShard", name_of(obj))
        for one in roots:
            client = self._client_of(place, one)
            await self._with(client, lambda client=client: self._unbind_in(client, obj, place))  # type: ignore[misc]

    def _client_of(self, place: BindingPlace, root: Object) -> RemoteClient:
        """By way of the target as long as it exists, and of the whole installation then."""
        target = self._target_of(place)
        if target is not None and name_of(target.root) == name_of(root):
            return connections.target_client(self._world, target, place.cluster)
        return connections.installation_client(self._world, root, place.cluster)

    def _target_of(self, place: BindingPlace) -> KubeconfigTarget | None:
        kind, _, name = place.target.partition("/")
        try:
            return find_target(self._world, kind, name)
        except NotConfigurable:
            return None

    async def _unbind_in(self, client: RemoteClient, obj: Object, place: BindingPlace) -> None:
        try:
            await rbac.unbind(client, obj, place.cluster)
        except (NotFound, Forbidden):
            # A shard that is gone has taken with it what was not moved to another one.
            is_lost = place.target.startswith("Shard/") and self._target_of(place) is None
            if not is_lost and not await rbac.is_gone(client, place.cluster):
                raise

    async def _record(self, obj: Object, place: BindingPlace | None) -> Object:
        def change(live: Object) -> None:
            live.setdefault("status", {})["authorization"] = rbac.recorded(place)

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

    async def _with(self, client: RemoteClient, body: Callable[[], Awaitable[_T]]) -> _T:
        try:
            return await body()
        finally:
            client.http.close()
