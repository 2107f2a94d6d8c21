"""The settings of a shard: option groups, checked all at once, then frozen."""

from __future__ import annotations

from pykcp.auth.settings import SignInSettings
from pykcp.programs.kit.groups.audit import AuditOptions
from pykcp.programs.kit.groups.authentication import (
    AuthenticationOptions,
    OIDCOptions,
    sign_in_settings,
)
from pykcp.programs.kit.groups.authorization import AuthorizationOptions
from pykcp.programs.kit.groups.client_ca import ClientCAOptions
from pykcp.programs.kit.groups.connections import ConnectionOptions
from pykcp.programs.kit.groups.console import ConsoleOptions
from pykcp.programs.kit.groups.egress import EgressOptions
from pykcp.programs.kit.groups.fairness import FairnessOptions
from pykcp.programs.kit.groups.features import FeatureOptions
from pykcp.programs.kit.groups.logging import LoggingOptions
from pykcp.programs.kit.groups.multicluster import MulticlusterOptions
from pykcp.programs.kit.groups.request_header import RequestHeaderOptions
from pykcp.programs.kit.groups.service_accounts import ServiceAccountOptions
from pykcp.programs.kit.groups.serving import ShardServingOptions
from pykcp.programs.kit.groups.splitting import ShardSplittingOptions
from pykcp.programs.kit.groups.store import StoreOptions
from pykcp.programs.kit.groups.tracing import TracingOptions
from pykcp.programs.kit.groups.workers import WorkerOptions
from pykcp.programs.kit.settings import ProgramSettings
from pykcp.programs.shard.options import GenericOptions, ShardOptions, TenancyOptions


class ShardSettings(ProgramSettings):
    COMMAND = "kcp start"

    generic: GenericOptions = GenericOptions()
    features: FeatureOptions = FeatureOptions()
    serving: ShardServingOptions = ShardServingOptions()
    connections: ConnectionOptions = ConnectionOptions()
    shard: ShardOptions = ShardOptions()
    tenancy: TenancyOptions = TenancyOptions()
    store: StoreOptions = StoreOptions()
    client_ca: ClientCAOptions = ClientCAOptions()
    request_header: RequestHeaderOptions = RequestHeaderOptions()
    authentication: AuthenticationOptions = AuthenticationOptions()
    oidc: OIDCOptions = OIDCOptions()
    service_accounts: ServiceAccountOptions = ServiceAccountOptions()
    authorization: AuthorizationOptions = AuthorizationOptions()
    audit: AuditOptions = AuditOptions()
    fairness: FairnessOptions = FairnessOptions()
    workers: WorkerOptions = WorkerOptions()
    egress: EgressOptions = EgressOptions()
    multicluster: MulticlusterOptions = MulticlusterOptions()
    console: ConsoleOptions = ConsoleOptions()
    splitting: ShardSplittingOptions = ShardSplittingOptions()
    tracing: TracingOptions = TracingOptions()
    logging: LoggingOptions = LoggingOptions()
    shutdown_seconds: float = 10.0

    @property
    def sign_in(self) -> SignInSettings:
        """Authorities outside of the server: issuers, webhooks, bootstrap tokens."""
        return sign_in_settings(self.authentication, self.oidc, self.authorization)

    def problems(self) -> list[str]:
        found = super().problems() + self.sign_in.problems()
        if self.serving.serving_processes > 1 and self.store.etcd_servers:
            found.append(
                "--serving-processes needs the embedded store; with --etcd-servers start several servers instead"
            )
        return found
