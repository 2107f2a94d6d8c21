"""The servers that share one etcd: who they are, whether this one is alone, and which one leads.

Every server has a lease, kept alive while it runs, and three kinds of keys are bound to leases:

    members/<server>   this server may write
    alone              its holder is the only server: it need not ask etcd before it answers
    leader             its holder runs the controllers

*Alone.* The key is taken in one transaction with a check that there are no other members. A server
that starts puts its own member key, and writes nothing before `alone` is gone: its holder sees the
new member, stops relying on the key and deletes it. If the holder hangs, its lease ends. So as long
as a server is alone, no other server acknowledges a write.

*Fence.* A server may hang longer than its lease lives and go on without knowing. Therefore every
request to write compares the revision of the member key with that of this membership: after the
lease has ended, etcd refuses it.

The holder of a lease measures its life from before the last successful request to keep it alive,
less a margin, so that it never relies on it longer than etcd does.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Any

from pykcp.storage.errors import StoreError, StoreUnavailable
from pykcp.storage.etcd import messages
from pykcp.storage.etcd.client import EtcdClient
from pykcp.storage.etcd.encoding import Fence
from pykcp.storage.etcd.envelope import Keyspace

_log = logging.getLogger(__name__)

LEASE_SECONDS = 4
"""After which the keys of a server that died are gone."""
MARGIN = 0.5
"""Seconds by which a server stops relying on its lease before etcd does."""
_KEEP_SECONDS = 1.0
_RETRY_SECONDS = 0.2
_CALL_SECONDS = 2.0


class EtcdGroup:
    """This server among all that share an etcd."""

    def __init__(
        self,
        client: EtcdClient,
        keyspace: Keyspace,
        server: str,
        *,
        fenced_by: Callable[[Fence], None],
        catch_up: Callable[[], Awaitable[None]],
    ) -> None:
        """`server`: names it, also after a restart. `fenced_by`: is told what writes have to
        compare. `catch_up`: returns when everything acknowledged until now can be read here."""
        self._client, self._server = client, server.encode()
        self._start = keyspace.servers
        self._end = keyspace.servers[:-1] + b"0"
        self._members = self._start + b"members/"
        self._own = self._members + self._server
        self._alone_key, self._leader_key = self._start + b"alone", self._start + b"leader"
        self._set_fence, self._catch_up = fenced_by, catch_up
        self._lease = 0
        self._valid_until = 0.0
        self._is_alone = False
        self._is_leader = False
        self._revision = 0
        """Of etcd, when the keys were last read."""
        self._leading = asyncio.Condition()
        self.members = 0
        """Servers that are known, this one included."""

    # -- what others ask

    @property
    def is_alone(self) -> bool:
        """Whether no other server can have acknowledged anything since this one was alone."""
        return self._is_alone and time.monotonic() < self._valid_until

    @property
    def lease(self) -> int:
        """What is bound to it in etcd goes when this server does not live any more."""
        return self._lease

    @property
    def is_leader(self) -> bool:
        return self._is_leader and time.monotonic() < self._valid_until

    async def leading(self, wanted: bool) -> None:
        """Return when this server is the leader, or is not any more."""
        async with self._leading:
            await self._leading.wait_for(lambda: self._is_leader == wanted)

    # -- the lease

    async def join(self) -> None:
        """Become a member that may write. Raises StoreError."""
        sent = time.monotonic()
        granted = await self._client.grant(LEASE_SECONDS, _CALL_SECONDS)
        self._lease = int(granted.ID)
        self._valid_until = sent + int(granted.TTL) - MARGIN
        put = await self._client.txn(
            messages.TxnRequest(success=[self._put(self._own)]), _CALL_SECONDS
        )
        fence = Fence(self._own, int(put.header.revision))
        await self._wait_until_writable()
        self._set_fence(fence)

    async def _wait_until_writable(self) -> None:
        """Another server may still rely on being alone."""
        while True:
            state = await self._read()
            holder = state.get(self._alone_key)
            if holder is None or holder.value == self._server:  # ours is of an earlier process
                return
            try:
                async with asyncio.timeout(_KEEP_SECONDS):
                    await self._wait_for_change()
            except TimeoutError:
                await self._keep_alive()

    async def keep(self) -> None:
        """Keep the lease alive, for ever; join again when it has ended."""
        while True:
            try:
                await self._keep_alive()
            except StoreError as error:
                if time.monotonic() >= self._valid_until:
                    await self._lost(error)
                    await self._join_again()
                else:
                    await asyncio.sleep(_RETRY_SECONDS)
            else:
                await asyncio.sleep(_KEEP_SECONDS)

    async def _keep_alive(self) -> None:
        sent = time.monotonic()
        left = self._valid_until - sent
        if left <= 0:
            raise StoreUnavailable("the lease of this server was not kept alive in time")
        lives = await self._client.keep_alive(self._lease, min(left, _CALL_SECONDS))
        if lives <= 0:
            self._valid_until = 0.0
            raise StoreUnavailable("the lease of this server has ended")
        self._valid_until = sent + lives - MARGIN

    async def _lost(self, error: StoreError) -> None:
        _log.warning("this server has lost its place among the servers on etcd: %s", error)
        self._set_fence(Fence(self._own, -1))  # nothing is written until it has joined again
        self._is_alone = False
        await self._set_leader(False)

    async def _join_again(self) -> None:
        while True:
            try:
                await self.join()
            except StoreError as error:
                _log.debug("joining the servers on etcd failed: %s", error)
                await asyncio.sleep(_RETRY_SECONDS)
            else:
                _log.info("this server has joined the servers on etcd again")
                return

    async def leave(self) -> None:
        """Others take over at once."""
        self._is_alone = False
        await self._set_leader(False)
        if self._lease:
            try:
                await self._client.revoke(self._lease, _CALL_SECONDS)
            except StoreError as error:
                _log.info("the lease of this server ends by itself: %s", error)
            self._lease = 0

    # -- the keys

    async def follow(self) -> None:
        """Look at the keys whenever one of them has changed, for ever."""
        while True:
            try:
                await self._look()
                await self._wait_for_change()
            except StoreError as error:
                _log.debug("the servers on etcd cannot be followed: %s", error)
                await asyncio.sleep(_RETRY_SECONDS)

    async def _wait_for_change(self) -> None:
        watch = self._client.watch(self._start, self._end, self._revision + 1)
        try:
            async for response in watch.responses():
                if response.events:
                    return
        finally:
            watch.end()

    async def _look(self) -> None:
        state = await self._read()
        others = [key for key in state if key.startswith(self._members) and key != self._own]
        self.members = len(others) + (self._own in state)
        if others and self._is_alone:
            self._is_alone = False  # before etcd, and so the new server, knows
            await self._client.txn(
                messages.TxnRequest(success=[_delete(self._alone_key)]), _CALL_SECONDS
            )
        elif not others and not self._is_alone and self._own in state:
            await self._take_alone()
        leader = state.get(self._leader_key)
        if leader is None or leader.value == self._server:
            await self._take_lead(leader)

    async def _take_alone(self) -> None:
        lease = self._lease
        compares = [
            _absent(self._members, self._own),
            _absent(self._own + b"\0", self._members[:-1] + b"0"),
        ]
        request = messages.TxnRequest(compare=compares, success=[self._put(self._alone_key)])
        response = await self._client.txn(request, _CALL_SECONDS)
        if response.succeeded:
            await self._catch_up()  # what others acknowledged while they were there
            self._is_alone = lease == self._lease

    async def _take_lead(self, found: Any) -> None:
        """`found`: the key of this very server, whose process may have been another one."""
        if found is not None and self._is_leader:
            return
        lease = self._lease
        revision = int(found.mod_revision) if found is not None else 0
        compares = [
            messages.Compare(
                result=messages.EQUAL,
                target=messages.MOD,
                key=self._leader_key,
                mod_revision=revision,
            )
        ]
        request = messages.TxnRequest(compare=compares, success=[self._put(self._leader_key)])
        response = await self._client.txn(request, _CALL_SECONDS)
        if response.succeeded and lease == self._lease:
            await self._set_leader(True)

    async def _set_leader(self, is_leader: bool) -> None:
        if is_leader != self._is_leader:
            _log.info("this server %s the controllers", "runs" if is_leader else "stops")
            async with self._leading:
                self._is_leader = is_leader
                self._leading.notify_all()

    async def _read(self) -> dict[bytes, Any]:
        request = messages.RangeRequest(key=self._start, range_end=self._end)
        response = await self._client.range(request, _CALL_SECONDS)
        self._revision = int(response.header.revision)
        return {kv.key: kv for kv in response.kvs}

    def _put(self, key: bytes) -> Any:
        put = messages.PutRequest(key=key, value=self._server, lease=self._lease)
        return messages.RequestOp(request_put=put)


def _absent(start: bytes, end: bytes) -> Any:
    """There is no key from `start` to before `end`."""
    return messages.Compare(
        result=messages.EQUAL, target=messages.MOD, key=start, range_end=end, mod_revision=0
    )


def _delete(key: bytes) -> Any:
    return messages.RequestOp(request_delete_range=messages.DeleteRangeRequest(key=key))
