"""`kubectl ws delete`: delete workspaces with everything below them, and show the progress."""

from __future__ import annotations

import sys
from typing import Any
from urllib.parse import quote as url_quote

from pykcp.cli.plugins.access.rest import RestClient
from pykcp.cli.plugins.access.status import ServerError
from pykcp.cli.plugins.errors import PluginError
from pykcp.cli.plugins.go_text import parse_duration, quote
from pykcp.cli.plugins.session import Session
from pykcp.cli.plugins.shell.command import CommandInvocation, WantsHelp
from pykcp.cli.plugins.wait import poll
from pykcp.cli.plugins.workspace.paths import resolve
from pykcp.cli.plugins.workspace.resources import Collection, is_terminating, workspaces
from pykcp.machinery.kcp import clusters

Object = dict[str, Any]
_EVER = 10.0 * 365 * 24 * 3600
_PAUSE = 1.0


def delete(invocation: CommandInvocation) -> None:
    session = Session(invocation)
    deletion = _Deletion(session.client)
    if invocation["selector"]:
        if invocation.arguments:
            raise PluginError("a name and a selector are mutually exclusive")
        deletion.select(session.current(), invocation["selector"])
    else:
        if not invocation.arguments:
            raise WantsHelp
        for name in invocation.arguments:
            deletion.begin(_path(session.current(), name))
    if invocation["wait"]:
        seconds = parse_duration(invocation["timeout"])
        poll(deletion.is_over, seconds or _EVER, deletion.remaining, longest_pause=_PAUSE)


def _path(current: str, name: str) -> str:
    path = resolve(current, name.replace("/", ":"))
    if not clusters.is_valid_path(path) or not clusters.split(path).parent:
        raise PluginError(f"invalid workspace path: {name}")
    return path


class _Deletion:
    """Workspaces that are being deleted."""

    def __init__(self, client: RestClient) -> None:
        self._client = client
        self._paths: list[str] = []
        self._printed = ""

    def begin(self, path: str) -> None:
        collection, name = self._place(path)
        collection.delete(name)
        self._add(path)

    def select(self, parent: str, selector: str) -> None:
        query = f"?labelSelector={url_quote(selector)}"
        answer = self._client.request(
            "DELETE",
            f"/clusters/{parent}/apis/tenancy.kcp.io/v1alpha1/workspaces{query}",
            about="workspaces.tenancy.kcp.io",
        )
        for workspace in answer.get("items") or []:
            self._add(clusters.join(parent, workspace["metadata"]["name"]))
        if not self._paths:
            print("No workspaces found.")

    def _add(self, path: str) -> None:
        self._paths.append(path)
        print(f"Workspace {quote(path)} is being deleted.", flush=True)

    def _place(self, path: str) -> tuple[Collection, str]:
        parent, name = clusters.split(path)
        return workspaces(self._client, parent), name

    def is_over(self) -> bool:
        """Whether all are deleted; prints the progress if it has changed."""
        left, blocked = 0, []
        for path in list(self._paths):
            workspace = self._look(path)
            if workspace is None or not is_terminating(workspace):
                self._paths.remove(path)
                print(f"Workspace {quote(path)} deleted.", flush=True)
                continue
            left += 1 + self._below(path)
            message = _blocking(workspace)
            if message:
                blocked.append(f"{path}: {message}")
        self._tell(left, blocked)
        return not self._paths

    def remaining(self) -> str:
        paths = ", ".join(map(quote, self._paths))
        return f"waiting for the deletion of {paths}"

    def _look(self, path: str) -> Object | None:
        collection, name = self._place(path)
        try:
            return collection.get(name)
        except ServerError as error:
            if error.is_not_found:
                return None
            raise

    def _below(self, path: str) -> int:
        """Number of workspaces below one, or 0 if the server cannot tell."""
        try:
            return len(self._client.get(f"/services/tree/clusters/{path}")["items"])
        except PluginError:
            return 0

    def _tell(self, left: int, blocked: list[str]) -> None:
        word = "workspace" if left == 1 else "workspaces"
        lines = [f"{left} {word} remaining.", *blocked] if left else []
        text = "\n".join(lines)
        if text and text != self._printed:
            print(text, file=sys.stderr, flush=True)
        self._printed = text


def _blocking(workspace: Object) -> str:
    """The server's message about what blocks the deletion."""
    for condition in (workspace.get("status") or {}).get("conditions") or []:
        if condition["type"] == "WorkspaceContentDeleted" and condition["status"] == "False":
            return str(condition.get("message") or "")
    return ""
