"""A workspace as an object: its children, its kinds, its exports."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any

from pykcp.client.kinds import (
    BINDING_KIND,
    ENDPOINT_SLICE_KIND,
    LOGICAL_CLUSTER_KIND,
    WORKSPACE_KIND,
    KindDirectory,
)
from pykcp.client.objects import Objects
from pykcp.client.transport import Transport
from pykcp.machinery.status import NotFound
from pykcp.types import Object

if TYPE_CHECKING:
    from pykcp.client.informers import ObjectInformer

_CLUSTER = "kcp.io/cluster"


class Workspace:
    """One workspace, or, with an empty path, a server without workspaces.

    Making one sends no request: it need not exist yet.
    """

    def __init__(
        self,
        transport: Transport,
        path: str,
        *,
        prefix: str = "",
        reach: Callable[[str], Transport] | None = None,
    ) -> None:
        """`path`: `root:team`, or the name of a logical cluster; `prefix`: what is before
        `/clusters/` in URLs; `reach`: gives the transport for another server.
        """
        self.transport, self.path = transport, path
        self.prefix = prefix
        self.base = f"{prefix}/clusters/{path}" if path else prefix
        self.kinds = KindDirectory(transport, self.base)
        self.reach = reach or (lambda _url: transport)

    def __repr__(self) -> str:
        return f"<Workspace {self.path or '/'}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Workspace) and (self.transport, self.base) == (
            other.transport,
            other.base,
        )

    def __hash__(self) -> int:
        return hash((id(self.transport), self.base))

    # --- the tree

    @property
    def name(self) -> str:
        """The last part of its path."""
        return self.path.rpartition(":")[2]

    @property
    def parent(self) -> Workspace | None:
        """The workspace above, by the path; None for a root or a logical cluster's name."""
        above, colon, _ = self.path.rpartition(":")
        return self._at(above) if colon else None

    def enter(self, path: str) -> Workspace:
        """The workspace at a path below this one: `ws.enter("team:dev")`."""
        return self._at(f"{self.path}:{path}" if self.path else path)

    def __truediv__(self, path: str) -> Workspace:
        return self.enter(path)

    def _at(self, path: str) -> Workspace:
        return Workspace(self.transport, path, prefix=self.prefix, reach=self.reach)

    async def __aiter__(self) -> AsyncIterator[Workspace]:
        """The children that one may see."""
        async for obj in self._children():
            yield self.enter(obj["metadata"]["name"])

    async def create(
        self,
        name: str,
        *,
        type: str = "",  # noqa: A002
        labels: dict[str, str] | None = None,
        location: Object | None = None,
        wait: bool = True,
        timeout: float = 60.0,
    ) -> Workspace:
        """Create a child and wait until it is ready.

        `type`: a name in this workspace or above, or `path:name`; `location`: which shards it
        may be on. With a name that ends in `-` the server completes it.
        """
        metadata: Object = {"generateName": name} if name.endswith("-") else {"name": name}
        if labels:
            metadata["labels"] = labels
        spec: Object = {}
        if type:
            path, _, word = type.rpartition(":")
            spec["type"] = {"name": word, **({"path": path} if path else {})}
        if location:
            spec["location"] = location
        obj: Object = {"apiVersion": "tenancy.kcp.io/v1alpha1", "kind": "Workspace"}
        made = await self._children().create({**obj, "metadata": metadata, "spec": spec})
        child = self.enter(made["metadata"]["name"])
        if wait and _phase(made) != "Ready":
            await child.wait(timeout=timeout)
        return child

    async def wait(self, *, timeout: float = 60.0) -> Object:
        """The Workspace object as soon as it is ready. Raises TimeoutError with its state."""
        children = self._above()._children()
        return await children.wait(self.name, lambda obj: _phase(obj) == "Ready", timeout=timeout)

    async def read(self) -> Object:
        """This workspace's Workspace object in the one above. Raises NotFound."""
        return await self._above()._children().get(self.name)

    async def exists(self) -> bool:
        """Whether there is one, ready or not, in the workspace above."""
        return await self._above()._children().find(self.name) is not None

    async def delete(self, *, wait: bool = False, timeout: float = 60.0) -> bool:
        """Delete it with everything in it; False if there is none. `wait`: until it is gone."""
        objects = self._above()._children()
        if not wait:
            return await objects.delete(self.name)
        _, version = await objects.list_with_version(fields=f"metadata.name={self.name}")
        if not await objects.delete(self.name):
            return False
        async with asyncio.timeout(timeout):
            async for event in objects.watch(fields=f"metadata.name={self.name}", since=version):
                if event.type == "DELETED":
                    break
        return True

    def _children(self) -> Objects:
        return Objects(self, WORKSPACE_KIND)

    def _above(self) -> Workspace:
        parent = self.parent
        if parent is None:
            raise ValueError(f"{self.path or '/'} has no parent whose Workspace object it could be")
        return parent

    async def cluster(self) -> str:
        """The name of its logical cluster, which stays the same as long as it lives."""
        found = await Objects(self, LOGICAL_CLUSTER_KIND).get("cluster")
        name: str = found["metadata"]["annotations"][_CLUSTER]
        return name

    # --- objects

    def objects(self, kind: str, namespace: str = "") -> Objects:
        """The objects of a kind, by any name that kubectl accepts: `cm`, `deployments.apps`."""
        return Objects(self, kind, namespace)

    async def get(self, kind: str, name: str, namespace: str = "") -> Object:
        """One object. Raises NotFound."""
        return await self.objects(kind).get(name, namespace)

    async def apply(self, obj: Object, *, force: bool = False) -> Object:
        """Server-side apply of an object of any kind."""
        return await (await self._of(obj)).apply(obj, force=force)

    async def create_object(self, obj: Object) -> Object:
        """Create an object of any kind; AlreadyExists if there is one of that name."""
        return await (await self._of(obj)).create(obj)

    async def delete_object(self, obj: Object) -> bool:
        """Delete the object of this kind, namespace and name; False if there is none."""
        metadata = obj["metadata"]
        return await (await self._of(obj)).delete(metadata["name"], metadata.get("namespace", ""))

    async def _of(self, obj: Object) -> Objects:
        return Objects(self, await self.kinds.of_object(obj))

    def informer(
        self, kind: str, namespace: str = "", *, labels: str = "", subtree: bool = False
    ) -> ObjectInformer:
        """A copy of all objects of a kind that follows their changes.

        `subtree`: also of those in all workspaces below, for kinds of Kubernetes and kcp.
        """
        from pykcp.client.informers import ObjectInformer
        from pykcp.client.subtree import SubtreeInformer

        if subtree:
            return SubtreeInformer(self, kind, namespace, labels=labels)
        return ObjectInformer(self.objects(kind, namespace), labels=labels)

    # --- APIs of others

    async def bind(
        self,
        export: str,
        path: str = "",
        *,
        name: str = "",
        accept_claims: bool = False,
        timeout: float = 60.0,
    ) -> Object:
        """Bind an APIExport and wait until its kinds are served.

        `path`: the workspace of the export, this one if empty; `accept_claims`: accept every
        permission claim of the export, otherwise none is decided.
        """
        spec: Object = {
            "reference": {"export": {"name": export, **({"path": path} if path else {})}}
        }
        if accept_claims:
            exported = await (self._at(path) if path else self).get(
                "apiexports.v1alpha2.apis.kcp.io", export
            )
            spec["permissionClaims"] = [
                {**claim, "state": "Accepted", "selector": {"matchAll": True}}
                for claim in exported["spec"].get("permissionClaims") or ()
            ]
        bindings = Objects(self, BINDING_KIND)
        wanted: Object = {"metadata": {"name": name or export}, "spec": spec}
        await bindings.apply(wanted)
        return await bindings.wait(
            name or export, lambda obj: _phase(obj) == "Bound", timeout=timeout
        )

    async def endpoints(self, export: str) -> list[str]:
        """The URLs under which the consumers of an export of this workspace are found."""
        found = await Objects(self, ENDPOINT_SLICE_KIND).find(export)
        if found is None:
            raise NotFound(f'apiexportendpointslices "{export}" not found', name=export)
        return endpoint_urls(found)


def endpoint_urls(endpoint_slice: Object) -> list[str]:
    endpoints: list[dict[str, Any]] = (endpoint_slice.get("status") or {}).get("endpoints") or []
    return [endpoint["url"] for endpoint in endpoints]


def _phase(obj: Object) -> str:
    phase: str = (obj.get("status") or {}).get("phase") or ""
    return phase
