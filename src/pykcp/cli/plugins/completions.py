"""Completion of names: contexts from the kubeconfig, workspaces and bindings from the server."""

from __future__ import annotations

from pykcp.cli.plugins.session import Session
from pykcp.cli.plugins.shell.command import CommandInvocation
from pykcp.cli.plugins.shell.completion import NO_FILES, NO_SPACE, Candidate, Completions
from pykcp.cli.plugins.workspace.paths import home_path, resolve
from pykcp.cli.plugins.workspace.resources import Collection, apis, type_name, url, workspaces
from pykcp.machinery.kcp import clusters

_SECONDS = "3s"
"""Timeout of requests during completion."""
_PLACES = (
    Candidate("..", "parent workspace"),
    Candidate("-", "previous workspace"),
    Candidate("~", "home workspace"),
    Candidate(":", "root of this tree"),
)


def names(source: str, invocation: CommandInvocation, current: str) -> Completions:
    if not invocation.values.get("request-timeout", "0").strip("0"):
        invocation.values["request-timeout"] = _SECONDS
    session = Session(invocation)
    if source in ("contexts", "clusters", "users"):
        return Completions(
            [Candidate(name) for name in sorted(session.config.raw().stanzas(source))]
        )
    if source == "workspaces":
        return _workspaces(session, current)
    if source == "types":
        return _types(session)
    bindings = apis(session.client, session.current(), "apibindings")
    return Completions([Candidate(one["metadata"]["name"]) for one in bindings.list()])


def _workspaces(session: Session, typed: str) -> Completions:
    """Children of the complete part of the path."""
    separator = "/" if "/" in typed and ":" not in typed else ":"
    before, found, _ = typed.rpartition(separator)
    places = [] if found else [place for place in _PLACES if place.text.startswith(typed)]
    if typed == ":":
        return Completions([Candidate(":root", "root workspace")], NO_FILES | NO_SPACE)
    start = (before + (":" if before == "" and found else "")).replace("/", ":")
    children = workspaces(session.client, _parent(session, start)).list()
    candidates = [
        Candidate(f"{before}{found}{one['metadata']['name']}", type_name(one)) for one in children
    ]
    return Completions([*candidates, *places], NO_FILES | NO_SPACE)


def _parent(session: Session, start: str) -> str:
    if start == "~" or start.startswith("~:"):
        home = workspaces(session.client, clusters.ROOT).get("~")
        start = f":{home_path(url(home))}{start[1:]}"
    return resolve(session.current(), start) if start else session.current()


def _types(session: Session) -> Completions:
    """Types of the current workspace by name, those of root by path."""
    found = []
    current = session.current()
    for cluster in dict.fromkeys((current, clusters.ROOT)):
        types = Collection(
            session.client, cluster, "tenancy.kcp.io", "v1alpha1", "workspacetypes"
        ).list()
        prefix = "" if cluster == current != clusters.ROOT else f"{cluster}:"
        found += [Candidate(prefix + one["metadata"]["name"]) for one in types]
    return Completions(found)
