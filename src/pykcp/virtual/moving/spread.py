"""Trees of workspaces over several shards, as if they were on one.

Other shards are asked as the user, so that each of them decides what the user may read.
All parts are read at one moment: the newest revision of the shards, to which the others advance.
"""

from __future__ import annotations

from collections import deque
from urllib.parse import urlencode

from pykcp.auth.user import User
from pykcp.clients.peers import Peers
from pykcp.clients.where import WHERE
from pykcp.machinery import meta
from pykcp.machinery.kcp import clusters
from pykcp.machinery.resources import LOGICAL_CLUSTERS
from pykcp.machinery.status import ServiceUnavailable
from pykcp.registry.moving.records import TravellingRow
from pykcp.registry.moving.trees import CopiedTree, PartElsewhere, TreePart, TreeReader, part_from
from pykcp.server.forwarding import impersonation_headers
from pykcp.types import Object


class SpreadTrees:
    """Reads trees; without `peers` this is the only shard."""

    def __init__(self, reader: TreeReader, peers: Peers | None) -> None:
        self._reader, self._peers = reader, peers
        self._root = ""

    async def installation(self, path: str) -> str:
        """See `CopiedTree.installation`; the root shard is asked for that of `root`."""
        found = self._reader.installation(path)
        if found or self._peers is None or path.partition(":")[0] != clusters.ROOT:
            return found
        if not self._root:
            root = await self._peers.root().get(clusters.ROOT, LOGICAL_CLUSTERS, "cluster")
            self._root = meta.uid(root) if root is not None else ""
        return self._root

    async def tree(self, top: str, user: User, shard: str = "") -> CopiedTree:
        """A tree whose top is on this shard, or on another. Raises StatusError."""
        first = (
            await self._part(PartElsewhere(top, shard), user, is_top=True)
            if shard
            else await self._reader.part(top)
        )
        parts, waiting = [(shard, first)], deque(first.elsewhere)
        while waiting:
            place = waiting.popleft()
            part = await self._part(place, user)
            parts.append((place.shard, part))
            waiting += part.elsewhere
        tree = merged(parts)
        installation = tree.installation or await self.installation(tree.path)
        if len({name for name, _ in parts}) > 1:
            await self._advance(parts, tree.revision)
        return tree._replace(installation=installation)

    async def rows(
        self, tree: CopiedTree, shard: str, cluster: str, after: str, user: User
    ) -> tuple[list[TravellingRow], str]:
        """Content of a tree whose top is on a shard ("": this one)."""
        where = tree.shards.get(cluster, shard)
        if not self._is_elsewhere(where):
            return await self._reader.rows(cluster, after, tree.revision)
        query = urlencode({"at": tree.revision, "after": after})
        page = await self._ask(where, f"{_service(cluster)}/rows?{query}", user)
        return [TravellingRow(*row) for row in page["rows"]], page["next"]

    def _is_elsewhere(self, shard: str) -> bool:
        return bool(shard) and self._peers is not None and shard != self._peers.own

    async def _part(self, place: PartElsewhere, user: User, *, is_top: bool = False) -> TreePart:
        if not self._is_elsewhere(place.shard):  # a tree may come back to this shard
            return await self._reader.part(place.cluster, is_top=is_top)
        query = "top" if is_top else "part"
        found = await self._ask(place.shard, f"{_service(place.cluster)}/tree?{query}=true", user)
        return part_from(found)

    async def _advance(self, parts: list[tuple[str, TreePart]], revision: int) -> None:
        if not all(part.tree.has_comparable_revision for _, part in parts):
            raise ServiceUnavailable("revisions of the shards cannot be compared yet: try again")
        await self._reader.advance(revision)
        assert self._peers is not None
        for shard in sorted({name for name, _ in parts if self._is_elsewhere(name)}):
            await self._peers.client(shard).send("GET", f"{WHERE}?advance={revision}")

    async def _ask(self, shard: str, target: str, user: User) -> Object:
        if self._peers is None:
            raise ServiceUnavailable(f'shard "{shard}" is not known here')
        client = self._peers.client(shard)
        return await client.get_with(target, impersonation_headers(user))


def _service(cluster: str) -> str:
    return f"/services/copies/clusters/{cluster}"


def merged(parts: list[tuple[str, TreePart]]) -> CopiedTree:
    """One tree of its parts, which shards have, that with the top first."""
    (home, first), *others = parts
    tree = first.tree._replace(
        revision=max(part.tree.revision for _, part in parts),
        clusters=[name for _, part in parts for name in part.tree.clusters],
    )
    for shard, part in others:
        tree.exports.update(part.tree.exports)
        tree.identities.update(part.tree.identities)
        if shard != home:
            shards = dict.fromkeys(part.tree.clusters, shard)
            tree = tree._replace(shards={**tree.shards, **shards})
    return tree
