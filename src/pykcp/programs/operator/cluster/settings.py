"""The settings of `kcp operator`."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Iterator

from pykcp.clients.kubeconfig import KubeconfigServer, load_endpoint
from pykcp.programs.kit.checks import choice, kubeconfig_problems, plain_address
from pykcp.programs.kit.flags import ignored
from pykcp.programs.kit.groups.logging import LoggingOptions
from pykcp.programs.kit.options import OptionGroup, option
from pykcp.programs.kit.settings import ProgramSettings

IN_CLUSTER = pathlib.Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where pods find the account that they run as."""
LEASE = "239f9f9a.operator.kcp.io"
OPERATOR, CERT_MANAGER = "operator", "cert-manager"
CONFIG, WORKLOAD = GROUPS = ("config", "workload")
"""What an operator does: Secrets, certificates and statuses; Deployments and Services."""


def _groups(flag: str, given: tuple[str, ...]) -> Iterator[str]:
    if not given:
        yield f"--{flag} must name at least one of {', '.join(GROUPS)}"
    for one in given:
        if one not in GROUPS:
            yield f'--{flag}: unknown controller group "{one}", must be one of {", ".join(GROUPS)}'


class HostClusterOptions(OptionGroup):
    """The cluster that installations run in."""

    TITLE = "Cluster"

    kubeconfig: str = option(
        "Kubeconfig of the cluster; the account of the pod that the program runs in if empty.", ""
    )
    context: str = option("Context of that kubeconfig; its current one if empty.", "")
    issue_with: str = option(
        "What issues certificates for which no issuer is named: operator, or cert-manager.",
        OPERATOR,
        check=choice(OPERATOR, CERT_MANAGER),
    )
    install_crds: bool = option("Install or update the CustomResourceDefinitions first.", False)

    def problems(self) -> Iterator[str]:
        yield from super().problems()
        if self.kubeconfig:
            yield from kubeconfig_problems("kubeconfig", self.kubeconfig, self.context)
        elif not (IN_CLUSTER / "token").exists():
            yield "--kubeconfig is required outside of a cluster"

    def endpoint(self) -> KubeconfigServer:
        if self.kubeconfig:
            return load_endpoint(self.kubeconfig, self.context)
        host = os.environ.get("KUBERNETES_SERVICE_HOST", "kubernetes.default.svc")
        port = os.environ.get("KUBERNETES_SERVICE_PORT", "443")
        host = f"[{host}]" if ":" in host else host
        return KubeconfigServer(
            f"https://{host}:{port}",
            authority_file=str(IN_CLUSTER / "ca.crt"),
            token_file=str(IN_CLUSTER / "token"),
        )

    def namespace(self) -> str:
        """The namespace of the lease: that of the pod."""
        path = IN_CLUSTER / "namespace"
        return path.read_text().strip() if not self.kubeconfig and path.exists() else "default"


class OperatorOptions(OptionGroup):
    TITLE = "Operator"
    OTHER = (
        ignored("enable-http2", "bool", False),
        ignored("feature-gates", "map", {}),
        ignored("metrics-secure", "bool", True),
        ignored("zap-log-level"),
        ignored("zap-encoder"),
        ignored("zap-time-encoding"),
        ignored("zap-devel", "bool", False),
        ignored("zap-stacktrace-level"),
    )

    metrics_bind_address: str = option(
        "Address of /metrics, :8443 for instance; 0 for none. It is served without TLS: let only the monitoring reach it.",
        "0",
        check=plain_address,
    )
    health_probe_bind_address: str = option(
        "Address of /healthz, /livez and /readyz; 0 for none.", ":8081", check=plain_address
    )
    enabled_controller_groups: tuple[str, ...] = option(
        "What this process does: config (certificates, Secrets, statuses), workload (Deployments and Services), or both. Processes with different groups can work side by side.",
        GROUPS,
        check=_groups,
    )
    leader_elect: bool = option("Work only while this process holds the lease.", False)
    lease_duration: float = option("Time after which another process may take the lease.", 15.0)

    @property
    def lease_name(self) -> str:
        """Processes with the same groups compete, others do not."""
        groups = set(self.enabled_controller_groups)
        return LEASE if groups == set(GROUPS) else f"{LEASE}-{'-'.join(sorted(groups))}"


class OperatorSettings(ProgramSettings):
    COMMAND = "kcp operator"

    host: HostClusterOptions = HostClusterOptions()
    operator: OperatorOptions = OperatorOptions()
    logging: LoggingOptions = LoggingOptions()
    shutdown_seconds: float = 5.0
