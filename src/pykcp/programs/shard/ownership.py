"""A shard of several that was restored from a backup: which logical clusters are still its own?

Since the backup was made, logical clusters may have moved to other shards. The restored store has
them as they were; if it served them, there would be two of each. So before it serves anything, the
shard asks all others which logical clusters they have. Those it gives up, as if they had moved.
"""

from __future__ import annotations

import asyncio
import json
import logging
import pathlib
import time

from pykcp.clients.peers import Peers
from pykcp.machinery import meta
from pykcp.machinery.kcp import clusters
from pykcp.machinery.resources import LOGICAL_CLUSTERS
from pykcp.machinery.status import StatusError
from pykcp.registry.moving.outgoing import OutgoingMoves
from pykcp.types import Object

_log = logging.getLogger(__name__)
FILE = "restored.json"
"""In the root directory of a shard that has to ask."""
_ASK_AGAIN = 1.0
_SAY_AGAIN = 10.0


def mark_restored(root: pathlib.Path) -> None:
    path = root / FILE
    path.touch(mode=0o600)
    path.write_text(json.dumps({"restoredAt": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}))


class RestoredShard:
    def __init__(self, root: pathlib.Path, peers: Peers, moves: OutgoingMoves) -> None:
        self._file = root / FILE
        self._peers, self._moves = peers, moves

    async def settle(self) -> None:
        """Return when all other shards have answered and what they have is given up."""
        waiting: dict[str, Object] | None = None
        said = 0.0
        while waiting is None or waiting:
            if waiting is None:
                waiting = await self._others()
            for name, shard in sorted((waiting or {}).items()):
                if waiting and await self._ask(name, shard):
                    del waiting[name]
            if waiting is None or waiting:
                said = self._complain(sorted(waiting or {"root": {}}), said)
                await asyncio.sleep(_ASK_AGAIN)
        self._file.unlink()

    async def _others(self) -> dict[str, Object] | None:
        """The other shards; None if the root shard, which knows them, does not answer."""
        try:
            return {meta.name(shard): shard for shard in await self._peers.listed()}
        except (StatusError, OSError) as error:
            _log.info("the root shard does not answer: %s", error)
            return None

    def _complain(self, names: list[str], said: float) -> float:
        now = time.monotonic()
        if now < said + _SAY_AGAIN:
            return said
        _log.warning(
            "restored from a backup: waiting for shards %s to say which logical clusters they have;"
            " to serve without asking, remove %s and restart",
            ", ".join(names),
            self._file,
        )
        return now

    async def _ask(self, name: str, shard: Object) -> bool:
        try:
            client = self._peers.client_at(shard)
            found: list[Object] = await client.list(clusters.WILDCARD, LOGICAL_CLUSTERS)
        except (StatusError, OSError) as error:
            _log.info("shard %s does not answer: %s", name, error)
            return False
        for obj in found:
            cluster = meta.cluster(obj)
            if clusters.is_system(cluster) or not self._moves.has(cluster):
                continue
            _log.warning("logical cluster %s is on shard %s now, and given up here", cluster, name)
            await self._moves.disown(cluster, name)
        return True
