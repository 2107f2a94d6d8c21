"""The settings of `kcp-front-proxy`."""

from __future__ import annotations

from pykcp.programs.front_proxy.options import (
    FrontProxyOptions,
    GroupOptions,
    ProxyAccountOptions,
)
from pykcp.programs.kit.groups.authentication import OIDCOptions, TokenOptions
from pykcp.programs.kit.groups.client_ca import ClientCAOptions
from pykcp.programs.kit.groups.connections import ConnectionOptions
from pykcp.programs.kit.groups.console import ConsoleOptions
from pykcp.programs.kit.groups.egress import IssuerEgressOptions
from pykcp.programs.kit.groups.features import FeatureOptions
from pykcp.programs.kit.groups.logging import LoggingOptions
from pykcp.programs.kit.groups.request_header import RequestHeaderOptions
from pykcp.programs.kit.groups.root_directory import RootDirectoryOptions
from pykcp.programs.kit.groups.serving import ServingOptions
from pykcp.programs.kit.groups.tracing import TracingOptions
from pykcp.programs.kit.settings import ProgramSettings


class FrontProxySettings(ProgramSettings):
    COMMAND = "kcp-front-proxy"

    proxy: FrontProxyOptions = FrontProxyOptions()
    generic: RootDirectoryOptions = RootDirectoryOptions()
    serving: ServingOptions = ServingOptions(secure_port=443)
    connections: ConnectionOptions = ConnectionOptions()
    client_ca: ClientCAOptions = ClientCAOptions()
    request_header: RequestHeaderOptions = RequestHeaderOptions(requestheader_uid_headers=())
    groups: GroupOptions = GroupOptions()
    tokens: TokenOptions = TokenOptions()
    oidc: OIDCOptions = OIDCOptions()
    service_accounts: ProxyAccountOptions = ProxyAccountOptions()
    egress: IssuerEgressOptions = IssuerEgressOptions()
    features: FeatureOptions = FeatureOptions()
    console: ConsoleOptions = ConsoleOptions()
    tracing: TracingOptions = TracingOptions()
    logging: LoggingOptions = LoggingOptions()
    shutdown_seconds: float = 10.0
