"""The life of a shard: start in order, be ready, drain, stop in reverse."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys

from pykcp.aio.garbage import Collector
from pykcp.aio.owner import TaskOwner
from pykcp.auth.files import CredentialError
from pykcp.cache.storing import start_store as start_cache_store
from pykcp.observe import logging as logs
from pykcp.observe.audit.policy import PolicyError
from pykcp.observe.loop_meter import LoopMeter
from pykcp.observe.stalls import StallWatchdog
from pykcp.programs.shard.bootstrap import bootstrap
from pykcp.programs.shard.bootstrap_root import bootstrap_root, root_options
from pykcp.programs.shard.connections import connection_metrics
from pykcp.programs.shard.credentials import Credentials
from pykcp.programs.shard.settings import SettingsError, ShardSettings
from pykcp.programs.shard.wiring import Shard, make_controllers, make_store, start_store, wire
from pykcp.server.held import identify
from pykcp.storage.compactor import Compactor
from pykcp.storage.errors import StoreError
from pykcp.wire.listener import Listener, ListenError
from pykcp.wire.settings import TLSSettings

_log = logging.getLogger(__name__)
_POLICY = ("rbac/bootstrap-roles", "kcp-bootstrap-policy")
_ROOT = ("kcp-start-informers", "kcp-start-cache-server", "kcp-start-virtual-workspaces")
_CONTROLLERS = ("kcp-start-controllers",)
"""The steps of a start under the names that kcp's health checks have for them."""


def run(settings: ShardSettings) -> int:
    """Run until a signal; the exit code of the program."""
    logs.set_up(settings.verbosity, settings.logging_format)
    try:
        import uvloop

        runner = asyncio.Runner(loop_factory=uvloop.new_event_loop)
    except ImportError:
        runner = asyncio.Runner()
    with runner:
        try:
            runner.run(_main(settings))
        except (CredentialError, ListenError, PolicyError, SettingsError, StoreError) as error:
            message = (
                error.strerror if isinstance(error, ListenError) and error.strerror else str(error)
            )
            print(f"Error: {message}", file=sys.stderr)  # noqa: T201
            return 1
    return 0


async def _main(settings: ShardSettings) -> None:
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopping.set)
    async with running_shard(settings):
        _log.info("kcp is ready")
        await stopping.wait()
        _log.info("stopping")


def _finish(shard: Shard, hooks: tuple[str, ...]) -> None:
    for hook in hooks:
        shard.health.finish_hook(hook)


class running_shard:  # noqa: N801  # used as `async with running(settings) as shard`
    """A started shard, as a context: the tests use it too."""

    def __init__(self, settings: ShardSettings) -> None:
        self._settings = settings
        self._owner = TaskOwner("shard")
        self._watchdog: StallWatchdog | None = None
        self._collector = Collector()

    async def __aenter__(self) -> Shard:
        settings = self._settings
        settings.root_directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._store = await start_store(make_store(settings))
        try:
            self._cache_store = await start_cache_store(
                settings.root_directory, is_sealed=bool(settings.encryption_provider_config)
            )
        except BaseException:  # the store's lock must not outlive a failed start
            await self._store.stop()
            raise
        try:
            return await self._start()
        except BaseException:  # likewise
            await self._stop_stores()
            raise

    async def _stop_stores(self) -> None:
        """Those who hear of the last events of one look into the other, which must be open."""
        await self._cache_store.drain()
        await self._store.stop()
        await self._cache_store.stop()

    async def _start(self) -> Shard:
        settings = self._settings
        credentials = Credentials(settings)
        await self._owner.__aenter__()
        self._shard = shard = wire(
            settings, self._store, self._cache_store, credentials, self._owner
        )
        self._meter = LoopMeter(shard.metrics)
        for hook in (*_POLICY, *_ROOT, *_CONTROLLERS):
            shard.health.await_hook(hook)
        files = credentials.serving
        self._listener = Listener(
            shard.server,
            settings.wire,
            TLSSettings(str(files.certificate_file), str(files.key_file)),
            self._meter,
        )
        shard.metrics.add(*connection_metrics(self._listener))
        await self._listener.start(settings.bind_address, settings.secure_port)
        try:
            await self._finish_start(shard, credentials)
        except BaseException:  # a failed start must leave nothing behind
            await self._listener.close()
            await self._owner.stop()
            raise
        return shard

    async def _finish_start(self, shard: Shard, credentials: Credentials) -> None:
        shard.port = self._listener.port
        shard.egress.listens_on(self._settings.bind_address, shard.port)
        credentials.publish(shard.port)
        await bootstrap(shard.client)
        _finish(shard, _POLICY)
        await bootstrap_root(shard.client, root_options(self._settings, credentials.address))
        _finish(shard, _ROOT)
        self._owner.start_restartable("compactor", Compactor(self._store).run)
        self._owner.start_restartable("cache-compactor", Compactor(self._cache_store).run)
        if self._settings.run_controllers:
            make_controllers(shard).start(self._owner)
        _finish(shard, _CONTROLLERS)
        self._collector.start()
        self._start_meter(shard)
        _log.info("serving on %s:%d", self._settings.bind_address, shard.port)

    def _start_meter(self, shard: Shard) -> None:
        threshold = self._settings.stall_log_threshold
        if threshold:
            self._watchdog = StallWatchdog(self._meter, threshold, identify, shard.metrics)
            self._watchdog.start()
        self._meter.on_end = lambda is_pause: self._collector.tick(is_pause=is_pause)
        self._meter.start(asyncio.get_running_loop())

    async def __aexit__(self, *exc: object) -> None:
        shard = self._shard
        if self._watchdog is not None:
            self._watchdog.stop()
        self._meter.stop()
        self._collector.stop()
        shard.health.is_draining = True
        shard.hub.close()
        shard.cache.hub.close()
        await self._listener.drain(self._settings.shutdown_seconds)
        await self._owner.stop()
        if shard.audit is not None:
            await shard.audit.stop()
        await self._stop_stores()
