"""The life of a shard: start in order, be ready, drain, stop in reverse."""

from __future__ import annotations

import pathlib
import time
from collections.abc import Iterable
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING

from pykcp.aio.owner import TaskOwner
from pykcp.observe.stalls import StallWatchdog
from pykcp.programs.cache.storing import new_seal, sealed
from pykcp.programs.cache.storing import start_store as start_cache_store
from pykcp.programs.kit.housekeeping import Housekeeping
from pykcp.programs.kit.run import run_program
from pykcp.programs.shard.bootstrap.policy import bootstrap
from pykcp.programs.shard.bootstrap.root import bootstrap_root, root_options
from pykcp.programs.shard.bootstrap.steps import repeated
from pykcp.programs.shard.connections import connection_metrics
from pykcp.programs.shard.credentials import Credentials
from pykcp.programs.shard.settings import ShardSettings
from pykcp.programs.shard.stages.stores import CACHE_PART, cache_file, make_store, start_store
from pykcp.programs.shard.wiring import Shard, make_controllers, wire
from pykcp.server.loop_holder import identify
from pykcp.storage.compactor import Compactor
from pykcp.storage.interface import Store
from pykcp.wire.exchange import Application
from pykcp.wire.listener import Listener

if TYPE_CHECKING:
    from pykcp.clients.peers import Peers
    from pykcp.programs.shard.servers.writer import ServingProcesses

_POLICY = ("rbac/bootstrap-roles", "kcp-bootstrap-policy")
_ROOT = ("kcp-start-informers", "kcp-start-cache-server", "kcp-start-virtual-workspaces")
_CONTROLLERS = ("kcp-start-controllers",)
"""The steps of a start under the names that kcp's health checks have for them."""


def run(settings: ShardSettings, warnings: Iterable[str] = ()) -> int:
    """Run until a signal; the exit code of the program."""
    return run_program(running_shard(settings), settings.logging, warnings)


def _finish(shard: Shard, hooks: tuple[str, ...]) -> None:
    for hook in hooks:
        shard.base.health.finish_hook(hook)


class running_shard:  # noqa: N801  # used as `async with running_shard(settings) as shard`
    """A started shard, as a context: the tests use it too."""

    NAME = "kcp"

    def __init__(self, settings: ShardSettings) -> None:
        self._settings = settings
        self._owner = TaskOwner("shard")
        self._watchdog: StallWatchdog | None = None
        self._processes: ServingProcesses | None = None
        self._seal = new_seal() if settings.store.is_encrypted else b""

    async def __aenter__(self) -> Shard:
        self._store, self._cache_store = await self._open_stores()
        try:
            return await self._start()
        except BaseException:  # likewise
            await self._stop_stores()
            raise

    async def _open_stores(self) -> tuple[Store, Store]:
        settings = self._settings
        root = settings.generic.make_root()
        if settings.serving.serving_processes > 1:
            from pykcp.programs.shard.servers.writer import ServingProcesses, with_shared_log

            self._settings = settings = with_shared_log(settings, rotates=True)
            self._processes = ServingProcesses(settings)
        log, cache_log = self._processes.logs if self._processes is not None else (None, None)
        store = await start_store(make_store(settings, log))
        try:
            is_kept = self._seal != b"" and await self._find_seal(store)
            if self._shares_cache(is_kept):
                cache_store = await self._open_shared_cache(root)
            else:
                cache_store = await start_cache_store(
                    root,
                    seal=self._seal,
                    followers=cache_log,
                    file=cache_file(settings),
                    is_kept=is_kept,
                )
        except BaseException:  # the store's lock must not outlive a failed start
            await store.stop()
            raise
        return store, cache_store

    def _shares_cache(self, is_kept: bool) -> bool:
        """Whether several servers may share the embedded cache, which the leader fills.

        With encryption at rest, they do if they have the key in common that seals it.
        """
        settings = self._settings
        is_embedded = not settings.shard.remote_cache
        return bool(settings.store.etcd_servers) and is_embedded and (is_kept or not self._seal)

    async def _open_shared_cache(self, root: pathlib.Path) -> Store:
        settings, seal = self._settings.store, self._seal
        plain = settings.in_etcd(root, part=CACHE_PART)
        if not seal:
            return await start_store(plain)
        await plain.erase()  # what was published before there was encryption
        own = f"{CACHE_PART}-{sha256(seal).hexdigest()[:12]}"
        store = sealed(settings.in_etcd(root, part=own), seal)
        await store.start()
        return store

    async def _find_seal(self, store: Store) -> bool:
        """Use the key of earlier processes and of other servers, if there are any to share with."""
        from pykcp.programs.shard.cache_seal import kept_seal, shared_seal

        settings = self._settings
        if settings.shard.remote_cache:
            found = await kept_seal(store)
        elif settings.store.etcd_servers:
            found = await shared_seal(store, self._seal)
        else:
            return False
        self._seal = found or self._seal
        return bool(found)

    def announcement(self) -> Iterable[str]:
        """Where it serves, where its files are, and a command to try."""
        settings = self._settings
        root = settings.generic.root_directory.absolute()
        yield f"serving on {settings.serving.bind_address}:{self._listener.port}"
        yield f"data is in {root}"
        if "admin" in settings.generic.batteries:
            kubeconfig = root / settings.generic.kubeconfig_path
            yield f"admin kubeconfig is {kubeconfig}; try: kubectl --kubeconfig={kubeconfig} get workspaces"

    async def _stop_stores(self) -> None:
        """Listeners of the last events of one store read the other one, which must still be open."""
        await self._cache_store.drain()
        await self._store.stop()
        await self._cache_store.stop()
        if self._processes is not None:
            self._processes.close()

    async def _start(self) -> Shard:
        settings = self._settings
        credentials = self._credentials()
        await self._owner.__aenter__()
        self._shard = shard = wire(settings, credentials, self._store, self._cache_store)
        self._housekeeping = Housekeeping(shard.base.metrics)
        for hook in (*_POLICY, *_ROOT, *_CONTROLLERS):
            shard.base.health.await_hook(hook)
        self._listener = Listener(
            settings.tracing.traced(
                settings.serving.for_browsers(self._application(shard)), self.NAME
            ),
            settings.connections.wire,
            settings.serving.tls(credentials.serving),
            self._housekeeping.meter,
        )
        shard.base.metrics.add(*connection_metrics(self._listener))
        try:
            self._start_background(shard)
            await self._settle_ownership(shard)
            await self._listen(shard)
            await self._finish_start(shard, credentials)
        except BaseException:  # a failed start must leave nothing behind
            await self._stop_processes(0.0)
            await self._listener.close()
            await self._stop_background(shard)
            raise
        return shard

    def _credentials(self) -> Credentials:
        return Credentials(self._settings)

    def _application(self, shard: Shard) -> Application:
        front: Application = shard.views.front
        single = self._settings.generic.kubernetes_cluster
        if single:
            from pykcp.server.single_cluster import SingleCluster

            front = SingleCluster(front, single)
        group = self._store.group
        if group is None or not self._settings.store.consistent_reads:
            return front
        from pykcp.programs.shard.servers.current_reads import CurrentReads

        return CurrentReads(front, self._store, group)

    def _start_controllers(self, shard: Shard) -> None:
        group = self._store.group
        if group is None:
            make_controllers(shard).start(self._owner)
            return
        from pykcp.programs.shard.servers.leadership import LedControllers

        led = LedControllers(group, partial(make_controllers, shard))
        self._owner.start_restartable("leadership", led.run)

    async def _listen(self, shard: Shard) -> None:
        serving = self._settings.serving
        host, port = serving.bind_address, serving.secure_port
        if self._processes is None:
            await serving.listen(self._listener)
        else:
            self._processes.listen(self._listener, shard.views.front, host, port)
            self._processes.show(shard.base.metrics)

    async def _stop_processes(self, seconds: float) -> None:
        if self._processes is not None:
            self._processes.stop_accepting()
            await self._processes.stop(seconds)

    async def _settle_ownership(self, shard: Shard) -> None:
        """A shard of several that was restored serves nothing that another one has."""
        peers = shard.catalog.peers
        if peers is None:
            return
        from pykcp.programs.shard.ownership import settle_ownership

        root = self._settings.generic.root_directory
        await settle_ownership(root, peers, shard.stores, shard.views.moving.outgoing)

    def _start_background(self, shard: Shard) -> None:
        if shard.api.audit is not None:
            shard.api.audit.start()
        for task in shard.tasks:
            self._owner.start_restartable(task.name, task.run)

    async def _stop_background(self, shard: Shard) -> None:
        await self._owner.stop()
        if shard.api.audit is not None:
            await shard.api.audit.stop()

    async def _finish_start(self, shard: Shard, credentials: Credentials) -> None:
        client = shard.catalog.client
        self._locate(shard, credentials)
        if shard.stores.mirror is not None:
            self._owner.start_restartable("cache-mirror", shard.stores.mirror.run)
        credentials.publish()
        await repeated(partial(bootstrap, client))
        _finish(shard, _POLICY)
        if self._settings.shard.is_root:
            options = root_options(self._settings, credentials.address)
            await repeated(partial(bootstrap_root, client, options))
        is_sealed = self._seal != b""
        if is_sealed and (shard.stores.mirror is not None or self._settings.store.etcd_servers):
            from pykcp.programs.shard.cache_seal import keep_seal

            await keep_seal(self._store, client, self._seal)
        if shard.catalog.peers is not None:
            await self._join(shard, credentials, shard.catalog.peers)
        _finish(shard, _ROOT)
        self._owner.start_restartable("compactor", Compactor(self._store).run)
        self._owner.start_restartable("cache-compactor", Compactor(self._cache_store).run)
        if self._settings.generic.run_controllers:
            self._start_controllers(shard)
        if self._settings.generic.kubernetes_cluster:
            from pykcp.programs.shard.bootstrap.api_server import own_server
            from pykcp.programs.shard.bootstrap.kubernetes import bootstrap_kubernetes

            name = self._settings.generic.kubernetes_cluster
            await bootstrap_kubernetes(client, name, own_server(self._settings, credentials))
        if self._settings.shard.is_root and "kubernetes" in self._settings.generic.batteries:
            from pykcp.programs.shard.bootstrap.kubernetes import bootstrap_export

            await bootstrap_export(client)
        if self._processes is not None:
            self._processes.start(credentials.tokens, self._seal)
        self._start_housekeeping(shard)
        _finish(shard, _CONTROLLERS)  # the last step: from now on the process is ready

    async def _join(self, shard: Shard, credentials: Credentials, peers: Peers) -> None:
        """One of several shards. What other shards are needed for goes on in the background."""
        from pykcp.programs.shard.bootstrap.own_cluster import (
            bootstrap_shard,
            shard_object,
            shard_urls,
        )
        from pykcp.programs.shard.heartbeat import Heartbeat
        from pykcp.programs.shard.joining import Joining

        options, client = self._settings.shard, shard.catalog.client
        own = shard_object(options.shard_name, shard_urls(options, credentials.address))
        if not options.is_root:
            await repeated(partial(bootstrap_shard, client, own))
            joining = Joining(peers, client, shard.catalog.lookup, own)
            self._owner.start_restartable("join", joining.run)
        heartbeat = Heartbeat(self._store, client, options.shard_name)
        self._owner.start_restartable("heartbeat", heartbeat.run)

    def _locate(self, shard: Shard, credentials: Credentials) -> None:
        """The port is known."""
        port = self._listener.port
        shard.base.egress.listens_on(self._settings.serving.bind_address, port)
        credentials.locate(port)

    def _start_housekeeping(self, shard: Shard) -> None:
        meter = self._housekeeping.meter
        threshold = self._settings.fairness.stall_log_threshold
        if threshold:
            self._watchdog = StallWatchdog(meter, threshold, identify, shard.base.metrics)
            self._watchdog.start()
        self._housekeeping.start()

    async def __aexit__(self, *exc: object) -> None:
        shard = self._shard
        if self._watchdog is not None:
            self._watchdog.stop()
        self._housekeeping.stop()
        shard.base.health.is_draining = True
        shard.stores.hub.close()
        shard.stores.cache.hub.close()
        shard.views.where.close()
        if self._processes is not None:
            self._processes.stop_accepting()
        until = time.monotonic() + self._settings.shutdown_seconds  # for all processes together
        await self._listener.drain(self._settings.shutdown_seconds)
        await self._stop_processes(max(until - time.monotonic(), 0.0))
        await self._stop_background(shard)
        await self._stop_stores()
        self._settings.tracing.stop()
