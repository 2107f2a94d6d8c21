"""`/services/syncer/<logical cluster>/<Cluster>/<UID>/cluster/…`: the cluster itself, for other shards.

Workspaces of other shards are served through here, so that credentials of clusters stay on the
shard of their registration. Shards are members of `system:masters`; nobody else is let in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykcp.auth.authz.attributes import Decision
from pykcp.clients.direct import OneServer
from pykcp.clients.errors import SendFailed
from pykcp.clients.forwarder import Forwarder, Onward, passed_headers
from pykcp.clients.http.trust import Trust
from pykcp.clients.outbound import Tenant
from pykcp.machinery.object_keys import ObjectKey
from pykcp.machinery.status import ServiceUnavailable
from pykcp.server.call import Call
from pykcp.virtual.framework import DENIED, VirtualView

if TYPE_CHECKING:
    from pykcp.clients.remote.client import RemoteClient
    from pykcp.multicluster.through.clusters import WorkspaceClusters

PATH = "/cluster"
_OWN = ("x-remote-", "impersonate-", "authorization", "cookie", "host")
"""Headers that speak of this server's client, and not of the request to the cluster."""
_SEGMENTS = 7
"""Of `/services/syncer/<logical cluster>/<Cluster>/<UID>/cluster/`."""
_READS = frozenset(("GET", "HEAD"))


class ProxiedCluster(VirtualView):
    def __init__(
        self, clusters: WorkspaceClusters, key: ObjectKey, uid: str, of: VirtualView
    ) -> None:
        """`of`: the view of the Cluster's syncer, which exists as long as the Cluster."""
        self._clusters, self._key, self._uid, self._of = clusters, key, uid, of
        self.paths = self

    def exists(self) -> bool:
        return self._of.exists()

    async def authorize(self, call: Call) -> Decision:
        return DENIED

    async def handle(self, call: Call) -> None:
        client = await self._clusters.find(self._key, self._uid)
        if client is None:
            raise ServiceUnavailable(f"cluster {self._key.name} cannot be reached from its shard")
        request, server = call.exchange.request, client.http.server
        if request.method not in _READS:
            await client.check_identity()
        path = _below(request.path)
        query = f"?{request.query}" if request.query else ""
        onward = Onward(
            f"{server.scheme}://{server.authority}{client.prefix}{path}{query}",
            [*passed(call), *own_headers(client)],
            Tenant(self._key.cluster),
        )
        try:
            await Forwarder(OneServer(client.http), Trust.of_files("")).forward(
                call.exchange, onward
            )
        except (SendFailed, TimeoutError) as error:
            if call.exchange.responded:
                raise
            raise ServiceUnavailable(
                f"cluster {self._key.name} does not answer: {error}"
            ) from error


def _below(path: str) -> str:
    """What is asked of the cluster, as it was sent: names in it may be escaped."""
    return "/" + path.split("/", _SEGMENTS)[_SEGMENTS]


def passed(call: Call) -> list[tuple[str, str]]:
    """The headers of a request that do not speak of its sender."""
    headers = passed_headers(call.exchange.request.headers)
    return [header for header in headers if not header[0].startswith(_OWN)]


def own_headers(client: RemoteClient) -> list[tuple[str, str]]:
    """The credentials for another server, and its name."""
    server = client.http.server
    own = [one for one in client.headers() if one[0] == "authorization"]
    return [*own, ("host", f"{server.host}:{server.port}")]
