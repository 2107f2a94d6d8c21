"""`kubectl ws tree`: print the workspaces below the current one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from pykcp.cli.plugins.access.rest import RestClient
from pykcp.cli.plugins.access.status import ServerError
from pykcp.cli.plugins.concurrently import for_each
from pykcp.cli.plugins.errors import PluginError
from pykcp.cli.plugins.go_text import columns, quote
from pykcp.cli.plugins.session import Session
from pykcp.cli.plugins.shell.command import CommandInvocation, WantsHelp
from pykcp.cli.plugins.workspace.paths import cluster_of_url
from pykcp.cli.plugins.workspace.resources import (
    is_mount,
    is_terminating,
    logical_clusters,
    phase,
    url,
    workspaces,
)
from pykcp.cli.terminal import RED, YELLOW, paint
from pykcp.machinery.kcp import clusters

Object = dict[str, Any]
_READY, _UNAVAILABLE = "Ready", "Unavailable"


@dataclass
class WorkspaceNode:
    """A workspace in the tree; `path` is "" for a mount, whose children are not listed."""

    label: str
    path: str = ""
    phase: str = ""
    children: list[WorkspaceNode] = field(default_factory=list)
    problem: ServerError | None = None


def tree(invocation: CommandInvocation) -> None:
    if invocation.arguments:
        raise WantsHelp
    session = Session(invocation)
    host = session.target().host
    here = cluster_of_url(host)
    if here is None:
        # possibly a mount, so this is not an error
        print(f"current context URL {quote(host)} does not point directly to a kcp workspace")
        return
    if invocation["interactive"]:
        from pykcp.cli.plugins.workspace.browse import browse

        browse(session, here.path, is_full=invocation["full"])
        return
    label = here.path if invocation["full"] else here.path.rpartition(":")[2]
    root = WorkspaceNode(label, here.path)
    if not graft(session.client, root, is_full=invocation["full"]):
        grow(session.client, root, is_full=invocation["full"])
    if invocation["wide"]:
        _widen(session.client, root)
        for line in _painted(columns([*drawn([root])], padding=2), root):
            print(line)
    else:
        print("\n".join(_painted([*drawn([root])], root)) + "\n")


def graft(client: RestClient, root: WorkspaceNode, *, is_full: bool) -> bool:
    """Fetch the whole tree with one request, which only pykcp supports; False to list level by level.

    Users who would not see the whole tree also list level by level, to get the errors of the
    workspaces that they may not list.
    """
    nodes = {"": root}
    try:
        for top, item in _items(client, root.path):
            if not _attach(nodes, item, top, is_full=is_full):
                root.children.clear()
                return False
    except PluginError:
        root.children.clear()
        return False  # listing level by level reports the error with the usual message
    return True


def _items(client: RestClient, path: str) -> Iterator[tuple[str, Object]]:
    """The workspaces of a tree, parents first, each with the path of the tree's root."""
    address = f"/services/tree/clusters/{path}?limit={_PAGE}"
    query = ""
    while True:
        page = client.get(address + query)
        for item in page["items"]:
            yield page["path"], item
        following = page["metadata"].get("continue")
        if not following:
            return
        query = f"&continue={following}"


def _attach(nodes: dict[str, WorkspaceNode], item: Object, top: str, *, is_full: bool) -> bool:
    """Add a workspace below its parent; False if its children are not disclosed."""
    place = item["path"][len(top) + 1 :]
    parent = nodes.get(place.rpartition(":")[0])
    if parent is None or "deletionTimestamp" in item:
        return True  # it is terminating, or its parent is
    if "children" not in item and "mount" not in item:
        return False
    spec = {key: item[key] for key in ("URL", "mount") if key in item}
    status = {"phase": item.get("phase")}
    workspace: Object = {"metadata": {"name": item["name"]}, "spec": spec, "status": status}
    node = nodes[place] = child_node(workspace, parent.label, is_full=is_full)
    parent.children.append(node)
    return True


_PAGE = 5000


def grow(client: RestClient, root: WorkspaceNode, *, is_full: bool) -> None:
    """List the children of every node, level by level; large levels with several connections."""
    level = [root]
    while level:
        for_each(client, level, lambda via, node: _find_children(via, node, is_full=is_full))
        level = [child for node in level for child in node.children if child.path]
    for node in _walk(root):
        if node.problem is not None:
            raise node.problem


def _find_children(client: RestClient, node: WorkspaceNode, *, is_full: bool) -> None:
    try:
        found = workspaces(client, node.path).list()
    except ServerError as error:
        if not error.is_not_found:
            node.problem = error  # reported in the order of the tree, not of the responses
        return
    node.children = [
        child_node(workspace, node.label, is_full=is_full)
        for workspace in found
        if not is_terminating(workspace)
    ]


def child_node(workspace: Object, parent_label: str, *, is_full: bool) -> WorkspaceNode:
    name = workspace["metadata"]["name"]
    label = clusters.join(parent_label, name) if is_full else name
    if is_mount(workspace):
        # its content is on another server, and its URL may even point to the parent
        return WorkspaceNode(f"{label} [m]")
    there = cluster_of_url(url(workspace))
    if there is None:
        raise PluginError(
            f"current config context URL {quote(url(workspace))} does not point to workspace"
        )
    return WorkspaceNode(label, there.path, phase(workspace))


def _widen(client: RestClient, root: WorkspaceNode) -> None:
    """Add the phases of workspace and logical cluster to the labels."""
    nodes = [node for node in _walk(root) if node.path]
    for_each(client, nodes, _add_phases)


def _add_phases(client: RestClient, node: WorkspaceNode) -> None:
    try:
        found = phase(logical_clusters(client, node.path).get("cluster"))
    except ServerError:
        found = ""
    node.label += f"\tws={node.phase or '-'}\tlc={found or 'Unknown'}"


def _walk(root: WorkspaceNode) -> Iterator[WorkspaceNode]:
    waiting = [root]
    while waiting:
        node = waiting.pop()
        yield node
        waiting.extend(reversed(node.children))


def _painted(lines: Sequence[str], root: WorkspaceNode) -> Iterator[str]:
    """On a terminal, workspaces that are not ready stand out. This comes after the columns, which
    would count what colours are made of."""
    yield lines[0]
    for line, node in zip(lines[1:], _walk(root), strict=True):
        branch, dash, text = line.partition("── ")
        is_ready = node.phase in ("", _READY)  # the topmost one and mounts have none
        colour = RED if node.phase == _UNAVAILABLE else YELLOW
        yield f"{branch}{dash}{text if is_ready else paint(text, colour)}"


def drawn(nodes: Sequence[WorkspaceNode]) -> Iterator[str]:
    """The lines of the tree, below a dot."""
    yield "."
    yield from _drawn(nodes, "")


def _drawn(nodes: Sequence[WorkspaceNode], indent: str) -> Iterator[str]:
    for node in nodes:
        is_last = node is nodes[-1]
        yield f"{indent}{'└──' if is_last else '├──'} {node.label}"
        yield from _drawn(node.children, indent + ("    " if is_last else "│   "))
