"""The program kubectl-kcp: everything that has no short name of its own."""

from __future__ import annotations

from pykcp.cli.plugins.session import CONNECTION_FLAGS, LOG_FLAGS, WORKSPACE_FLAG
from pykcp.cli.plugins.shell.command import Command, CommandInvocation
from pykcp.cli.plugins.shell.flags import PluginFlag
from pykcp.cli.plugins.ws import workspace_command

_CLAIMS_EXAMPLES = """# claims of all bindings in this workspace, or of one
kubectl kcp claims get apibinding
kubectl kcp claims get apibinding cert-manager

# answer them: by resource and group, or by the identity of the export that is claimed
kubectl kcp claims accept cert-manager --resource=secrets
kubectl kcp claims reject cert-manager --resource=gateways.networking.istio.io
kubectl kcp claims accept cert-manager --identity-hash=5fdf7c7aaf407fd1594566869803f565bb84d22156
"""
_BIND_EXAMPLES = """# bind the export "widgets" of root:provider, under a name of your own
kubectl kcp bind apiexport root:provider:widgets --name my-widgets

# and answer its claims at once
kubectl kcp bind apiexport root:provider:widgets --accept-permission-claim secrets.core
"""
_SNAPSHOT_EXAMPLES = """# from a file: widgets.example.io becomes today.widgets.example.io
kubectl kcp crd snapshot -f crd.yaml --prefix today > schema.yaml

# from a cluster
kubectl get crd widgets.example.io -o yaml | kubectl kcp crd snapshot -f - --prefix today
"""
_QUICKSTART = """Set up something to look at: workspaces, an API, and a consumer that binds it.

Scenarios:
  api-provider  an organization with a provider of an API (cowboys) and a consumer that binds it
  workspaces    an organization with a random tree of workspaces below it, to see how fast they are
                made; --tree-depth, --tree-count and --tree-seed shape it

--cleanup removes what an earlier run has made.
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


def _quickstart(invocation: CommandInvocation) -> None:
    from pykcp.cli.plugins.quickstart.command import quickstart

    quickstart(invocation)


def _options(invocation: CommandInvocation) -> None:
    from pykcp.cli.plugins.shell.help import flag_lines

    print("These flags can be given to any command that talks to a server:\n")
    print(flag_lines([*CONNECTION_FLAGS, *LOG_FLAGS]), end="")


def kcp_command(version: str) -> Command:
    return Command(
        "kcp",
        "Work with kcp: workspaces, API exports and bindings, claims.",
        children=(
            workspace_command(version, "kubectl kcp ws"),
            _bind_command(),
            _claims_command(),
            _crd_command(),
            _quickstart_command(),
            Command("options", "List the flags that all commands share.", _options),
        ),
        version=version,
        knows_children_only=True,
    )


def _bind_command() -> Command:
    return Command(
        "bind",
        "Bind APIs into the current workspace.",
        children=(
            Command(
                "apiexport",
                "Bind an APIExport of any workspace into the current one.",
                _bind,
                usage="<workspace path>:<export name>",
                examples=_BIND_EXAMPLES,
                flags=(
                    PluginFlag("name", "string", "Name of the APIBinding; the export's unless given.",
                         ""),
                    PluginFlag("timeout", "duration", "How long to wait until it is bound.", 30.0),
                    PluginFlag("accept-permission-claim", "list",
                         "Claims to accept, each as resource.group (core for the core group)."),
                    PluginFlag("reject-permission-claim", "list",
                         "Claims to reject, each as resource.group (core for the core group)."),
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
        PluginFlag("resource", "string", "The claims on this resource.group.", ""),
        PluginFlag("identity-hash", "string", "The claim on the export with this identity.", ""),
        WORKSPACE_FLAG,
        *CONNECTION_FLAGS,
    )
    return Command(
        "claims",
        "See and answer the permission claims of bindings.",
        examples=_CLAIMS_EXAMPLES,
        children=(
            Command(
                "get",
                "Show claims.",
                children=(
                    Command(
                        "apibinding",
                        "Show the claims of one binding, or of all.",
                        _show_claims,
                        usage="[<name>]",
                        flags=(WORKSPACE_FLAG, *CONNECTION_FLAGS),
                        offers="bindings",
                    ),
                ),
            ),
            Command(
                "accept",
                "Accept claims of a binding.",
                _accept,
                usage="<binding>",
                flags=flags,
                offers="bindings",
            ),
            Command(
                "reject",
                "Reject claims of a binding.",
                _reject,
                usage="<binding>",
                flags=flags,
                offers="bindings",
            ),
        ),
    )


def _crd_command() -> Command:
    return Command(
        "crd",
        "Work with CustomResourceDefinitions.",
        children=(
            Command(
                "snapshot",
                "Turn CRDs into APIResourceSchemas.",
                _snapshot,
                usage="-f FILE --prefix PREFIX",
                examples=_SNAPSHOT_EXAMPLES,
                flags=(
                    PluginFlag("filename", "string", "The file with the CRDs; - is standard input.", "",
                         "f", choices="files"),
                    PluginFlag("prefix", "string", "What the schema's name begins with.", ""),
                    PluginFlag("output", "string", "yaml or json.", "yaml", "o", choices="=json|yaml"),
                ),
            ),
        ),
    )  # fmt: skip


def _quickstart_command() -> Command:
    return Command(
        "quickstart",
        "Set up workspaces with an API, a provider and a consumer, to try things out.",
        _quickstart,
        long=_QUICKSTART,
        flags=(
            PluginFlag("scenario", "string", "What to set up: api-provider or workspaces.",
                 "api-provider", choices="=api-provider|workspaces"),
            PluginFlag("name-prefix", "string", "What the workspaces' names begin with.", "quickstart"),
            PluginFlag("cleanup", "bool", "Delete what an earlier run has made, with all below it.",
                 False),
            PluginFlag("enter", "bool", "Go to the consumer's workspace at the end.", False),
            PluginFlag("with-samples", "bool", "Make objects of the API, too.", False),
            PluginFlag("timeout", "duration", "How long everything may take.", 600.0),
            PluginFlag("tree-depth", "int", "How deep the tree may be (workspaces).", 3),
            PluginFlag("tree-count", "int", "How many workspaces to make (workspaces).", 50),
            PluginFlag("tree-seed", "int", "Start of the random numbers that shape the tree; 0 takes "
                 "the clock (workspaces).", 0),
            *CONNECTION_FLAGS,
        ),
    )  # fmt: skip
