"""Deleted workspaces over several shards, as one of the shards asks the others about them.

The content of a deleted workspace is kept on the shard that had its logical cluster, and so is
its record. Its Workspace belongs to the shard of its parent, which may be another one. That shard
lists what all others keep, and has it restored there; the other shard in turn has the Workspace
checked and created on the shard of the parent, wherever that is by then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from pykcp.apis.kcp import logical_clusters as lifecycle
from pykcp.auth.user import User
from pykcp.controllers.runtime.controller import Requeue
from pykcp.machinery import meta
from pykcp.machinery.resources import WORKSPACES
from pykcp.machinery.status import NotFound, ServiceUnavailable
from pykcp.registry.trash import Record, record_of_json
from pykcp.registry.verbs.restore import no_place
from pykcp.types import Object

if TYPE_CHECKING:
    from pykcp.clients.peers import Peers

TRASH_PATH = "/services/provisioning/trash"
RECORDS, CHECK, CREATE, RESTORE = "records", "check", "create", "restore"
NOT_HERE = "ParentNotHere"
"""Reason of the answer of a shard that does not have the parent."""
_LIST_SECONDS = 2.0
"""After which a list goes without the shard."""
T = TypeVar("T")


class KeptWorkspace(NamedTuple):
    """A deleted workspace that can be restored."""

    shard: str
    """The shard that keeps it; "" if it is this one."""
    record: Record


class FarTrash:
    def __init__(self, peers: Peers) -> None:
        self._peers = peers

    # --- the shard of the parent asks

    async def records(self, parents: Sequence[str]) -> tuple[list[KeptWorkspace], list[str]]:
        """What other shards keep of the workspaces in some logical clusters; shards that are away."""
        names = self._peers.names()
        answers = await asyncio.gather(*(self._records(name, parents) for name in names))
        found = [one for answer in answers for one in answer or ()]
        away = [name for name, answer in zip(names, answers, strict=True) if answer is None]
        return found, away

    async def _records(self, shard: str, parents: Sequence[str]) -> list[KeptWorkspace] | None:
        try:
            async with asyncio.timeout(_LIST_SECONDS):
                answer = await self._ask(shard, RECORDS, {"parents": list(parents)})
        except (ServiceUnavailable, TimeoutError):
            return None
        return [KeptWorkspace(shard, record_of_json(one)) for one in answer["records"]]

    async def restore(self, kept: KeptWorkspace, user: User) -> None:
        """Have another shard restore what it keeps. Raises what restoring raises there."""
        body = {"cluster": kept.record.cluster, "user": user.to_json()}
        await self._ask(kept.shard, RESTORE, body)

    # --- the shard that keeps it asks

    async def check(self, record: Record, user: User) -> None:
        await self._ask_parent(CHECK, record, user)

    async def create(self, record: Record, user: User) -> None:
        await self._ask_parent(CREATE, record, user)

    async def _ask_parent(self, action: str, record: Record, user: User) -> None:
        body: Object = {"record": record._asdict(), "user": user.to_json()}

        async def ask(shard: str) -> Object | None:
            try:
                return await self._ask(shard, action, body)
            except NotFound as error:
                if error.reason == NOT_HERE:
                    return None
                raise

        if await self._first(record.logical_cluster, ask) is None:
            raise no_place(record)

    async def workspace_of(self, cluster: Object) -> Object | None:
        """The Workspace of a LogicalCluster on another shard. Raises Requeue if one is away."""
        owner = (cluster.get("spec") or {}).get("owner") or {}
        if owner.get("resource") != WORKSPACES.resource or not owner.get("cluster"):
            return None

        async def ask(shard: str) -> Object | None:
            client = self._peers.client(shard)
            return await client.get(owner["cluster"], WORKSPACES, owner["name"])

        try:
            return await self._first(cluster, ask)
        except ServiceUnavailable as error:
            raise Requeue(str(error)) from error

    async def _first(self, cluster: Object, ask: Callable[[str], Awaitable[T | None]]) -> T | None:
        """The first answer of a shard: the one that the Workspace was on, then the others.

        Raises ServiceUnavailable if there is none and a shard is away.
        """
        owner = meta.annotation(cluster, lifecycle.OWNER_SHARD_ANNOTATION)
        away: ServiceUnavailable | None = None
        for shard in sorted(self._peers.names(), key=lambda name: name != owner):
            try:
                answer = await ask(shard)
            except ServiceUnavailable as error:
                away = error
                continue
            if answer is not None:
                return answer
        if away is not None:
            raise away
        return None

    async def _ask(self, shard: str, action: str, body: Object) -> Object:
        return await self._peers.client(shard).send("POST", f"{TRASH_PATH}/{action}", body)
