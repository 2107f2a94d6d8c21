"""`kubectl ws create-context`: create a permanent context for the current workspace."""

from __future__ import annotations

from pykcp.cli.plugins.access.kubeconfig import modify
from pykcp.cli.plugins.errors import PluginError
from pykcp.cli.plugins.go_text import quote
from pykcp.cli.plugins.session import Session
from pykcp.cli.plugins.shell.command import CommandInvocation, WantsHelp
from pykcp.cli.plugins.workspace.contexts import with_context
from pykcp.cli.plugins.workspace.paths import cluster_of_url


def create_context(invocation: CommandInvocation) -> None:
    if len(invocation.arguments) > 1:
        raise WantsHelp
    name = "".join(invocation.arguments)
    add_context(Session(invocation), name, overwrites=invocation["overwrite"])


def add_context(
    session: Session,
    name: str,
    *,
    overwrites: bool,
    server: str = "",
    keeps_current: bool = False,
) -> None:
    """`server` is the workspace's URL, if it is not the current one."""
    config = session.config.raw()
    context = config.contexts.get(config.current_context)
    if context is None:
        raise PluginError(
            f"current context {quote(config.current_context)} is not found in kubeconfig"
        )
    cluster = config.clusters.get(context.get("cluster"))
    if cluster is None:
        raise PluginError(
            f"current cluster {quote(context.get('cluster'))} is not found in kubeconfig"
        )
    here = cluster_of_url(cluster.get("server"))
    if here is None:
        raise PluginError(
            f"current URL {quote(cluster.get('server'))} does not point to a workspace"
        )
    name = name or here.path
    existed = name in config.contexts
    if existed and not overwrites:
        raise PluginError(
            f"context {quote(name)} already exists in kubeconfig, use --overwrite to update it"
        )
    target = cluster.having(server=server) if server else cluster
    changed = with_context(config, name, context, target, keeps_current=keeps_current)
    modify(session.config.files, changed)
    verb = "Updated" if existed else "Created"
    switched = not keeps_current and config.current_context != name
    print(f"{verb} context {quote(name)}{' and switched to it' if switched else ''}.")
