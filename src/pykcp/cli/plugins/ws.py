"""The command `workspace` of kubectl-kcp, which is the program kubectl-ws, and `create`."""

from __future__ import annotations

from pykcp.cli.plugins.session import CONNECTION_FLAGS, WORKSPACE_FLAG
from pykcp.cli.plugins.shell.command import Command, CommandInvocation, WantsHelp
from pykcp.cli.plugins.shell.flags import PluginFlag

_SHORT = PluginFlag(
    "short", "bool", "Print the path and nothing else, for a shell's prompt.", False
)
_INTERACTIVE = PluginFlag("interactive", "bool", "Browse the tree on a full screen.", False, "i")
_WS_EXAMPLES = """# where am I?
{0} .

# go down, up, to the top, back, and home
{0} team:service
{0} ..
{0} :
{0} -
{0}

# go anywhere: a leading colon makes a path absolute
{0} :root:org:team

# make a workspace and go there
kubectl create workspace team --enter

# look around
{0} tree
{0} -i

# keep a context for this workspace
{0} create-context my-team
"""
_DEPRECATION = (
    "install the 'kubectl create workspace' plugin instead, "
    "compare https://docs.kcp.io/kcp/latest/setup/kubectl-plugin/."
)


def _go(invocation: CommandInvocation) -> int | None:
    if invocation["interactive"]:
        return _browse(invocation)
    if len(invocation.arguments) > 1:
        raise WantsHelp
    from pykcp.cli.plugins.session import Session
    from pykcp.cli.plugins.workspace.use import go

    go(Session(invocation), "".join(invocation.arguments), is_short=invocation["short"])
    return None


def _browse(invocation: CommandInvocation) -> int | None:
    from pykcp.cli.plugins.errors import PluginError
    from pykcp.cli.plugins.workspace.tree import tree

    if invocation.arguments:
        raise PluginError("interactive mode does not accept arguments")
    invocation.values.setdefault("full", False)
    tree(invocation)
    return None


def _use(invocation: CommandInvocation) -> None:
    from pykcp.cli.plugins.workspace.use import use

    use(invocation)


def _current(invocation: CommandInvocation) -> None:
    from pykcp.cli.plugins.workspace.current import current

    current(invocation)


def _tree(invocation: CommandInvocation) -> None:
    from pykcp.cli.plugins.workspace.tree import tree

    tree(invocation)


def _delete(invocation: CommandInvocation) -> None:
    from pykcp.cli.plugins.workspace.delete import delete

    delete(invocation)


def _trash(invocation: CommandInvocation) -> None:
    from pykcp.cli.plugins.workspace.trash import trash

    trash(invocation)


def _undelete(invocation: CommandInvocation) -> None:
    from pykcp.cli.plugins.workspace.trash import undelete

    undelete(invocation)


def _create_context(invocation: CommandInvocation) -> None:
    from pykcp.cli.plugins.workspace.context import create_context

    create_context(invocation)


def _create(invocation: CommandInvocation) -> None:
    from pykcp.cli.plugins.workspace.create import create

    create(invocation)


def create_command(example: str, *, deprecated: str = "", version: str = "") -> Command:
    return Command(
        "create",
        "Make a workspace below the current one, and wait until it is ready.",
        _create,
        usage="<name>",
        examples=f"{example} team --type root:team --enter",
        flags=(
            PluginFlag("type", "string", "The workspace's type; the parent's type has a default.", "",
                 choices="types"),
            PluginFlag("enter", "bool", "Go to the new workspace.", False),
            PluginFlag("ignore-existing", "bool",
                 "It is fine if the workspace is there already (of the same type, which must be "
                 "absolute). With --create-context, the context is overwritten.", False),
            PluginFlag("location-selector", "string",
                 "Labels of the shards that may hold the workspace.", ""),
            PluginFlag("create-context", "string", "Make a context of this name for the workspace.", ""),
            WORKSPACE_FLAG,
            *CONNECTION_FLAGS,
        ),
        exact_arguments=1,
        deprecated=deprecated,
        version=version,
    )  # fmt: skip


def workspace_command(version: str, typed: str = "kubectl ws") -> Command:
    """`typed` is how a user calls it, for the examples."""
    return Command(
        "workspace",
        "Move between workspaces, show them, make them.",
        _go,
        usage="[<path>|..|.|-|~|:<absolute path>]",
        examples=_WS_EXAMPLES.format(typed),
        aliases=("ws", "workspaces"),
        flags=(_INTERACTIVE, _SHORT, *CONNECTION_FLAGS),
        children=(
            Command(
                "use",
                "Go to a workspace: below, '..' above, '-' before, '~' home, ':a:b' anywhere.",
                _use,
                usage="<path>|..|.|-|~|:<absolute path>",
                aliases=("cd",),
                flags=(_SHORT, *CONNECTION_FLAGS),
                offers="workspaces",
            ),
            Command(
                "current",
                "Print the current workspace, as 'kubectl ws .' does.",
                _current,
                flags=(_SHORT, *CONNECTION_FLAGS),
            ),
            Command(
                "tree",
                "Print the current workspace and all below it.",
                _tree,
                flags=(
                    PluginFlag("full", "bool", "Show whole paths.", False, "f"),
                    _INTERACTIVE,
                    PluginFlag(
                        "wide", "bool", "Show phases of workspaces and logical clusters.", False
                    ),
                    WORKSPACE_FLAG,
                    *CONNECTION_FLAGS,
                ),
            ),
            create_command(f"{typed} create", deprecated=_DEPRECATION, version=version),
            Command(
                "delete",
                "Delete workspaces, with all that is in them and below them.",
                _delete,
                usage="<path>... | -l <selector>",
                examples=f"{typed} delete team --wait\n{typed} delete -l batch=old",
                flags=(
                    PluginFlag(
                        "selector", "string", "Labels of the workspaces to delete.", "", "l"
                    ),
                    PluginFlag(
                        "wait", "bool", "Wait until they are gone; say what is left.", False
                    ),
                    PluginFlag(
                        "timeout", "string", "How long to wait: 30s, 5m; 0 is without end.", "0"
                    ),
                    WORKSPACE_FLAG,
                    *CONNECTION_FLAGS,
                ),
                offers="workspaces",
            ),
            Command(
                "trash",
                "List the workspaces that were deleted here and can be brought back.",
                _trash,
                flags=(WORKSPACE_FLAG, *CONNECTION_FLAGS),
            ),
            Command(
                "undelete",
                "Bring a deleted workspace back.",
                _undelete,
                usage="<path>",
                examples=f"{typed} undelete team --recursive",
                flags=(
                    PluginFlag(
                        "recursive", "bool", "And those that were deleted with it.", False, "r"
                    ),
                    PluginFlag(
                        "logical-cluster",
                        "string",
                        "Which one, if several of that name were deleted; the last if not given.",
                        "",
                    ),
                    WORKSPACE_FLAG,
                    *CONNECTION_FLAGS,
                ),
            ),
            Command(
                "create-context",
                "Make a context in the kubeconfig that stays on the current workspace.",
                _create_context,
                usage="[<name>]",
                flags=(
                    PluginFlag("overwrite", "bool", "Replace a context of that name.", False),
                    *CONNECTION_FLAGS,
                ),
            ),
        ),
        version=version,
        offers="workspaces",
    )
