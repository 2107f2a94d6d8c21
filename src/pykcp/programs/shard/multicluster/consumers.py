"""The workspaces that a Cluster serves, as its syncer sees them from outside.

`/services/syncer/<logical cluster>/<Cluster>/<UID>/consumers` lists the workspaces that bind an API
of the Cluster's workspace, by the names of their logical clusters. Requests for one that another
shard has are passed on to that shard.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping

from pykcp.auth.authz.attributes import Decision
from pykcp.caching import BoundedCache
from pykcp.clients.direct import OneServer
from pykcp.clients.errors import SendFailed
from pykcp.clients.forwarder import Forwarder, Onward
from pykcp.clients.http.trust import Trust
from pykcp.clients.interface import Lister
from pykcp.clients.outbound import Tenant
from pykcp.clients.peers import Peers
from pykcp.machinery.resources import API_EXPORTS
from pykcp.machinery.status import MethodNotAllowed, ServiceUnavailable, StatusError
from pykcp.programs.shard.multicluster.known import consumers_at, consumers_of
from pykcp.programs.shard.multicluster.proxied import own_headers, passed
from pykcp.server.call import Call
from pykcp.server.media.answers import PageNotFound, send_object
from pykcp.virtual.framework import VirtualView

_log = logging.getLogger(__name__)
_FRESH_SECONDS = 5.0
_KEEP = 1024


class ConsumersElsewhere:
    """Consumers on other shards, which are asked every few seconds at most."""

    def __init__(self, lister: Lister, peers: Peers) -> None:
        self._lister, self.peers = lister, peers
        self._known: BoundedCache[str, tuple[float, dict[str, str]]] = BoundedCache(
            "syncer-consumers", _KEEP
        )

    async def of(self, workspace: str) -> Mapping[str, str]:
        """The consumers of a workspace of this shard, with the shard of each."""
        read_at, found = self._known.get(workspace) or (0.0, {})
        if time.monotonic() - read_at > _FRESH_SECONDS or not read_at:
            found = await self._ask(workspace, found)
            self._known.put(workspace, (time.monotonic(), found))
        return found

    async def _ask(self, workspace: str, before: Mapping[str, str]) -> dict[str, str]:
        """A shard that does not answer has the consumers that it had before."""
        exports = [export.name for export in self._lister.keys(API_EXPORTS, workspace)]
        found: dict[str, str] = {}
        for shard in self.peers.names() if exports else ():
            try:
                names = await consumers_at(self.peers.client(shard), workspace, exports)
                found.update(dict.fromkeys(names, shard))
            except StatusError as error:
                _log.debug("consumers on shard %s: %s", shard, error)
                found.update({one: where for one, where in before.items() if where == shard})
        return found


class _OfSyncer(VirtualView):
    """Something beside the view of a Cluster's syncer, open to the same users as `of`, that view."""

    def __init__(
        self, workspace: str, of: VirtualView, elsewhere: ConsumersElsewhere | None
    ) -> None:
        self._workspace, self._of, self._elsewhere = workspace, of, elsewhere
        self.paths = self

    def exists(self) -> bool:
        return self._of.exists()

    async def authorize(self, call: Call) -> Decision:
        return await self._of.authorize(call)

    async def handle(self, call: Call) -> None:
        raise NotImplementedError


class SyncerConsumers(_OfSyncer):
    def __init__(
        self,
        lister: Lister,
        workspace: str,
        of: VirtualView,
        elsewhere: ConsumersElsewhere | None,
    ) -> None:
        super().__init__(workspace, of, elsewhere)
        self._lister = lister

    async def handle(self, call: Call) -> None:
        if call.info.method != "GET":
            raise MethodNotAllowed(
                "the server does not allow this method on the requested resource"
            )
        call.negotiate()
        found = consumers_of(self._lister, self._workspace, None) - {self._workspace}
        if self._elsewhere is not None:
            found |= (await self._elsewhere.of(self._workspace)).keys()
        send_object(call, {"workspaces": sorted(found)})


class ForwardedView(_OfSyncer):
    """A consumer that another shard has. That shard decides what the syncer sees there."""

    def __init__(
        self, consumer: str, workspace: str, of: VirtualView, elsewhere: ConsumersElsewhere
    ) -> None:
        super().__init__(workspace, of, elsewhere)
        self._consumer, self._peers = consumer, elsewhere.peers

    async def handle(self, call: Call) -> None:
        assert self._elsewhere is not None
        shard = (await self._elsewhere.of(self._workspace)).get(self._consumer)
        if shard is None:
            raise PageNotFound
        client = self._peers.client(shard)
        request, server = call.exchange.request, client.http.server
        query = f"?{request.query}" if request.query else ""
        onward = Onward(
            f"{server.scheme}://{server.authority}{request.path}{query}",
            [*passed(call), *own_headers(client)],
            Tenant(self._workspace),
        )
        try:
            await Forwarder(OneServer(client.http), Trust.of_files("")).forward(
                call.exchange, onward
            )
        except (SendFailed, TimeoutError) as error:
            if call.exchange.responded:
                raise
            raise ServiceUnavailable(f"shard {shard} does not answer") from error
