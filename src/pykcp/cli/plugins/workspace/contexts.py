"""The contexts for the current and the previous workspace in a kubeconfig.

Pure: a kubeconfig goes in, the one to be written comes out.
"""

from __future__ import annotations

from pykcp.cli.plugins.access.kubeconfig import Kubeconfig, Stanza
from pykcp.cli.plugins.errors import PluginError
from pykcp.cli.plugins.go_text import quote

CURRENT = "workspace.kcp.io/current"
PREVIOUS = "workspace.kcp.io/previous"


def entered(config: Kubeconfig, context: Stanza, url: str) -> Kubeconfig:
    """Switch to a URL; the current context becomes the previous one."""
    cluster = _cluster(config, context.get("cluster"), context.get("cluster"))
    result = config.copy()
    result.clusters[CURRENT] = cluster.having(server=url)
    result.contexts[CURRENT] = context.having(cluster=CURRENT)
    if context.get("cluster") == CURRENT:
        result.clusters[PREVIOUS] = cluster
        context = context.having(cluster=PREVIOUS)
    result.contexts[PREVIOUS] = context
    result.current_context = CURRENT
    return result


def swapped(config: Kubeconfig, context: Stanza) -> Kubeconfig:
    """Switch to the previous context; the current one becomes the previous one."""
    previous = config.contexts.get(PREVIOUS)
    if previous is None:
        raise PluginError("no previous workspace found in kubeconfig")
    name = context.get("cluster")
    result = config.copy()
    if name == CURRENT:
        result.clusters[PREVIOUS] = _cluster(config, name, name)
        context = context.having(cluster=PREVIOUS)
    if previous.get("cluster") == PREVIOUS:
        result.clusters[CURRENT] = _cluster(config, PREVIOUS, context.get("cluster"))
        previous = previous.having(cluster=CURRENT)
    result.contexts[CURRENT] = previous
    result.contexts[PREVIOUS] = context
    result.current_context = CURRENT
    return result


def with_context(
    config: Kubeconfig, name: str, context: Stanza, cluster: Stanza, *, keeps_current: bool
) -> Kubeconfig:
    """A context of its own, with a cluster of the same name."""
    result = config.copy()
    result.clusters[name] = cluster
    result.contexts[name] = context.having(cluster=name)
    if not keeps_current:
        result.current_context = name
    return result


def current_server(config: Kubeconfig) -> str:
    """The URL that the current context points to."""
    context = config.contexts[config.current_context]
    return config.clusters.get(context.get("cluster"), Stanza({})).get("server")


def _cluster(config: Kubeconfig, name: str, blamed: str) -> Stanza:
    if name not in config.clusters:
        raise PluginError(f"cluster {quote(blamed)} not found in kubeconfig")
    return config.clusters[name]
