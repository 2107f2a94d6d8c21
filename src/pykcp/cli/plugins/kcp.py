"""The program kubectl-kcp: everything that has no short name of its own."""

from __future__ import annotations

from pykcp.cli.plugins.session import CONNECTION_FLAGS, LOG_FLAGS, WORKSPACE_FLAG
from pykcp.cli.plugins.shard import shard_command
from pykcp.cli.plugins.shell.command import Command, CommandInvocation
from pykcp.cli.plugins.shell.flags import PluginFlag
from pykcp.cli.plugins.workload.command import workload_command
from pykcp.cli.plugins.ws import workspace_command

_CLAIMS_EXAMPLES = """# list the claims of all bindings in this workspace, or of one binding
kubectl kcp claims get apibinding
kubectl kcp claims get apibinding cert-manager

# accept or reject them by resource and group, or by the identity of the claimed export
kubectl kcp claims accept cert-manager --resource=secrets
kubectl kcp claims reject cert-manager --resource=gateways.networking.istio.io
kubectl kcp claims accept cert-manager --identity-hash=5fdf7c7aaf407fd1594566869803f565bb84d22156
"""
_BIND_EXAMPLES = """# bind the export "widgets" of root:provider, with a custom name
kubectl kcp bind apiexport root:provider:widgets --name my-widgets

# bind it and accept one of its claims
kubectl kcp bind apiexport root:provider:widgets --accept-permission-claim secrets.core
"""
_SNAPSHOT_EXAMPLES = """# from a file: widgets.example.io becomes today.widgets.example.io
kubectl kcp crd snapshot -f crd.yaml --prefix today > schema.yaml

# from a cluster
kubectl get crd widgets.example.io -o yaml | kubectl kcp crd snapshot -f - --prefix today
"""
_PULL_EXAMPLES = """# print the CRDs of two resources of the current cluster, built-in kinds too
kubectl kcp pull-crds deployments.apps services

# write a file for each resource that the cluster has
kubectl kcp pull-crds --all --output-dir crds
"""
_COMPAT_EXAMPLES = """# whether objects of the first definition are accepted by the second
kubectl kcp compat existing.yaml new.yaml

# the definition that accepts only what both accept
kubectl kcp compat existing.yaml new.yaml --lcd > common.yaml
"""
_QUICKSTART = """Set up an example: workspaces, an API, and a consumer that binds it.

Scenarios:
  api-provider  an organization with a provider of an API (cowboys) and a consumer that binds it
  workspaces    an organization with a random tree of workspaces below it, to measure how fast they
                are created; see --tree-depth, --tree-count and --tree-seed

--cleanup deletes the workspaces of an earlier run.
"""


def _bind(invocation: CommandInvocation) -> None:
    from pykcp.cli.plugins.apis.bind import bind

    bind(invocation)


def _show_claims(invocation: CommandInvocation) -> None:
    from pykcp.cli.plugins.apis.claims import show

    show(invocation)


def _accept(invocation: CommandInvocation) -> None:
    from pykcp.cli.plugins.apis.claims import accept

    accept(invocation)


def _reject(invocation: CommandInvocation) -> None:
    from pykcp.cli.plugins.apis.claims import reject

    reject(invocation)


def _snapshot(invocation: CommandInvocation) -> None:
    from pykcp.cli.plugins.apis.snapshot import snapshot

    snapshot(invocation)


def _pull_crds(invocation: CommandInvocation) -> None:
    from pykcp.cli.plugins.apis.pull_crds import pull_crds

    pull_crds(invocation)


def _compat(invocation: CommandInvocation) -> int:
    from pykcp.cli.plugins.apis.compat import compat

    return compat(invocation)


def _quickstart(invocation: CommandInvocation) -> None:
    from pykcp.cli.plugins.quickstart.command import quickstart

    quickstart(invocation)


def _doctor(invocation: CommandInvocation) -> int:
    from pykcp.cli.plugins.doctor import doctor

    return doctor(invocation)


def _options(invocation: CommandInvocation) -> None:
    from pykcp.cli.plugins.shell.help import flag_lines

    print("These flags are accepted by all commands that connect to a server:\n")
    print(flag_lines([*CONNECTION_FLAGS, *LOG_FLAGS]), end="")


def kcp_command(version: str) -> Command:
    return Command(
        "kcp",
        "Manage kcp workspaces, API exports, bindings and permission claims.",
        children=(
            workspace_command(version, "kubectl kcp ws"),
            _bind_command(),
            _claims_command(),
            _crd_command(),
            _pull_command(),
            _compat_command(),
            workload_command(),
            shard_command(),
            _quickstart_command(),
            Command(
                "doctor",
                "Check the kubeconfig, the server, the current workspace and its APIs.",
                _doctor,
                flags=(WORKSPACE_FLAG, *CONNECTION_FLAGS),
            ),
            Command("options", "List the flags common to all commands.", _options),
        ),
        version=version,
        knows_children_only=True,
    )


def _bind_command() -> Command:
    return Command(
        "bind",
        "Bind APIs in the current workspace.",
        children=(
            Command(
                "apiexport",
                "Bind an APIExport of another workspace in the current one.",
                _bind,
                usage="<workspace path>:<export name>",
                examples=_BIND_EXAMPLES,
                flags=(
                    PluginFlag("name", "string", "Name of the APIBinding; defaults to the name of the export.",
                         ""),
                    PluginFlag("timeout", "duration", "How long to wait until it is bound.", 30.0),
                    PluginFlag("accept-permission-claim", "list",
                         "Claims to accept, as resource.group (core for the core group)."),
                    PluginFlag("reject-permission-claim", "list",
                         "Claims to reject, as resource.group (core for the core group)."),
                    PluginFlag("accept-all-permission-claims", "bool", "Accept all claims.", False),
                    PluginFlag("reject-all-permission-claims", "bool", "Reject all claims.", False),
                    WORKSPACE_FLAG,
                    *CONNECTION_FLAGS,
                ),
            ),
        ),
    )  # fmt: skip


def _claims_command() -> Command:
    flags = (
        PluginFlag("resource", "string", "Select claims by resource.group.", ""),
        PluginFlag(
            "identity-hash", "string", "Select the claim on the export with this identity.", ""
        ),
        WORKSPACE_FLAG,
        *CONNECTION_FLAGS,
    )
    return Command(
        "claims",
        "List, accept and reject permission claims of bindings.",
        examples=_CLAIMS_EXAMPLES,
        children=(
            Command(
                "get",
                "List claims.",
                children=(
                    Command(
                        "apibinding",
                        "List the claims of one or all bindings.",
                        _show_claims,
                        usage="[<name>]",
                        flags=(WORKSPACE_FLAG, *CONNECTION_FLAGS),
                        completes="bindings",
                    ),
                ),
            ),
            Command(
                "accept",
                "Accept claims of a binding.",
                _accept,
                usage="<binding>",
                flags=flags,
                completes="bindings",
            ),
            Command(
                "reject",
                "Reject claims of a binding.",
                _reject,
                usage="<binding>",
                flags=flags,
                completes="bindings",
            ),
        ),
    )


def _crd_command() -> Command:
    return Command(
        "crd",
        "Convert CustomResourceDefinitions.",
        children=(
            Command(
                "snapshot",
                "Convert CRDs to APIResourceSchemas.",
                _snapshot,
                usage="-f FILE --prefix PREFIX",
                examples=_SNAPSHOT_EXAMPLES,
                flags=(
                    PluginFlag("filename", "string", "File with the CRDs; - for standard input.", "",
                         "f", choices="files"),
                    PluginFlag("prefix", "string", "Prefix of the schema names.", ""),
                    PluginFlag("output", "string", "Output format: yaml or json.", "yaml", "o", choices="=json|yaml"),
                ),
            ),
        ),
    )  # fmt: skip


def _pull_command() -> Command:
    return Command(
        "pull-crds",
        "Print CRDs for the resources of a cluster, from its CRDs and its OpenAPI documents.",
        _pull_crds,
        usage="[<resource>.<group> ...]",
        examples=_PULL_EXAMPLES,
        flags=(
            PluginFlag("all", "bool", "Pull every resource that can be listed and watched.", False),
            PluginFlag("output-dir", "string", "Write files <resource>.<group>.yaml to this directory "
                 "instead of printing.", "", choices="files"),
            *CONNECTION_FLAGS,
        ),
    )  # fmt: skip


def _compat_command() -> Command:
    return Command(
        "compat",
        "Compare two CRDs and print what makes them incompatible, or what they have in common.",
        _compat,
        usage="<existing file> <new file>",
        examples=_COMPAT_EXAMPLES,
        flags=(
            PluginFlag("lcd", "bool", "Print the common definition, which may accept less than the "
                 "existing one.", False),
        ),
    )  # fmt: skip


def _quickstart_command() -> Command:
    return Command(
        "quickstart",
        "Set up example workspaces with an API, a provider and a consumer.",
        _quickstart,
        long=_QUICKSTART,
        flags=(
            PluginFlag("scenario", "string", "Scenario to set up: api-provider or workspaces.",
                 "api-provider", choices="=api-provider|workspaces"),
            PluginFlag("name-prefix", "string", "Prefix of the workspace names.", "quickstart"),
            PluginFlag("cleanup", "bool", "Delete the workspaces of an earlier run.",
                 False),
            PluginFlag("enter", "bool", "Enter the consumer's workspace at the end.", False),
            PluginFlag("with-samples", "bool", "Also create objects of the API.", False),
            PluginFlag("timeout", "duration", "Timeout of the whole command.", 600.0),
            PluginFlag("tree-depth", "int", "Maximum depth of the tree (workspaces).", 3),
            PluginFlag("tree-count", "int", "Number of workspaces to create (workspaces).", 50),
            PluginFlag("tree-seed", "int", "Seed of the random tree; 0 uses the current time "
                 "(workspaces).", 0),
            *CONNECTION_FLAGS,
        ),
    )  # fmt: skip
