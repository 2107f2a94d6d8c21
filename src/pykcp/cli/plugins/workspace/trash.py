"""`kubectl ws trash` and `kubectl ws undelete`: list and restore deleted workspaces.

Only pykcp keeps deleted workspaces, and only with --workspace-undelete-window.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import quote as url_quote

from pykcp.cli.plugins.access.rest import RestClient
from pykcp.cli.plugins.access.status import ServerError
from pykcp.cli.plugins.errors import PluginError
from pykcp.cli.plugins.go_text import columns, quote
from pykcp.cli.plugins.session import Session
from pykcp.cli.plugins.shell.command import CommandInvocation, WantsHelp
from pykcp.cli.plugins.workspace.paths import resolve
from pykcp.machinery.kcp import clusters

Object = dict[str, Any]
_HEAD = "NAME\tTYPE\tDELETED\tEXPIRES\tCHILDREN\tLOGICAL CLUSTER"
_KEEPS_NOTHING = (
    "this server does not keep deleted workspaces (see kcp start --workspace-undelete-window), "
    "or you may not create workspaces in {}"
)


def trash(invocation: CommandInvocation) -> None:
    """List the workspaces that can be restored in the current one."""
    if invocation.arguments:
        raise WantsHelp
    session = Session(invocation)
    items = _ask(session.client, "GET", session.current(), "")
    if not items:
        print("No deleted workspaces found.")
        return
    for line in columns([_HEAD, *map(_line, items)], padding=3):
        print(line)


def _line(item: Object) -> str:
    names = ("name", "type", "deletedAt", "expiresAt", "children", "cluster")
    return "\t".join(str(item[name]) for name in names)


def undelete(invocation: CommandInvocation) -> None:
    if len(invocation.arguments) != 1:
        raise WantsHelp
    session = Session(invocation)
    path = resolve(session.current(), invocation.arguments[0].replace("/", ":"))
    parent, name = clusters.split(path)
    if not parent or not clusters.is_valid_path(path):
        raise PluginError(f"invalid workspace path: {invocation.arguments[0]}")
    query = []
    if invocation["recursive"]:
        query.append("recursive=true")
    if invocation["logical-cluster"]:
        query.append(f"cluster={url_quote(invocation['logical-cluster'])}")
    address = f"/{name}/undelete" + (f"?{'&'.join(query)}" if query else "")
    for item in _ask(session.client, "POST", parent, address):
        print(f"Workspace {quote(item['path'])} restored.")


def _ask(client: RestClient, method: str, parent: str, rest: str) -> list[Object]:
    path = f"/services/trash/clusters/{parent}/workspaces{rest}"
    try:
        answer = client.request(method, path, about="deleted workspaces")
    except ServerError as error:
        # a 404 with a reason is about a workspace, without one about the path
        if error.is_forbidden or (error.is_not_found and error.reason != "NotFound"):
            raise PluginError(_KEEPS_NOTHING.format(parent)) from error
        raise
    items: list[Object] = answer["items"]
    return items
