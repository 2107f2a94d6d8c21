"""The life of a cache server that runs alone."""

from __future__ import annotations

import asyncio
import logging
import pathlib
import signal
import sys
import time
from collections.abc import Coroutine
from typing import Any

from pykcp.aio.owner import TaskOwner
from pykcp.auth.authn.anonymous import Anonymous
from pykcp.auth.authn.chain import Authentication
from pykcp.auth.authn.x509 import CertificateVerifier, ClientCertificates
from pykcp.auth.certificates import ServingFiles, ensure_serving, serving_hosts
from pykcp.auth.files import CredentialError
from pykcp.cache.server import Cache, make_cache, make_server
from pykcp.cache.storing import start_store
from pykcp.observe import logging as logs
from pykcp.observe.metrics import Registry
from pykcp.observe.process import process_metrics
from pykcp.programs.cache.settings import CacheSettings
from pykcp.storage.compactor import Compactor
from pykcp.storage.errors import StoreError
from pykcp.wire.exchange import Application, Exchange, IncomingRequest
from pykcp.wire.listener import Listener, ListenError
from pykcp.wire.settings import TLSSettings, WireSettings

_log = logging.getLogger(__name__)


def run(settings: CacheSettings) -> int:
    """Run until a signal; the exit code of the program."""
    logs.set_up(settings.verbosity, settings.logging_format)
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        try:
            runner.run(_main(settings))
        except (CredentialError, ListenError, StoreError) as error:
            print(f"Error: {error}", file=sys.stderr)  # noqa: T201
            return 1
    return 0


def _loop_factory() -> Any:
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


async def _main(settings: CacheSettings) -> None:
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopping.set)
    async with running_cache(settings) as port:
        _log.info("serving on %s:%d", settings.bind_address, port)
        await stopping.wait()


class running_cache:  # noqa: N801  # used as `async with running(settings) as port`
    """A started cache server, as a context."""

    def __init__(self, settings: CacheSettings) -> None:
        self._settings = settings
        self._owner = TaskOwner("cache")

    async def __aenter__(self) -> int:
        settings = self._settings
        settings.root_directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._store = await start_store(settings.root_directory)
        try:
            return await self._start()
        except BaseException:  # the store's lock must not outlive a failed start
            await self._store.stop()
            raise

    async def _start(self) -> int:
        settings, metrics = self._settings, Registry()
        metrics.add(*process_metrics())
        await self._owner.__aenter__()
        self._cache: Cache = make_cache(self._store)
        server: Application = make_server(
            self._cache,
            _authentication(settings),
            metrics,
            lambda: f"{settings.bind_address}:{self._listener.port}",
            settings.authorization_always_allow_paths,
        )
        if settings.synthetic_delay:
            server = Delayed(server, settings.synthetic_delay)
        files = _serving(settings)
        tls = TLSSettings(str(files.certificate_file), str(files.key_file))
        self._listener = Listener(server, WireSettings(), tls)
        await self._listener.start(settings.bind_address, settings.secure_port)
        self._owner.start_restartable("compactor", Compactor(self._store).run)
        return self._listener.port

    async def __aexit__(self, *exc: object) -> None:
        self._cache.health.is_draining = True
        self._cache.hub.close()
        await self._listener.drain(self._settings.shutdown_seconds)
        await self._owner.stop()
        await self._store.stop()


def _serving(settings: CacheSettings) -> ServingFiles:
    if settings.tls_cert_file:
        certificate = pathlib.Path(settings.tls_cert_file)
        key = pathlib.Path(settings.tls_private_key_file)
        return ServingFiles(certificate, key, certificate.read_bytes())
    hosts = serving_hosts(settings.bind_address)
    return ensure_serving(settings.root_directory, hosts, time.time())


def _authentication(settings: CacheSettings) -> Authentication:
    """Client certificates, or nobody in particular."""
    certificates = None
    if settings.client_ca_file:
        verifier = CertificateVerifier(pathlib.Path(settings.client_ca_file).read_bytes())
        verifier.check_bundle()
        certificates = ClientCertificates(verifier)
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
