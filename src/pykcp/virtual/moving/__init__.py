"""`/services/moving`: what the destination of a move asks of the shard that it comes from.

    POST …/copy      a page of everything in a logical cluster, at one revision
    POST …/changes   what was written to it since
    POST …/hold      let writes to it wait for a second, and return the last changes
    POST …/give      let the destination have it
    POST …/state     whether it was given away
    POST …/look      a migration has changed, and a shard has it

Only other shards have access: system:masters, and administrators of logical clusters. Values
travel unencrypted within TLS; each shard stores them with its own keys.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from pykcp.auth.authz.attributes import Decision, Verdict
from pykcp.auth.user import LOGICAL_CLUSTER_ADMIN
from pykcp.machinery.kcp import clusters
from pykcp.machinery.status import BadRequest, MethodNotAllowed
from pykcp.registry.moving.outgoing import OutgoingMoves, RowPage
from pykcp.registry.moving.parts import MigrationNews
from pykcp.server.call import Call, Pending
from pykcp.server.media.answers import PageNotFound, send_object
from pykcp.server.media.bodies import body_of, parse
from pykcp.types import Object
from pykcp.virtual.framework import DENIED, VirtualView, Visit

_LOOK = "/look"
Action = Callable[[str, Object], Coroutine[Any, Any, Object]]


class MovingWorkspace:
    name = "moving"
    checks: tuple[str, ...] = ()

    def __init__(self, moves: OutgoingMoves, news: MigrationNews) -> None:
        self._view = MovingView(moves, news)

    def visit(self, path: str) -> Visit | None:
        return Visit(self._view, clusters.SYSTEM_SHARD, path)


class MovingView(VirtualView):
    def __init__(self, moves: OutgoingMoves, news: MigrationNews) -> None:
        self._moves, self._news = moves, news
        self.paths = self
        self._actions: dict[str, Action] = {
            "/copy": self._copy,
            "/changes": self._changes,
            "/hold": self._hold,
            "/give": self._give,
            "/state": self._state,
            _LOOK: self._look,
        }

    async def authorize(self, call: Call) -> Decision:
        return Decision(Verdict.ALLOW) if LOGICAL_CLUSTER_ADMIN in call.user.groups else DENIED

    def handle(self, call: Call) -> Pending:
        if call.info.path not in self._actions:
            raise PageNotFound
        if call.info.method != "POST":
            raise MethodNotAllowed(
                "the server does not allow this method on the requested resource"
            )
        body = parse(body_of(call), "Move")
        if not isinstance(body, dict) or not clusters.is_name(str(body.get("cluster") or "")):
            raise BadRequest("cluster must be the name of a logical cluster")
        call.negotiate()
        return self._send(call, body)

    async def _send(self, call: Call, body: Object) -> None:
        send_object(call, await self.answer(call.info.path, body))

    async def answer(self, path: str, body: Object) -> Object:
        """Raises NotMigrating unless the migration in the body moves the cluster in it."""
        if path != _LOOK:
            self._moves.check(body["cluster"], _text(body, "migration"))
        return await self._actions[path](body["cluster"], body)

    async def _copy(self, cluster: str, body: Object) -> Object:
        return _page(await self._moves.copy(cluster, _text(body, "after"), _number(body, "at")))

    async def _changes(self, cluster: str, body: Object) -> Object:
        return _page(await self._moves.changes(cluster, _number(body, "after")))

    async def _hold(self, cluster: str, body: Object) -> Object:
        return _page(await self._moves.hold(cluster, _number(body, "after")))

    async def _give(self, cluster: str, body: Object) -> Object:
        shard, migration = _text(body, "shard"), _text(body, "migration")
        if not shard or not migration:
            raise BadRequest("shard and migration must be given")
        departure = await self._moves.give(cluster, shard, _number(body, "revision"), migration)
        return {"departure": departure._asdict()}

    async def _state(self, cluster: str, body: Object) -> Object:
        departure = self._moves.departure(cluster)
        return {"departure": departure._asdict() if departure is not None else None}

    async def _look(self, cluster: str, body: Object) -> Object:
        migration, shard = _text(body, "migration"), _text(body, "shard")
        if ":" not in migration or not shard:
            raise BadRequest("shard and migration must be given")
        self._news.tell(migration, shard)
        return {}


def _page(page: RowPage) -> Object:
    return {
        "rows": [list(row) for row in page.rows],
        "revision": page.revision,
        "next": page.next_after,
        "isBehind": page.is_behind,
    }


def _text(body: Object, part: str) -> str:
    value = body.get(part) or ""
    if not isinstance(value, str):
        raise BadRequest(f"{part} must be a string")
    return value


def _number(body: Object, part: str) -> int:
    value = body.get(part) or 0
    if not isinstance(value, int) or value < 0:
        raise BadRequest(f"{part} must be a number")
    return value
