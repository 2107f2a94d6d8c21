"""The client without `await`, for scripts, tests and the interactive shell.

    from pykcp.client.sync import connect

    with connect() as kcp:
        team = kcp.workspace("root").create("team")
        for child in kcp.workspace("root"):
            print(child.path)

Every method does what the method of the same name does in `pykcp.client`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, Self

from pykcp.client import session
from pykcp.client.objects import ObjectEvent, Objects
from pykcp.client.portal import Portal
from pykcp.client.workspaces import Workspace
from pykcp.clients.interface import PAGE, ObjectPage
from pykcp.types import Object


class SyncObjects:
    """The objects of one kind in a workspace; see `pykcp.client.Objects`."""

    def __init__(self, portal: Portal, objects: Objects) -> None:
        self._portal, self._objects = portal, objects

    def get(self, name: str, namespace: str = "") -> Object:
        return self._portal.run(self._objects.get(name, namespace))

    def find(self, name: str, namespace: str = "") -> Object | None:
        return self._portal.run(self._objects.find(name, namespace))

    def list(self, namespace: str = "", *, labels: str = "", fields: str = "") -> list[Object]:
        return self._portal.run(self._objects.list(namespace, labels=labels, fields=fields))

    def pages(
        self, namespace: str = "", *, labels: str = "", fields: str = "", size: int = PAGE
    ) -> Iterator[ObjectPage]:
        return self._portal.iterate(
            self._objects.pages(namespace, labels=labels, fields=fields, size=size)
        )

    def __iter__(self) -> Iterator[Object]:
        return self._portal.iterate(aiter(self._objects))

    def watch(
        self, namespace: str = "", *, labels: str = "", fields: str = "", since: str = ""
    ) -> Iterator[ObjectEvent]:
        return self._portal.iterate(
            self._objects.watch(namespace, labels=labels, fields=fields, since=since)
        )

    def wait(
        self,
        name: str,
        condition: Callable[[Object], bool],
        namespace: str = "",
        *,
        timeout: float = 60.0,
    ) -> Object:
        return self._portal.run(self._objects.wait(name, condition, namespace, timeout=timeout))

    def create(self, obj: Object) -> Object:
        return self._portal.run(self._objects.create(obj))

    def update(self, obj: Object, subresource: str = "") -> Object:
        return self._portal.run(self._objects.update(obj, subresource))

    def change(
        self, name: str, make: Callable[[Object], Any], namespace: str = "", subresource: str = ""
    ) -> Object:
        return self._portal.run(self._objects.change(name, make, namespace, subresource))

    def patch(self, name: str, patch: Any, namespace: str = "", subresource: str = "") -> Object:
        return self._portal.run(self._objects.patch(name, patch, namespace, subresource))

    def apply(self, obj: Object, subresource: str = "", *, force: bool = False) -> Object:
        return self._portal.run(self._objects.apply(obj, subresource, force=force))

    def delete(
        self, name: str, namespace: str = "", *, uid: str = "", propagation: str = ""
    ) -> bool:
        return self._portal.run(
            self._objects.delete(name, namespace, uid=uid, propagation=propagation)
        )

    def delete_all(self, namespace: str = "", *, labels: str = "", fields: str = "") -> None:
        self._portal.run(self._objects.delete_all(namespace, labels=labels, fields=fields))


class SyncWorkspace:
    """One workspace; see `pykcp.client.Workspace`."""

    def __init__(self, portal: Portal, workspace: Workspace) -> None:
        self._portal, self.workspace = portal, workspace

    def __repr__(self) -> str:
        return repr(self.workspace)

    @property
    def path(self) -> str:
        return self.workspace.path

    @property
    def name(self) -> str:
        return self.workspace.name

    @property
    def parent(self) -> SyncWorkspace | None:
        parent = self.workspace.parent
        return None if parent is None else SyncWorkspace(self._portal, parent)

    def enter(self, path: str) -> SyncWorkspace:
        return SyncWorkspace(self._portal, self.workspace.enter(path))

    def __truediv__(self, path: str) -> SyncWorkspace:
        return self.enter(path)

    def __iter__(self) -> Iterator[SyncWorkspace]:
        for child in self._portal.iterate(aiter(self.workspace)):
            yield SyncWorkspace(self._portal, child)

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
        return SyncWorkspace(self._portal, self._portal.run(made))

    def wait(self, *, timeout: float = 60.0) -> Object:
        return self._portal.run(self.workspace.wait(timeout=timeout))

    def read(self) -> Object:
        return self._portal.run(self.workspace.read())

    def exists(self) -> bool:
        return self._portal.run(self.workspace.exists())

    def delete(self, *, wait: bool = False, timeout: float = 60.0) -> bool:
        return self._portal.run(self.workspace.delete(wait=wait, timeout=timeout))

    def cluster(self) -> str:
        return self._portal.run(self.workspace.cluster())

    def objects(self, kind: str, namespace: str = "") -> SyncObjects:
        return SyncObjects(self._portal, self.workspace.objects(kind, namespace))

    def get(self, kind: str, name: str, namespace: str = "") -> Object:
        return self._portal.run(self.workspace.get(kind, name, namespace))

    def apply(self, obj: Object, *, force: bool = False) -> Object:
        return self._portal.run(self.workspace.apply(obj, force=force))

    def create_object(self, obj: Object) -> Object:
        return self._portal.run(self.workspace.create_object(obj))

    def delete_object(self, obj: Object) -> bool:
        return self._portal.run(self.workspace.delete_object(obj))

    def bind(
        self,
        export: str,
        path: str = "",
        *,
        name: str = "",
        accept_claims: bool = False,
        timeout: float = 60.0,
    ) -> Object:
        return self._portal.run(
            self.workspace.bind(
                export, path, name=name, accept_claims=accept_claims, timeout=timeout
            )
        )

    def endpoints(self, export: str) -> list[str]:
        return self._portal.run(self.workspace.endpoints(export))


class SyncKcp:
    """A server; see `pykcp.client.Kcp`."""

    def __init__(self, kcp: session.Kcp) -> None:
        self._kcp, self._portal = kcp, Portal()

    @property
    def current(self) -> SyncWorkspace:
        return SyncWorkspace(self._portal, self._kcp.current)

    def workspace(self, path: str) -> SyncWorkspace:
        return SyncWorkspace(self._portal, self._kcp.workspace(path))

    def close(self) -> None:
        self._portal.run(self._kcp.close())
        self._portal.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def connect(
    kubeconfig: str | os.PathLike[str] | None = None,
    *,
    context: str = "",
    manager: str = "pykcp-client",
) -> SyncKcp:
    """The server of a kubeconfig's context; see `pykcp.client.connect`. Raises CredentialError."""
    return SyncKcp(session.connect(kubeconfig, context=context, manager=manager))
