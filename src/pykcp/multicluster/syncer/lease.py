"""One active syncer of a Cluster: a Lease in the workspace, held as leader election does it.

Whether another holder is alive is judged by changes of its lease, seen by this process's clock:
the clocks of two machines need not agree.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable

from pykcp.aio.owner import spawn
from pykcp.clients.interface import Client
from pykcp.machinery.meta import now_micro
from pykcp.machinery.resources import GroupVersionResource
from pykcp.machinery.status import AlreadyExists, Conflict, StatusError
from pykcp.types import Object

_log = logging.getLogger(__name__)

LEASES = GroupVersionResource("coordination.k8s.io", "v1", "leases")
LEASE_NAMESPACE = "default"
_AGAIN = 1.0
"""Seconds between two attempts to get the lease, at most."""
_MARGIN = 0.01


def pause_before_attempt(left: float, lasts: float) -> float:
    """Seconds until the lease is tried again: soon, and when another holder's has run out.

    `left`: until then; `lasts`: how long a lease lasts.
    """
    again = min(_AGAIN, lasts / 5)
    return min(again, left + _MARGIN) if left > 0 else again


class SyncerLease:
    def __init__(
        self,
        client: Client,
        workspace: str,
        cluster: str,
        identity: str,
        seconds: float,
        clock: Callable[[], float] = time.monotonic,
        *,
        name: str = "",
        namespace: str = LEASE_NAMESPACE,
    ) -> None:
        """`name`: of the Lease, if it is not that of the syncer of a Cluster."""
        self._client, self._workspace, self._identity = client, workspace, identity
        self._name, self._namespace = name or f"syncer-{cluster}", namespace
        self._seconds, self._clock = seconds, clock
        self._seen: tuple[str, str] = ("", "")
        self._seen_at = 0.0
        self._free_at = 0.0
        """When the lease of another holder runs out, as far as it was seen."""
        self.holder = ""

    async def run(self, body: Callable[[], Awaitable[None]]) -> None:
        """Run the body while the lease is held; wait while another process holds it."""
        while True:
            if not await self._try_or_log():
                left = self._free_at - self._clock()
                await asyncio.sleep(pause_before_attempt(left, self._seconds))
                continue
            _log.info("%s holds the lease %s", self._identity, self._name)
            task = spawn(_run(body), "syncer/leading")
            try:
                await self._keep(task)
            except StatusError as error:
                _log.warning("the API server failed, again in %g s: %s", _AGAIN, error)
                await asyncio.sleep(_AGAIN)
            finally:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

    async def _try_or_log(self) -> bool:
        """A server that is away is asked again soon."""
        try:
            return await self._try()
        except StatusError as error:
            _log.warning("the lease %s: %s", self._name, error)
            return False

    async def _keep(self, task: asyncio.Task[None]) -> None:
        """Renew until the lease is lost. Without an answer it counts as lost when it expires."""
        renewed = self._clock()
        while True:
            done, _ = await asyncio.wait({task}, timeout=self._seconds / 3)
            if done:
                task.result()
                return
            try:
                if not await asyncio.wait_for(self._try(), self._seconds / 3):
                    _log.warning("the lease %s is held by %s now", self._name, self.holder)
                    return
                renewed = self._clock()
            except (StatusError, TimeoutError) as error:
                if self._clock() - renewed > self._seconds * 2 / 3:
                    _log.warning("the lease %s could not be renewed: %s", self._name, error)
                    return

    async def release(self) -> None:
        """Let another process take over at once."""
        live = await self._client.get(self._workspace, LEASES, self._name, self._namespace)
        if live is not None and (live.get("spec") or {}).get("holderIdentity") == self._identity:
            live["spec"]["holderIdentity"] = ""
            await self._client.update(self._workspace, LEASES, live)

    async def _try(self) -> bool:
        """Acquire or renew; whether it is held."""
        live = await self._client.get(self._workspace, LEASES, self._name, self._namespace)
        try:
            if live is None:
                await self._client.create(self._workspace, LEASES, self._fresh())
                self.holder = self._identity
                return True
            spec = live.setdefault("spec", {})
            if not self._may_take(spec):
                return False
            if spec.get("holderIdentity") != self._identity:
                spec["leaseTransitions"] = (spec.get("leaseTransitions") or 0) + 1
                spec["acquireTime"] = now_micro(time.time())
            spec |= self._claim()
            await self._client.update(self._workspace, LEASES, live)
        except (Conflict, AlreadyExists):
            return False  # another process was quicker
        self.holder = self._identity
        return True

    def _may_take(self, spec: Object) -> bool:
        self.holder = spec.get("holderIdentity") or ""
        if self.holder in ("", self._identity):
            return True
        seen = (self.holder, spec.get("renewTime") or "")
        if seen != self._seen:
            self._seen, self._seen_at = seen, self._clock()
        lasts = float(spec.get("leaseDurationSeconds") or self._seconds)
        self._free_at = self._seen_at + min(lasts, max(self._seconds, 1.0))
        return self._clock() > self._free_at

    def _claim(self) -> Object:
        return {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": max(1, round(self._seconds)),
            "renewTime": now_micro(time.time()),
        }

    def _fresh(self) -> Object:
        return {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": self._name, "namespace": self._namespace},
            "spec": self._claim() | {"acquireTime": now_micro(time.time()), "leaseTransitions": 0},
        }


async def _run(body: Callable[[], Awaitable[None]]) -> None:
    await body()
