"""The client of syncers in a shard: what they write is charged to the workspace.

The status of a copy is what a cluster of the tenant says, as often as it likes.
"""

from __future__ import annotations

from typing import Any

from pykcp.clients.interface import MERGE_PATCH
from pykcp.machinery.resources import GroupVersionResource
from pykcp.registry.catalog.directory import Directory
from pykcp.registry.local import LocalClient
from pykcp.server.filters.flow_own_work import OwnWork
from pykcp.types import Object


class ChargedClient(LocalClient):
    def __init__(self, directory: Directory, user_name: str, work: OwnWork) -> None:
        super().__init__(directory, user_name)
        self._work = work

    async def patch(
        self,
        cluster: str,
        kind: GroupVersionResource,
        name: str,
        patch: Any,
        namespace: str = "",
        subresource: str = "",
        *,
        form: str = MERGE_PATCH,
    ) -> Object:
        write = super().patch(cluster, kind, name, patch, namespace, subresource, form=form)
        return await self._work.run(cluster, write)
