"""The settings of `cluster-controller`."""

from __future__ import annotations

from collections.abc import Iterator

from pykcp.programs.kit.checks import kubeconfig_problems
from pykcp.programs.kit.flags import ignored
from pykcp.programs.kit.groups.logging import LoggingOptions
from pykcp.programs.kit.groups.multicluster import ClusterOptions
from pykcp.programs.kit.options import OptionGroup, option
from pykcp.programs.kit.settings import ProgramSettings


class ServerOptions(OptionGroup):
    """Which server the Clusters are on."""

    TITLE = "Control plane"
    OTHER = (ignored("apiresource-controller-threads", "int", 1),)

    kubeconfig: str = option(
        "Kubeconfig of the control plane: of an administrator of the shard, or with --workspace of a user with a role there.",
        "",
    )
    workspace: str = option("Serve the Clusters of this workspace only; of all if empty.", "")
    context: str = option("Context of that kubeconfig; its current one if empty.", "")

    def problems(self) -> Iterator[str]:
        if not self.kubeconfig:
            yield "--kubeconfig is required for this command"
        else:
            yield from kubeconfig_problems("kubeconfig", self.kubeconfig, self.context)


class ModeOptions(ClusterOptions):
    """The modes as flags of their own; without any, syncers are run by operators."""

    push_mode: bool = option(
        "Run the syncers of Clusters without spec.mode in this process.", False
    )
    push: bool = option("The same as --push-mode.", False)
    pull_mode: bool = option(
        "Install the syncers of Clusters without spec.mode in the clusters.", False
    )
    pull: bool = option("The same as --pull-mode.", False)

    def problems(self) -> Iterator[str]:
        yield from super().problems()
        if (self.push_mode or self.push) and (self.pull_mode or self.pull):
            yield "--push-mode and --pull-mode are mutually exclusive"

    def default_mode(self) -> str:
        if self.push_mode or self.push:
            return "Push"
        return "Pull" if self.pull_mode or self.pull else "None"


class ClusterControllerSettings(ProgramSettings):
    COMMAND = "cluster-controller"

    server: ServerOptions = ServerOptions()
    clusters: ModeOptions = ModeOptions(auto_publish_apis=False)
    logging: LoggingOptions = LoggingOptions()
