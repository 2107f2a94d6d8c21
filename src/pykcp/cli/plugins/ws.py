"""The command `workspace` of kubectl-kcp, which is the program kubectl-ws, and `create`."""

from __future__ import annotations

from pykcp.cli.plugins.session import CONNECTION_FLAGS, WORKSPACE_FLAG
from pykcp.cli.plugins.shell.command import Command, CommandInvocation, WantsHelp
from pykcp.cli.plugins.shell.flags import PluginFlag

_SHORT = PluginFlag("short", "bool", "Print only the path, for example for a shell prompt.", False)
_INTERACTIVE = PluginFlag("interactive", "bool", "Browse the tree in full-screen mode.", False, "i")
_WS_EXAMPLES = """# print the current workspace
{0} .

# switch to a child, the parent, the root of the tree, the previous workspace, and home
{0} team:service
{0} ..
{0} :
{0} -
{0}

# switch to an absolute path, with a leading colon
{0} :root:org:team

# create a workspace and enter it
kubectl create workspace team --enter

# show the tree of workspaces
{0} tree
{0} -i

# create a permanent context for this workspace
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


def _backup(invocation: CommandInvocation) -> None:
    from pykcp.cli.plugins.workspace.copies import backup

    backup(invocation)


def _restore(invocation: CommandInvocation) -> None:
    from pykcp.cli.plugins.workspace.copies import restore

    restore(invocation)


def _clone(invocation: CommandInvocation) -> None:
    from pykcp.cli.plugins.workspace.copies import clone

    clone(invocation)


def _why(invocation: CommandInvocation) -> int:
    from pykcp.cli.plugins.workspace.why import why

    return why(invocation)


def _create_context(invocation: CommandInvocation) -> None:
    from pykcp.cli.plugins.workspace.context import create_context

    create_context(invocation)


def _create(invocation: CommandInvocation) -> None:
    from pykcp.cli.plugins.workspace.create import create

    create(invocation)


def create_command(example: str, *, deprecated: str = "", version: str = "") -> Command:
    return Command(
        "create",
        "Create a workspace below the current one and wait until it is ready.",
        _create,
        usage="<name>",
        examples=f"{example} team --type root:team --enter",
        flags=(
            PluginFlag("type", "string", "Type of the workspace; defaults to the default child type of the parent.", "",
                 choices="types"),
            PluginFlag("enter", "bool", "Enter the new workspace.", False),
            PluginFlag("ignore-existing", "bool",
                 "Do not fail if the workspace already exists (with the same type, given as an "
                 "absolute path). With --create-context, the context is overwritten.", False),
            PluginFlag("location-selector", "string",
                 "Label selector of the shards on which the workspace may be scheduled.", ""),
            PluginFlag("create-context", "string", "Create a context with this name for the workspace.", ""),
            WORKSPACE_FLAG,
            *CONNECTION_FLAGS,
        ),
        exact_arguments=1,
        deprecated=deprecated,
        version=version,
    )  # fmt: skip


def _tree_command() -> Command:
    return Command(
        "tree",
        "Print the tree of workspaces below the current one.",
        _tree,
        flags=(
            PluginFlag("full", "bool", "Show full paths.", False, "f"),
            _INTERACTIVE,
            PluginFlag("wide", "bool", "Show phases of workspaces and logical clusters.", False),
            WORKSPACE_FLAG,
            *CONNECTION_FLAGS,
        ),
    )


def _delete_command(typed: str) -> Command:
    return Command(
        "delete",
        "Delete workspaces with all their content and all workspaces below them.",
        _delete,
        usage="<path>... | -l <selector>",
        examples=f"{typed} delete team --wait\n{typed} delete -l batch=old",
        flags=(
            PluginFlag(
                "selector", "string", "Label selector of the workspaces to delete.", "", "l"
            ),
            PluginFlag(
                "wait",
                "bool",
                "Wait until they are deleted and show the remaining ones.",
                False,
            ),
            PluginFlag("timeout", "string", "How long to wait: 30s, 5m; 0 means no timeout.", "0"),
            WORKSPACE_FLAG,
            *CONNECTION_FLAGS,
        ),
        completes="workspaces",
    )


def _undelete_command(typed: str) -> Command:
    return Command(
        "undelete",
        "Restore a deleted workspace.",
        _undelete,
        usage="<path>",
        examples=f"{typed} undelete team --recursive",
        flags=(
            PluginFlag("recursive", "bool", "Also restore its child workspaces.", False, "r"),
            PluginFlag(
                "logical-cluster",
                "string",
                "Logical cluster to restore if several workspaces with that name were deleted; default: the last one.",
                "",
            ),
            WORKSPACE_FLAG,
            *CONNECTION_FLAGS,
        ),
    )


def _copy_commands(typed: str) -> tuple[Command, ...]:
    return (
        Command(
            "backup",
            "Save a workspace with all its content and all workspaces below it to a file.",
            _backup,
            usage="<path> -o <file>",
            examples=f"{typed} backup team -o team.backup",
            flags=(
                PluginFlag("output", "string", "File to write.", "", "o"),
                WORKSPACE_FLAG,
                *CONNECTION_FLAGS,
            ),
            completes="workspaces",
        ),
        Command(
            "restore",
            "Create a workspace, with all below it, from a file that 'backup' has written.",
            _restore,
            usage="[<path>] -f <file>",
            examples=f"{typed} restore -f team.backup\n{typed} restore :root:other:team -f team.backup --new-names",
            flags=(
                PluginFlag("filename", "string", "File to read.", "", "f"),
                PluginFlag(
                    "new-names",
                    "bool",
                    "Give new logical clusters, uids and identities to the copy, so that it can be beside the original.",
                    False,
                ),
                WORKSPACE_FLAG,
                *CONNECTION_FLAGS,
            ),
        ),
        Command(
            "clone",
            "Copy a workspace with all its content and all workspaces below it.",
            _clone,
            usage="<path> <new path>",
            examples=f"{typed} clone team team-copy",
            flags=(WORKSPACE_FLAG, *CONNECTION_FLAGS),
            completes="workspaces",
        ),
    )


def _create_context_command() -> Command:
    return Command(
        "create-context",
        "Create a permanent context for the current workspace in the kubeconfig.",
        _create_context,
        usage="[<name>]",
        flags=(
            PluginFlag("overwrite", "bool", "Replace an existing context with that name.", False),
            *CONNECTION_FLAGS,
        ),
    )


def _why_command(typed: str) -> Command:
    return Command(
        "why",
        "Explain why a request is allowed or denied, and which grant is missing.",
        _why,
        usage="<verb> <resource>[.<group>][/<subresource>] [<name>] | <verb> <path>",
        examples=f"{typed} why create configmaps -n prod\n{typed} why list deployments.apps --as jane\n{typed} why access /",
        flags=(
            PluginFlag("all-namespaces", "bool", "Ask about all namespaces.", False, "A"),
            WORKSPACE_FLAG,
            *CONNECTION_FLAGS,
        ),
    )


def workspace_command(version: str, typed: str = "kubectl ws") -> Command:
    """`typed` is the command as users type it, for the examples."""
    return Command(
        "workspace",
        "Switch between workspaces, list and create them.",
        _go,
        usage="[<path>|..|.|-|~|:<absolute path>]",
        examples=_WS_EXAMPLES.format(typed),
        aliases=("ws", "workspaces"),
        flags=(_INTERACTIVE, _SHORT, *CONNECTION_FLAGS),
        children=(
            Command(
                "use",
                "Switch to a workspace: a child by name, '..' parent, '-' previous, '~' home, ':a:b' absolute path.",
                _use,
                usage="<path>|..|.|-|~|:<absolute path>",
                aliases=("cd",),
                flags=(_SHORT, *CONNECTION_FLAGS),
                completes="workspaces",
            ),
            Command(
                "current",
                "Print the current workspace, same as 'kubectl ws .'.",
                _current,
                flags=(_SHORT, *CONNECTION_FLAGS),
            ),
            _tree_command(),
            create_command(f"{typed} create", deprecated=_DEPRECATION, version=version),
            _delete_command(typed),
            Command(
                "trash",
                "List deleted workspaces of the current workspace that can be restored.",
                _trash,
                flags=(WORKSPACE_FLAG, *CONNECTION_FLAGS),
            ),
            _undelete_command(typed),
            *_copy_commands(typed),
            _why_command(typed),
            _create_context_command(),
        ),
        version=version,
        completes="workspaces",
    )
