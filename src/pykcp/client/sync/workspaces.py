"""A workspace, without `await`."""

from __future__ import annotations

from collections.abc import Iterator

from pykcp.client.portal import Portal
from pykcp.client.sync.informers import SyncInformer
from pykcp.client.sync.objects import SyncObjects
from pykcp.client.workspaces import Workspace
from pykcp.types import Object


class SyncWorkspace:
    """One workspace; see `pykcp.client.Workspace`."""

    def __init__(self, portal: Portal, workspace: Workspace) -> None:
        self.portal, self.workspace = portal, workspace

    def __repr__(self) -> str:
        return repr(self.workspace)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SyncWorkspace) and self.workspace == other.workspace

    def __hash__(self) -> int:
        return hash(self.workspace)

    @property
    def path(self) -> str:
        return self.workspace.path

    @property
    def name(self) -> str:
        return self.workspace.name

    @property
    def parent(self) -> SyncWorkspace | None:
        parent = self.workspace.parent
        return None if parent is None else SyncWorkspace(self.portal, parent)

    def enter(self, path: str) -> SyncWorkspace:
        return SyncWorkspace(self.portal, self.workspace.enter(path))

    def __truediv__(self, path: str) -> SyncWorkspace:
        return self.enter(path)

    def __iter__(self) -> Iterator[SyncWorkspace]:
        for child in self.portal.iterate(aiter(self.workspace)):
            yield SyncWorkspace(self.portal, child)

    def create(
        self,
        name: str,
        *,
        type: str = "",  # noqa: A002
        labels: dict[str, str] | None = None,
        location: Object | None = None,
        wait: bool = True,
        timeout: float = 60.0,
    ) -> SyncWorkspace:
        made = self.workspace.create(
            name, type=type, labels=labels, location=location, wait=wait, timeout=timeout
        )
        return SyncWorkspace(self.portal, self.portal.run(made))

    def wait(self, *, timeout: float = 60.0) -> Object:
        return self.portal.run(self.workspace.wait(timeout=timeout))

    def read(self) -> Object:
        return self.portal.run(self.workspace.read())

    def exists(self) -> bool:
        return self.portal.run(self.workspace.exists())

    def delete(self, *, wait: bool = False, timeout: float = 60.0) -> bool:
        return self.portal.run(self.workspace.delete(wait=wait, timeout=timeout))

    def cluster(self) -> str:
        return self.portal.run(self.workspace.cluster())

    def objects(self, kind: str, namespace: str = "") -> SyncObjects:
        return SyncObjects(self.portal, self.workspace.objects(kind, namespace))

    def get(self, kind: str, name: str, namespace: str = "") -> Object:
        return self.portal.run(self.workspace.get(kind, name, namespace))

    def apply(self, obj: Object, *, force: bool = False) -> Object:
        return self.portal.run(self.workspace.apply(obj, force=force))

    def create_object(self, obj: Object) -> Object:
        return self.portal.run(self.workspace.create_object(obj))

    def delete_object(self, obj: Object) -> bool:
        return self.portal.run(self.workspace.delete_object(obj))

    def informer(
        self, kind: str, namespace: str = "", *, labels: str = "", subtree: bool = False
    ) -> SyncInformer:
        made = self.workspace.informer(kind, namespace, labels=labels, subtree=subtree)
        return SyncInformer(self.portal, made)

    def bind(
        self,
        export: str,
        path: str = "",
        *,
        name: str = "",
        accept_claims: bool = False,
        timeout: float = 60.0,
    ) -> Object:
        return self.portal.run(
            self.workspace.bind(
                export, path, name=name, accept_claims=accept_claims, timeout=timeout
            )
        )

    def endpoints(self, export: str) -> list[str]:
        return self.portal.run(self.workspace.endpoints(export))
