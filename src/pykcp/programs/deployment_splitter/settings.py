"""The settings of `deployment-splitter`."""

from __future__ import annotations

from collections.abc import Iterator

from pykcp.programs.kit.checks import kubeconfig_problems
from pykcp.programs.kit.groups.logging import LoggingOptions
from pykcp.programs.kit.groups.splitting import SplittingOptions
from pykcp.programs.kit.options import OptionGroup, option
from pykcp.programs.kit.settings import ProgramSettings


class WorkspaceOptions(OptionGroup):
    """Where the workloads are."""

    TITLE = "Workspace"

    kubeconfig: str = option("Kubeconfig of the control plane.", "")
    context: str = option("Context of that kubeconfig; its current one if empty.", "")
    workspace: str = option(
        "Logical cluster of the workloads, * for those of all that are served by Clusters; that of the "
        "kubeconfig's address if empty, and all if it names none.",
        "",
    )

    def problems(self) -> Iterator[str]:
        if not self.kubeconfig:
            yield "--kubeconfig is required for this command"
        else:
            yield from kubeconfig_problems("kubeconfig", self.kubeconfig, self.context)


class SplitterProgramSettings(ProgramSettings):
    COMMAND = "deployment-splitter"

    workspace: WorkspaceOptions = WorkspaceOptions()
    splitting: SplittingOptions = SplittingOptions()
    logging: LoggingOptions = LoggingOptions()
