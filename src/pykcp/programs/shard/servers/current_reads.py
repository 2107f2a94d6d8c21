"""Requests to one of several servers on etcd see every write that any of them has acknowledged.

A request that names no revision waits until this server's copy of etcd is as new as etcd was when
the request came. All requests that wait share one read of etcd (`storage.etcd.barriers`), and a
server that is alone does not wait at all (`storage.etcd.group`). Writes wait too: what they are
checked against (namespaces, roles, quotas) is read here.
"""

from __future__ import annotations

import re
from collections.abc import Coroutine
from typing import Any

from pykcp.registry.errors import translate
from pykcp.server.media.answers import send_status
from pykcp.server.request_info import parse_query
from pykcp.storage.errors import StoreError
from pykcp.storage.group import ServerGroup
from pykcp.storage.interface import Store
from pykcp.virtual.remote import forwarded_call
from pykcp.wire.exchange import Application, Exchange, IncomingRequest

_OF_STORE = re.compile(r"(?:/clusters/[^/]+)?/(?:apis?|openapi|services)(?:/|$)").match
"""Paths whose answers depend on the store."""


class CurrentReads:
    """The application of a server that shares its store with others."""

    def __init__(self, front: Application, store: Store, group: ServerGroup) -> None:
        self._front, self._store, self._group = front, store, group

    def wants_streaming(self, request: IncomingRequest) -> bool:
        return self._front.wants_streaming(request)

    def identify(self, exchange: Exchange) -> bool | Coroutine[Any, Any, bool]:
        return self._front.identify(exchange)

    def handle(self, exchange: Exchange) -> Coroutine[Any, Any, None] | None:
        if self._group.is_alone or not must_be_current(exchange.request, self._store.revision):
            return self._front.handle(exchange)
        return self._handle_later(exchange)

    async def _handle_later(self, exchange: Exchange) -> None:
        try:
            await self._store.barrier()
        except StoreError as error:
            send_status(forwarded_call(exchange), translate(error))
            return
        pending = self._front.handle(exchange)
        if pending is not None:
            await pending


def must_be_current(request: IncomingRequest, revision: int) -> bool:
    """Whether a request has to wait for what other servers have acknowledged.

    `revision`: of this server. A client that names a revision which is known here is content with
    it; one that is newer was told by another server.
    """
    if _OF_STORE(request.path) is None:
        return False
    if request.method not in ("GET", "HEAD") or "resourceVersion=" not in request.query:
        return True
    query = parse_query(request.query)
    named = query.get("resourceVersion", [""])[0]
    if not named.isascii() or not named.isdigit() or query.get("continue", [""])[0]:
        return True
    return int(named) > revision
