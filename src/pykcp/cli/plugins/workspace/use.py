"""`kubectl ws <path>`: switch to a workspace."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from pykcp.cli.plugins.access.kubeconfig import Kubeconfig, Stanza, modify
from pykcp.cli.plugins.access.status import ServerError
from pykcp.cli.plugins.errors import PluginError
from pykcp.cli.plugins.go_text import quote
from pykcp.cli.plugins.session import Session
from pykcp.cli.plugins.shell.command import CommandInvocation, WantsHelp
from pykcp.cli.plugins.workspace import contexts
from pykcp.cli.plugins.workspace.claim_warnings import warnings
from pykcp.cli.plugins.workspace.current import show
from pykcp.cli.plugins.workspace.paths import (
    ClusterURL,
    check_url,
    cluster_of_url,
    home_path,
    parse_cluster_url,
    resolve,
    tidy,
    topmost,
)
from pykcp.cli.plugins.workspace.resources import apis, type_name, url, workspaces
from pykcp.machinery.kcp import clusters

if TYPE_CHECKING:
    # HTTP and TLS are slow to import; `kubectl ws .` in a prompt needs neither
    from pykcp.cli.plugins.access.rest import RestClient

HOME_NOTE = (
    "Note: 'kubectl ws' now matches 'cd' semantics: go to home workspace. "
    "'kubectl ws -' to go back. 'kubectl ws .' to print current workspace."
)


def use(invocation: CommandInvocation) -> None:
    """`kubectl ws use <path>`."""
    if len(invocation.arguments) != 1:
        raise WantsHelp
    go(Session(invocation), invocation.arguments[0], is_short=invocation["short"])


def go(session: Session, typed: str, *, is_short: bool = False) -> None:
    """Switch to the typed workspace and print it."""
    target = session.target()  # report an unusable kubeconfig first
    check_url(target.host)
    destination = tidy(typed, os.path.expanduser("~"), is_short=is_short)
    if destination.note:
        print(destination.note, file=sys.stderr)
    config = session.config.raw()
    context = config.contexts.get(config.current_context)
    if context is None:
        raise PluginError(f"current {quote(config.current_context)} context not found")
    navigation = Navigation(session, config, context, is_short=is_short)
    if destination.name == "-":
        navigation.go_back()
    elif destination.name == ".":
        show(target.host, is_short=is_short)
    elif destination.name == ":":
        here = navigation.here()
        navigation.enter(here.of(topmost(here.path)))
    else:
        navigation.go_to(destination.name, typed)
    if not typed and not is_short:
        sys.stdout.flush()
        print(HOME_NOTE, file=sys.stderr)


class Navigation:
    """Switches from the current context to another workspace."""

    def __init__(
        self, session: Session, config: Kubeconfig, context: Stanza, *, is_short: bool
    ) -> None:
        self._session = session
        self._config = config
        self._context = context
        self._is_short = is_short

    def here(self) -> ClusterURL:
        host = self._session.target().host
        found = cluster_of_url(host)
        if found is None:
            raise PluginError(f"current URL {quote(host)} does not point to a workspace")
        return found

    def go_back(self) -> None:
        changed = contexts.swapped(self._config, self._context)
        host = contexts.current_server(changed)
        self._commit(changed, host)
        show(host, is_short=self._is_short)

    def go_to(self, name: str, typed: str) -> None:
        client = self._session.client
        if name == "~" or name.startswith("~:"):
            home = workspaces(client, clusters.ROOT).get("~")
            name = f":{home_path(url(home))}{name[1:]}"
        here = self.here()
        path = resolve(here.path, name)
        if not clusters.is_valid_path(path):
            raise PluginError(f"invalid workspace path: {typed}")
        full_name = name[1:] if name.startswith(":") else clusters.join(here.path, name)
        kind = check(client, path, full_name)
        self.enter(here.of(path), kind)

    def enter(self, host: str, kind: str = "") -> None:
        self._commit(contexts.entered(self._config, self._context, host), host)
        show(host, is_short=self._is_short, type_name=kind)

    def _commit(self, changed: Kubeconfig, host: str) -> None:
        modify(self._session.config.files, changed)
        try:
            path = parse_cluster_url(host).path
            for line in warnings(bindings(self._session.client, path)):
                print(line, file=sys.stderr)
        except PluginError as error:
            # the kubeconfig is already written, so this is not a failure of the command
            print(f"error checking APIBindings: {error}", file=sys.stderr)


def check(client: RestClient, path: str, name: str) -> str:
    """Reject a workspace that the user may not enter; return the type of the workspace, if known."""
    try:
        is_denied = not may_enter(client, path)
    except ServerError as error:
        if not error.is_not_found:
            raise
        raise PluginError(f"workspace {quote(name)} not found") from error
    if path == clusters.ROOT:
        kind, is_missing = "root", False
    else:
        kind, is_missing = _seen_from_parent(client, name)
    if is_denied and is_missing:
        raise PluginError(f"workspace {quote(name)} not found")
    if is_denied:
        raise PluginError(f"access to workspace {quote(name)} denied")
    return kind


def may_enter(client: RestClient, path: str) -> bool:
    """Whether discovery works in this workspace: users who may enter have access to discovery."""
    try:
        try:
            if client.discover(f"/clusters/{path}/api").get("versions"):
                return True
        except ServerError as error:
            if not error.is_not_found:
                raise
        return bool(client.discover(f"/clusters/{path}/apis").get("groups"))
    except ServerError as error:
        if error.is_forbidden:
            return False
        raise


def _seen_from_parent(client: RestClient, name: str) -> tuple[str, bool]:
    """Type of the workspace, and whether it is missing in the parent.

    Other errors of the parent are ignored: a user may have access to a workspace and not to its
    parent.
    """
    parent, last = clusters.split(name)
    if not last or not parent or last in (".", ".."):
        return "", False
    try:
        return type_name(workspaces(client, parent).get(last)), False
    except ServerError as error:
        return "", error.is_not_found


def bindings(client: RestClient, path: str) -> list[dict[str, object]]:
    """The APIBindings of a workspace; none if they are not accessible or not served."""
    try:
        return apis(client, path, "apibindings").list()
    except ServerError as error:
        if error.is_forbidden or error.is_not_found:
            return []
        raise
