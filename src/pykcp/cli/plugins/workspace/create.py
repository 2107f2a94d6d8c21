"""`kubectl create workspace`: create a workspace and wait until it is ready."""

from __future__ import annotations

from typing import Any

from pykcp.cli.plugins.access.status import ServerError
from pykcp.cli.plugins.errors import PluginError, Prefixed
from pykcp.cli.plugins.go_text import quote
from pykcp.cli.plugins.session import Session
from pykcp.cli.plugins.shell.command import CommandInvocation
from pykcp.cli.plugins.wait import poll
from pykcp.cli.plugins.workspace.context import add_context
from pykcp.cli.plugins.workspace.resources import (
    Collection,
    phase,
    type_name,
    unmet,
    url,
    workspaces,
)
from pykcp.cli.plugins.workspace.selector import parse_selector
from pykcp.cli.plugins.workspace.use import go
from pykcp.machinery.kcp import clusters

Object = dict[str, Any]
READY = "Ready"
READY_SECONDS = 60.0
APPEAR_SECONDS = 5.0


def create(invocation: CommandInvocation) -> None:
    (name,) = invocation.arguments
    selector = _selector(invocation["location-selector"])
    session = Session(invocation)
    collection = workspaces(session.client, session.current())
    wanted = type_reference(invocation["type"])
    if invocation["ignore-existing"] and wanted and not _is_absolute(invocation["type"]):
        raise PluginError("--ignore-existing must not be used with non-absolute type path")
    made = _make(
        collection,
        workspace(name, wanted, selector),
        ignores_existing=invocation["ignore-existing"],
    )
    made = _ready(collection, made)
    print(f"Workspace {quote(name)} (type {type_name(made)}) is ready to use.", flush=True)
    _enter(session, invocation, made)


def _selector(text: str) -> Object | None:
    try:
        return parse_selector(text)
    except ValueError as error:
        raise PluginError(f"invalid location selector: {error}") from None


def _is_absolute(kind: str) -> bool:
    return clusters.has_prefix(kind, clusters.ROOT)


def type_reference(text: str) -> Object | None:
    """`root:universal` as a reference; without a path, the server resolves the name."""
    if not text:
        return None
    path, colon, name = text.rpartition(":")
    return {"name": name.lower(), **({"path": path} if colon else {})}


def workspace(name: str, kind: Object | None, selector: Object | None) -> Object:
    spec: Object = {}
    if kind:
        spec["type"] = kind
    if selector is not None:
        spec["location"] = {"selector": selector}
    return {
        "apiVersion": "tenancy.kcp.io/v1alpha1",
        "kind": "Workspace",
        "metadata": {"name": name},
        "spec": spec,
    }


def _make(collection: Collection, body: Object, *, ignores_existing: bool) -> Object:
    """Create the workspace, or get the existing one, and print which."""
    name = body["metadata"]["name"]
    try:
        made, existed = collection.create(body), False
    except ServerError as error:
        if not (error.already_exists and ignores_existing):
            raise
        made, existed = collection.get(name), True
    reference = f"Workspace {quote(name)} (type {type_name(made)})"
    is_ready = phase(made) == READY
    if existed:
        _check_same_type(name, body["spec"].get("type"), made)
        waiting = "" if is_ready else " Waiting for it to be ready..."
        print(f"{reference} already exists.{waiting}", flush=True)
    elif not is_ready:
        print(f"{reference} created. Waiting for it to be ready...", flush=True)
    return made


def _check_same_type(name: str, wanted: Object | None, made: Object) -> None:
    found = made["spec"].get("type") or {}
    if not wanted:
        return
    same_name = not found.get("name") or found["name"] == wanted["name"]
    if not same_name or (found.get("path") or "") != (wanted.get("path") or ""):
        asked = clusters.join(wanted.get("path") or "", wanted["name"])
        raise PluginError(
            f"workspace {quote(name)} cannot be created with type {asked}, "
            f"it already exists with different type {type_name(made)}"
        )


def _ready(collection: Collection, made: Object) -> Object:
    """Wait until the workspace is ready."""
    if phase(made) == READY:
        return made
    name = made["metadata"]["name"]
    poll(
        lambda: _exists(collection, name),
        APPEAR_SECONDS,
        lambda: f"workspace {quote(name)} was created and cannot be read",
    )
    latest = made

    def is_ready() -> bool:
        nonlocal latest
        latest = collection.get(name)
        return phase(latest) == READY

    poll(
        is_ready,
        READY_SECONDS,
        lambda: f"workspace {quote(name)} is not ready but {phase(latest)}{unmet(latest)}",
    )
    return latest


def _exists(collection: Collection, name: str) -> bool:
    try:
        collection.get(name)
    except ServerError as error:
        if error.is_not_found:
            return False
        raise
    return True


def _enter(session: Session, invocation: CommandInvocation, made: Object) -> None:
    if invocation["create-context"]:
        try:
            add_context(
                session,
                invocation["create-context"],
                overwrites=invocation["ignore-existing"],
                server=url(made),
                keeps_current=not invocation["enter"],
            )
        except PluginError as error:
            raise Prefixed("failed to create context", error) from None
    elif invocation["enter"]:
        go(session, made["metadata"]["name"])
