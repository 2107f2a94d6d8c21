"""The settings of `syncer`."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator

from pykcp.programs.kit.checks import kubeconfig_problems, positive
from pykcp.programs.kit.flags import ignored
from pykcp.programs.kit.groups.logging import LoggingOptions
from pykcp.programs.kit.options import OptionGroup, option
from pykcp.programs.kit.settings import ProgramSettings

IN_CLUSTER = pathlib.Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where pods find the account that they run as."""


class ControlPlaneOptions(OptionGroup):
    """Where the objects are written."""

    TITLE = "Control plane"

    from_kubeconfig: str = option("Kubeconfig of the control plane.", "")
    from_context: str = option("Context of that kubeconfig; its current one if empty.", "")
    from_cluster: str = option(
        "Logical cluster of the Cluster object; that of the kubeconfig's address if empty.", ""
    )
    workload_cluster_name: str = option("Name of the Cluster object.", "")
    workload_cluster_uid: str = option(
        "UID that the Cluster object must have. The syncer of a Cluster that was deleted stops "
        "working although another one has its name.",
        "",
    )

    def problems(self) -> Iterator[str]:
        if not self.from_kubeconfig:
            yield "--from-kubeconfig is required for this command"
        else:
            yield from kubeconfig_problems(
                "from-kubeconfig", self.from_kubeconfig, self.from_context
            )
        if not self.workload_cluster_name:
            yield "--workload-cluster-name is required for this command"


class DownstreamOptions(OptionGroup):
    """Where the objects run."""

    TITLE = "Cluster"

    to_kubeconfig: str = option(
        "Kubeconfig of the cluster; the account of the pod that the program runs in if empty.", ""
    )
    to_context: str = option("Context of that kubeconfig; its current one if empty.", "")

    def problems(self) -> Iterator[str]:
        if self.to_kubeconfig:
            yield from kubeconfig_problems("to-kubeconfig", self.to_kubeconfig, self.to_context)
        elif not (IN_CLUSTER / "token").exists():
            yield "--to-kubeconfig is required outside of a cluster"


class SyncOptions(OptionGroup):
    TITLE = "Synchronization"
    OTHER = (
        # Servers limit their clients themselves (429), and the number of workers is limited.
        ignored("qps", "float", 20.0),
        ignored("burst", "int", 30),
        ignored("sync-target-name"),
    )

    resources: tuple[str, ...] = option(
        "Types to synchronize, as plural.group or plural.version.group. The types that the Cluster "
        "object lists as accepted if empty.",
        (),
    )
    tunnel: bool = option(
        "Keep connections to the control plane open, through which users of the workspace read "
        "logs of their pods and run commands in them.",
        True,
    )
    workers: int = option("Objects to apply concurrently.", 16, check=positive)
    heartbeat_interval: float = option("Time between two reports.", 10.0, check=positive)
    lease_duration: float = option(
        "Time after which another syncer of the same Cluster takes over.", 10.0, check=positive
    )
    sweep_interval: float = option(
        "Time between two searches for objects without an origin.", 600.0, check=positive
    )
    namespace_clean_delay: float = option(
        "Time for which a namespace without objects is kept.", 30.0, check=positive
    )


class StatusOptions(OptionGroup):
    TITLE = "Health and metrics"

    metrics_bind_address: str = option(
        "HOST:PORT to serve /healthz, /readyz and /metrics on, without TLS. Not served if empty.",
        "",
    )

    def problems(self) -> Iterator[str]:
        host, _, port = self.metrics_bind_address.rpartition(":")
        if self.metrics_bind_address and not (host and port.isdigit()):
            yield f"--metrics-bind-address: {self.metrics_bind_address!r} is not HOST:PORT"

    @property
    def address(self) -> tuple[str, int] | None:
        host, _, port = self.metrics_bind_address.rpartition(":")
        return (host.strip("[]"), int(port)) if host else None


class SyncerSettings(ProgramSettings):
    COMMAND = "syncer"

    control_plane: ControlPlaneOptions = ControlPlaneOptions()
    downstream: DownstreamOptions = DownstreamOptions()
    sync: SyncOptions = SyncOptions()
    status: StatusOptions = StatusOptions()
    logging: LoggingOptions = LoggingOptions()
