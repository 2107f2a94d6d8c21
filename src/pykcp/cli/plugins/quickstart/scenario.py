"""What a scenario is made of: steps, one after the other, that can be undone."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pykcp.cli.plugins.access.rest import RestClient
from pykcp.cli.plugins.access.status import ServerError
from pykcp.cli.plugins.errors import PluginError, Prefixed
from pykcp.cli.plugins.go_text import bracketed, quote
from pykcp.cli.plugins.wait import poll
from pykcp.cli.plugins.workspace.paths import BadURL, parse_cluster_url
from pykcp.cli.plugins.workspace.resources import Collection, is_terminating, phase, url, workspaces
from pykcp.machinery import names
from pykcp.machinery.kcp import clusters

Object = dict[str, Any]
LABEL = "kcp.io/quickstart"
PREFIX_LABEL = "kcp.io/quickstart-prefix"
ORGANIZATION_SUFFIX = "-org"
TELL_SECONDS = 10.0


@dataclass
class Stage:
    """The server, the time that is left, and what earlier steps have found out."""

    client: RestClient
    prefix: str
    clock: Callable[[], float]
    deadline: float
    paths: dict[str, str] = field(default_factory=dict)
    has_samples: bool = False

    @property
    def seconds_left(self) -> float:
        return self.deadline - self.clock()

    def labels(self) -> dict[str, str]:
        return {LABEL: "true", PREFIX_LABEL: self.prefix}


@dataclass(frozen=True)
class ScenarioStep:
    description: str
    run: Callable[[Stage], None]
    undo: Callable[[Stage], None] | None = None
    undo_description: str = ""


class Scenario(ABC):
    name: str

    @abstractmethod
    def check(self, prefix: str) -> None:
        """Refuse a prefix, or settings, that cannot work."""

    @abstractmethod
    def steps(self, prefix: str) -> list[ScenarioStep]: ...

    @abstractmethod
    def samples(self, prefix: str) -> list[ScenarioStep]: ...

    @abstractmethod
    def place_to_enter(self, stage: Stage) -> str: ...

    @abstractmethod
    def summary(self, stage: Stage) -> str: ...


def check_name(name: str, words: str) -> None:
    problems = names.dns1123_label(name)
    if problems:
        raise PluginError(
            f"{words} produces invalid workspace name {quote(name)}: {bracketed(problems)}"
        )


def organization_step(prefix: str, cascades: str) -> ScenarioStep:
    """The workspace that holds everything; deleting it deletes all below."""
    name = prefix + ORGANIZATION_SUFFIX
    return ScenarioStep(
        f"Creating organization workspace {quote(name)}",
        lambda stage: workspace_step(stage, "org", clusters.ROOT, name, "organization"),
        lambda stage: delete_workspace(stage, name),
        f"Deleting organization workspace {quote(name)} ({cascades})",
    )


def workspace_step(stage: Stage, key: str, parent: str, name: str, kind: str) -> None:
    path, existed = make_workspace(stage, parent, name, kind)
    stage.paths[key] = path
    word = "already exists" if existed else "created and ready"
    print(f"  Workspace {quote(name)} {word} at {path}", flush=True)


def make_workspace(stage: Stage, parent: str, name: str, kind: str) -> tuple[str, bool]:
    """The path of a workspace that is ready now, and whether it was there before."""
    collection = workspaces(stage.client, parent)
    body = {
        "apiVersion": "tenancy.kcp.io/v1alpha1",
        "kind": "Workspace",
        "metadata": {"name": name, "labels": stage.labels()},
        "spec": {"type": {"name": kind, "path": clusters.ROOT}},
    }
    made, existed = create_or_get(collection, body, f"creating workspace {quote(name)}")
    made = _ready_workspace(stage, collection, made)
    address = url(made)
    if not address:
        raise PluginError(f"workspace {quote(name)} is Ready but Spec.URL is empty")
    try:
        return parse_cluster_url(address).path, existed
    except BadURL as error:
        words = f"workspace {quote(name)} has invalid Spec.URL {quote(address)}"
        raise Prefixed(words, error) from error


def create_or_get(collection: Collection, body: Object, words: str) -> tuple[Object, bool]:
    try:
        return collection.create(body), False
    except ServerError as error:
        if not error.already_exists:
            raise Prefixed(words, error) from error
    except PluginError as error:
        raise Prefixed(words, error) from error
    return collection.get(body["metadata"]["name"]), True


def _ready_workspace(stage: Stage, collection: Collection, made: Object) -> Object:
    name, latest = made["metadata"]["name"], made

    def is_ready() -> bool:
        nonlocal latest
        try:
            latest = collection.get(name)
        except ServerError as error:
            if error.is_not_found:
                return False
            raise
        return phase(latest) == "Ready"

    try:
        poll(is_ready, stage.seconds_left)
    except PluginError as error:
        raise Prefixed(
            f"timed out waiting for workspace {quote(name)} to become ready "
            f"(current phase: {phase(latest)})",
            error,
        ) from error
    return latest


def delete_workspace(stage: Stage, name: str) -> None:
    """Delete it and wait until it is gone; it is fine if it is not there."""
    collection = workspaces(stage.client, clusters.ROOT)
    try:
        collection.delete(name)
    except ServerError as error:
        if error.is_not_found:
            return
        raise
    waiting = f"Waiting for workspace {quote(name)} and all children to finish terminating..."
    print(f"  {waiting}", flush=True)
    told = stage.clock()

    def is_gone() -> bool:
        nonlocal told
        try:
            found = collection.get(name)
        except ServerError as error:
            if error.is_not_found:
                return True
            raise
        if stage.clock() - told >= TELL_SECONDS:
            told = stage.clock()
            print(f"  {_progress(found)}", flush=True)
        return False

    try:
        poll(is_gone, stage.seconds_left, longest_pause=2.0)
    except PluginError as error:
        words = f"timed out waiting for workspace {quote(name)} to terminate"
        raise Prefixed(words, error) from error


def _progress(workspace: Object) -> str:
    if is_terminating(workspace):
        return "Still terminating (cascading deletion in progress)..."
    return f"Deletion pending (phase: {phase(workspace)})..."
