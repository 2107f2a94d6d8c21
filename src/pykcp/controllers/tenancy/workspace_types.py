"""Maintains the URLs of the virtual workspaces in the status of a workspace type."""

from __future__ import annotations

from collections.abc import Callable

from pykcp.apis.kcp import workspace_types
from pykcp.clients.interface import Change, Client, Feed, Lister
from pykcp.controllers.runtime.controller import Controller
from pykcp.controllers.runtime.metrics import ControllerMetrics
from pykcp.controllers.runtime.shard_changes import follow_published_shards, follow_shards
from pykcp.machinery.kcp import clusters
from pykcp.machinery.kcp.condition_marks import mark_true, summarise
from pykcp.machinery.object_keys import ObjectKey
from pykcp.machinery.resources import SHARDS, WORKSPACE_TYPES
from pykcp.machinery.status import NotFound
from pykcp.registry.lookup import ObjectLookup
from pykcp.types import Object

NAME = "kcp-workspacetype"
_READY = "VirtualWorkspaceURLsReady"


class WorkspaceTypes:
    def __init__(
        self,
        lister: Lister,
        client: Client,
        lookup: ObjectLookup,
        now: Callable[[], str],
        metrics: ControllerMetrics | None = None,
    ) -> None:
        self._lister, self._client, self._lookup, self._now = lister, client, lookup, now
        self.controller: Controller[ObjectKey] = Controller(NAME, self.reconcile, metrics=metrics)

    def follow(self, feed: Feed) -> None:
        feed.on(WORKSPACE_TYPES, self._on_type)
        follow_shards(feed, self._on_shard)
        follow_published_shards(self._lookup.replica, self._add_everything)

    def _on_type(self, change: Change) -> None:
        if not change.deleted:
            self.controller.add(change.key)

    def _on_shard(self, _: Change) -> None:
        self._add_everything()

    def _add_everything(self) -> None:
        for key in self._lister.keys(WORKSPACE_TYPES):
            self.controller.add(key)

    async def reconcile(self, key: ObjectKey) -> None:
        found = await self._client.get(key.cluster, WORKSPACE_TYPES, key.name)
        if found is None:
            return
        urls = virtual_workspaces(found, self._lookup.all(SHARDS, clusters.ROOT))
        now = self._now()

        def tell(live: Object) -> None:
            live.setdefault("status", {})["virtualWorkspaces"] = urls
            mark_true(live, _READY, now)
            summarise(live, (_READY,), now)

        try:
            await self._client.change(
                key.cluster, WORKSPACE_TYPES, key.name, tell, subresource="status"
            )
        except NotFound:
            return


def virtual_workspaces(workspace_type: Object, shards: list[Object]) -> list[Object]:
    """The addresses, each once, initializing ones first."""
    name = workspace_types.lifecycle_name(workspace_type)
    urls = sorted({shard["spec"].get("virtualWorkspaceURL") or "" for shard in shards} - {""})
    return [
        {"url": f"{url}/services/{kind}workspaces/{name}", "type": kind}
        for kind in ("initializing", "terminating")
        for url in urls
    ]
