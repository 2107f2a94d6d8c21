"""The commands `kubectl kcp workload …`."""

from __future__ import annotations

from pykcp.cli.plugins.session import CONNECTION_FLAGS, WORKSPACE_FLAG
from pykcp.cli.plugins.shell.command import Command, CommandInvocation
from pykcp.cli.plugins.shell.flags import PluginFlag

_EXAMPLES = """# bring the kinds to the current workspace
kubectl kcp bind apiexport root:workload.kcp.dev

# register a cluster that pulls its workloads; the manifest has a credential
kubectl kcp workload sync east --syncer-image registry.example.com/syncer -o syncer.yaml
KUBECONFIG=east.kubeconfig kubectl apply -f syncer.yaml

# keep new workloads away, then move all that run there
kubectl kcp workload cordon east
kubectl kcp workload drain east
kubectl kcp workload uncordon east

# where a workload runs, and why
kubectl kcp workload explain deployment/web
"""

_SYNC_FLAGS = (
    PluginFlag("syncer-image", "string", "Image with the program syncer.", ""),
    PluginFlag(
        "resources",
        "list",
        "Types to synchronize, as plural.group; the usual types of workloads if empty.",
    ),
    PluginFlag("replicas", "int", "Replicas of the syncer: 0 or 1.", 1),
    PluginFlag(
        "kcp-url",
        "string",
        "URL of the control plane as the cluster reaches it; that of the kubeconfig if empty.",
        "",
    ),
    PluginFlag(
        "tunnel",
        "bool",
        "Let users of the workspace read logs of their pods and run commands in them, through "
        "connections that the syncer opens.",
        True,
    ),
    PluginFlag(
        "output-file",
        "string",
        "File for the manifest, readable by you only; standard output if empty.",
        "",
        "o",
    ),
)


def _sync(invocation: CommandInvocation) -> None:
    from pykcp.cli.plugins.workload.sync import sync

    sync(invocation)


def _cordon(invocation: CommandInvocation) -> None:
    from pykcp.cli.plugins.workload.clusters import cordon

    cordon(invocation)


def _uncordon(invocation: CommandInvocation) -> None:
    from pykcp.cli.plugins.workload.clusters import uncordon

    uncordon(invocation)


def _drain(invocation: CommandInvocation) -> None:
    from pykcp.cli.plugins.workload.clusters import drain

    drain(invocation)


def _explain(invocation: CommandInvocation) -> None:
    from pykcp.cli.plugins.workload.explain import explain

    explain(invocation)


def workload_command() -> Command:
    common = (WORKSPACE_FLAG, *CONNECTION_FLAGS)
    return Command(
        "workload",
        "Manage the clusters that run workloads of the current workspace.",
        examples=_EXAMPLES,
        children=(
            Command(
                "sync",
                "Register a cluster and print the manifest that runs its syncer.",
                _sync,
                usage="<cluster>",
                flags=(
                    *_SYNC_FLAGS,
                    *common,
                ),
            ),
            Command(
                "cordon",
                "Place no new workloads on a cluster.",
                _cordon,
                usage="<cluster>",
                flags=common,
            ),
            Command(
                "uncordon",
                "Place workloads on a cluster again.",
                _uncordon,
                usage="<cluster>",
                flags=common,
            ),
            Command(
                "explain",
                "Show the clusters of a workload, and why they were chosen.",
                _explain,
                usage="<kind>/<name>",
                flags=common,
            ),
            Command(
                "drain",
                "Move all workloads of a cluster to others.",
                _drain,
                usage="<cluster>",
                flags=common,
            ),
        ),
    )
