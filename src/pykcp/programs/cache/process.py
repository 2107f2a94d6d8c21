"""The life of a cache server that runs alone."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Iterable
from typing import Any

from pykcp.aio.owner import TaskOwner
from pykcp.auth.authn.anonymous import Anonymous
from pykcp.auth.authn.chain import Authentication
from pykcp.cache.server import Cache, make_cache, make_server
from pykcp.observe.metrics import Registry
from pykcp.observe.process import process_metrics
from pykcp.programs.cache.settings import CacheSettings
from pykcp.programs.cache.storing import start_store
from pykcp.programs.kit.housekeeping import Housekeeping
from pykcp.programs.kit.run import run_program
from pykcp.storage.compactor import Compactor
from pykcp.storage.interface import Store
from pykcp.wire.exchange import Application, Exchange, IncomingRequest
from pykcp.wire.listener import Listener
from pykcp.wire.settings import WireSettings


def run(settings: CacheSettings, warnings: Iterable[str] = ()) -> int:
    """Run until a signal; the exit code of the program."""
    return run_program(running_cache(settings), settings.logging, warnings)


class running_cache:  # noqa: N801  # used as `async with running_cache(settings) as port`
    """A started cache server, as a context."""

    NAME = "cache-server"

    def __init__(self, settings: CacheSettings) -> None:
        self._settings = settings
        self._owner = TaskOwner("cache")

    async def __aenter__(self) -> int:
        self._store = await self._open_store()
        try:
            return await self._start()
        except BaseException:  # the store's lock must not outlive a failed start
            await self._store.stop()
            raise

    async def _open_store(self) -> Store:
        root = self._settings.generic.make_root()
        if not self._settings.store.etcd_servers:
            return await start_store(root)
        store = self._settings.store.in_etcd(root)
        await store.start()
        return store

    async def _start(self) -> int:
        settings, serving, metrics = self._settings, self._settings.serving, Registry()
        metrics.add(*process_metrics())
        await self._owner.__aenter__()
        self._cache: Cache = make_cache(self._store)
        server: Application = make_server(
            self._cache,
            _authentication(settings),
            metrics,
            self._address,
            settings.authorization.authorization_always_allow_paths,
        )
        if settings.cache.synthetic_delay:
            server = Delayed(server, settings.cache.synthetic_delay)
        tls = serving.tls(serving.files(settings.generic.root_directory))
        self._housekeeping = Housekeeping(metrics)
        self._listener = Listener(
            serving.for_browsers(server), WireSettings(), tls, self._housekeeping.meter
        )
        await serving.listen(self._listener)
        self._owner.start_restartable("compactor", Compactor(self._store).run)
        if settings.cache.upstream_kubeconfig:
            self._link_upstream(settings.cache.upstream_kubeconfig)
        self._housekeeping.start()
        return self._listener.port

    def _link_upstream(self, kubeconfig: str) -> None:
        from pykcp.cache.remote import connect_cache
        from pykcp.cache.upstream import UpstreamLink

        link = UpstreamLink(connect_cache(kubeconfig, "cache-server"), self._cache)
        self._owner.start_restartable("upstream", link.run)

    def _address(self) -> str:
        return f"{self._settings.serving.bind_address}:{self._listener.port}"

    def announcement(self) -> Iterable[str]:
        yield f"serving on {self._address()}"
        yield f"data is in {self._settings.generic.root_directory.absolute()}"

    async def __aexit__(self, *exc: object) -> None:
        self._housekeeping.stop()
        self._cache.health.is_draining = True
        self._cache.hub.close()
        await self._listener.drain(self._settings.shutdown_seconds)
        await self._owner.stop()
        await self._store.stop()


def _authentication(settings: CacheSettings) -> Authentication:
    """Client certificates; requests without one are anonymous."""
    certificates = settings.client_ca.authenticator()
    return Authentication(clock=time.time, certificates=certificates, anonymous=Anonymous())


class Delayed:
    """Lets every request wait before it is looked at."""

    def __init__(self, application: Application, seconds: float) -> None:
        self._application, self._seconds = application, seconds

    def wants_streaming(self, request: IncomingRequest) -> bool:
        return self._application.wants_streaming(request)

    def identify(self, exchange: Exchange) -> bool | Coroutine[Any, Any, bool]:
        return self._application.identify(exchange)

    def handle(self, exchange: Exchange) -> Coroutine[Any, Any, None]:
        return self._later(exchange)

    async def _later(self, exchange: Exchange) -> None:
        await asyncio.sleep(self._seconds)
        pending = self._application.handle(exchange)
        if pending is not None:
            await pending
