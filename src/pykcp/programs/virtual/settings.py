"""The settings of `virtual-workspaces`."""

from __future__ import annotations

from collections.abc import Iterator

from pykcp.programs.kit.checks import kubeconfig_problems
from pykcp.programs.kit.flags import ignored
from pykcp.programs.kit.groups.audit import PendingAuditOptions
from pykcp.programs.kit.groups.client_ca import ClientCAOptions
from pykcp.programs.kit.groups.logging import LoggingOptions
from pykcp.programs.kit.groups.request_header import RequestHeaderOptions
from pykcp.programs.kit.groups.serving import ServingOptions
from pykcp.programs.kit.options import OptionGroup, option
from pykcp.programs.kit.settings import ProgramSettings


class ShardAccessOptions(OptionGroup):
    """How the shard is reached whose virtual workspaces are served."""

    TITLE = "Shard"
    OTHER = (
        ignored("shard-external-url", hidden=True),
        ignored("authentication-kubeconfig"),
        # Requests are answered by the shard, which has the cache and the front-proxy at hand.
        ignored("cache-kubeconfig"),
        ignored("cache-server-kubeconfig-file"),
        ignored("external-logical-cluster-admin-kubeconfig"),
        ignored("authentication-skip-lookup", "bool", True),
        ignored("authentication-token-webhook-cache-ttl", "duration", 10.0),
        ignored("authentication-tolerate-lookup-failure", "bool", False),
        ignored("feature-gates", "map", {}),
        ignored("profiler-address"),
    )

    kubeconfig: str = option("Kubeconfig of a member of system:masters on the shard.", "")
    context: str = option("Context of that kubeconfig; its current one if empty.", "")

    def problems(self) -> Iterator[str]:
        if not self.kubeconfig:
            yield "--kubeconfig is required for this command"
        yield from kubeconfig_problems("kubeconfig", self.kubeconfig, self.context)


class VirtualWorkspacesSettings(ProgramSettings):
    COMMAND = "virtual-workspaces"

    shard: ShardAccessOptions = ShardAccessOptions()
    serving: ServingOptions = ServingOptions(secure_port=6444, cert_dir=".kcp")
    client_ca: ClientCAOptions = ClientCAOptions()
    request_header: RequestHeaderOptions = RequestHeaderOptions(requestheader_uid_headers=())
    audit: PendingAuditOptions = PendingAuditOptions()
    logging: LoggingOptions = LoggingOptions()
    shutdown_seconds: float = 10.0
