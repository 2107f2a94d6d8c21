"""The life of `kcp-front-proxy`: read the mapping file, follow the shards, listen, drain."""

from __future__ import annotations

import pathlib
from collections.abc import Iterable, Sequence
from functools import partial

from pykcp.aio.owner import TaskOwner
from pykcp.clients.direct import Direct
from pykcp.clients.interface import Reader
from pykcp.clients.kubeconfig import load_endpoint
from pykcp.clients.peers import PeerAccess, Peers
from pykcp.clients.remote.connect import connect
from pykcp.observe.metrics import Gauge, Registry
from pykcp.observe.process import process_metrics
from pykcp.programs.front_proxy.options import ANY_SERVER
from pykcp.programs.front_proxy.settings import FrontProxySettings
from pykcp.programs.front_proxy.sign_in import ProxySignIn
from pykcp.programs.kit.groups.authentication import token_settings
from pykcp.programs.kit.housekeeping import Housekeeping
from pykcp.programs.kit.run import run_program
from pykcp.proxy.app import FrontProxy
from pykcp.proxy.freshness import RouteFreshness
from pykcp.proxy.lookup import RouteLookup, UnknownCluster
from pykcp.proxy.mapping import PathMapping, load_mappings
from pykcp.proxy.metrics import ProxyMetrics
from pykcp.proxy.pages import OwnPages
from pykcp.proxy.routes import RouteTable
from pykcp.proxy.shards import ShardDirectory, load_shards
from pykcp.proxy.type_issuers import TypeIssuerConfigurations
from pykcp.server.health import Health
from pykcp.wire.listener import Listener
from pykcp.wire.settings import WITHIN_INSTALLATION, ClientSettings

_NAME = "kcp-front-proxy"
_CONNECTIONS = ClientSettings(connect_timeout=3.0, ping_after=2.0, ping_timeout=2.0)
"""A shard that has stopped without closing its connections is noticed after some seconds."""
_REMEMBERED = "front-proxy-shards.json"


def run(settings: FrontProxySettings, warnings: Iterable[str] = ()) -> int:
    """Run until a signal; the exit code of the program."""
    return run_program(running_front_proxy(settings), settings.logging, warnings)


class running_front_proxy:  # noqa: N801  # a context, as those of other programs
    """The started program, as a context."""

    NAME = _NAME

    def __init__(self, settings: FrontProxySettings) -> None:
        self._settings = settings
        self._owner = TaskOwner("front-proxy")
        self._health = Health()

    async def __aenter__(self) -> int:
        settings = self._settings
        directory = settings.generic.make_root()
        serving = settings.serving
        files = serving.files(directory)
        self._build(directory, files.certificate_file)
        tls = serving.tls(files)
        application = settings.tracing.traced(serving.for_browsers(self._application), _NAME)
        self._listener = Listener(
            application, settings.connections.wire, tls, self._housekeeping.meter
        )
        await self._owner.__aenter__()
        try:
            self._start_background()
            await serving.listen(self._listener)
        except BaseException:  # a failed start must leave nothing behind
            await self._owner.stop()
            raise
        self._housekeeping.start()
        return self._listener.port

    def _build(self, directory: pathlib.Path, certificate: pathlib.Path) -> None:
        settings, options = self._settings, self._settings.proxy
        self._root = connect(options.root_kubeconfig, _NAME, settings=WITHIN_INSTALLATION)
        expected = load_shards(options.shards_file) if options.shards_file else ()
        self._shards = shards = ShardDirectory(self._root, directory / _REMEMBERED, expected)
        access = PeerAccess(load_endpoint(options.shards_kubeconfig, url=ANY_SERVER))
        self._peers = Peers("", access, shards.find, shards.all, _NAME)
        self._freshness = RouteFreshness(shards, self._peers)
        self._table = RouteTable(self._freshness.is_live)
        self._lookup = RouteLookup(self._table, shards, self._peers)
        types = TypeIssuerConfigurations(self._table, self._lookup, self._peers)
        self._sign_in = ProxySignIn(settings, self._owner_of, types)
        self._connections = Direct(_CONNECTIONS)
        rules = self._sign_in.rules
        metrics = Registry()
        self._housekeeping = Housekeeping(metrics)
        metrics.add(
            *process_metrics(),
            Gauge("pykcp_proxy_routes", "Routes in memory.", lambda: len(self._table)),
        )
        self._health.add("shards", self._shards_problem, only_ready=True)
        mappings = load_mappings(options.mapping_file)
        debug = {"/debug/certificates": partial(_certificates, settings, certificate, mappings)}
        self._application = FrontProxy(
            mappings,
            self._connections,
            rules,
            shards,
            self._table,
            self._lookup,
            OwnPages(self._health, metrics, rules.authentication, self._root, debug),
            ProxyMetrics(metrics),
            self._peers,
            settings.console.maker("front-proxy", token_settings(settings.tokens, settings.oidc)),
        )

    def _start_background(self) -> None:
        start = self._owner.start_restartable
        start("connections", self._connections.run)
        start("peers", self._peers.run)
        start("shards", self._shards.run)
        start("routes", lambda: self._freshness.run(self._table))
        for name, run in self._sign_in.tasks():
            start(name, run)

    async def _owner_of(self, cluster: str) -> Reader | None:
        try:
            route = await self._lookup.find(cluster)
        except UnknownCluster:
            return None
        return self._peers.client(route.shard) if route.shard else None

    def _shards_problem(self) -> str | None:
        return None if self._shards.is_known.is_set() else "no shard is known yet"

    async def __aexit__(self, *exc: object) -> None:
        self._housekeeping.stop()
        self._health.is_draining = True
        await self._listener.drain(self._settings.shutdown_seconds)
        await self._owner.stop()
        self._root.http.close()
        self._settings.tracing.stop()

    def announcement(self) -> Iterable[str]:
        yield f"serving on {self._settings.serving.bind_address}:{self._listener.port}"


def _certificates(
    settings: FrontProxySettings, certificate: pathlib.Path, mappings: Sequence[PathMapping]
) -> str:
    from pykcp.programs.kit.certificates import describe_certificates

    shown = {one.proxy_client_cert: None for one in mappings if one.proxy_client_cert}
    more = [("client of servers behind it", pathlib.Path(path)) for path in shown]
    return describe_certificates(settings, certificate, more)
