"""`/services/merged/debug/<name>`: what every shard tells administrators, as one document.

Who may read it is decided by the roles of `root`, as for the pages of the proxy itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import orjson

from pykcp.auth.authz.attributes import forbidden, path_attributes
from pykcp.auth.user import User
from pykcp.clients.errors import SendFailed
from pykcp.clients.peers import Peers
from pykcp.clients.remote.errors import error_of
from pykcp.machinery.status import MethodNotAllowed, StatusError
from pykcp.proxy.lookup import ShardsAway
from pykcp.proxy.merged import MERGED
from pykcp.server.call import Call
from pykcp.server.media.answers import JSON_HEADERS, PageNotFound
from pykcp.types import Object

REPORTS = f"{MERGED}debug/"
_NAMES = frozenset(("certificates", "slow-requests"))
_MOST_BYTES = 4 << 20
_SECONDS = 5.0

MayRead = Callable[[User, str], Awaitable[bool]]
"""Whether a user may read a path that is not a resource."""


class MergedReports:
    def __init__(self, peers: Peers, shards: Callable[[], list[str]], may_read: MayRead) -> None:
        self._peers, self._shards, self._may_read = peers, shards, may_read

    async def serve(self, call: Call, user: User) -> None:
        """Raises the error to answer; that of a shard only if no shard answers."""
        name = call.info.path[len(REPORTS) :]
        if name not in _NAMES:
            raise PageNotFound
        if call.info.method != "GET":
            raise MethodNotAllowed(
                "the server does not allow this method on the requested resource"
            )
        path = f"/debug/{name}"
        if not await self._may_read(user, path):
            raise forbidden(path_attributes(user, "get", path))
        shards = self._shards()
        reading = (self._of_shard(shard, path) for shard in shards)
        found = await asyncio.gather(*reading, return_exceptions=True)
        merged: Object = {"items": [], "problems": []}
        for shard, one in zip(shards, found, strict=True):
            if isinstance(one, StatusError):
                merged["problems"].append({"shard": shard, "message": one.message})
            elif isinstance(one, BaseException):
                raise one
            else:
                merged["items"] += [{"shard": shard, **item} for item in one.pop("items", [])]
                merged.update(one)
        if len(merged["problems"]) == len(shards):
            raise next((e for e in found if isinstance(e, StatusError)), ShardsAway(shards))
        call.exchange.respond(200, JSON_HEADERS, orjson.dumps(merged))

    async def _of_shard(self, shard: str, path: str) -> dict[str, Any]:
        """Raises StatusError."""
        try:
            async with asyncio.timeout(_SECONDS):
                client = self._peers.client(shard)
                response = await client.http.request("GET", path, client.headers())
                body = await response.read(_MOST_BYTES)
            if response.status != 200:
                raise error_of(response.status, body)
            found = orjson.loads(body)
        except (SendFailed, TimeoutError, orjson.JSONDecodeError) as error:
            raise ShardsAway([shard]) from error
        return found if isinstance(found, dict) else {}
