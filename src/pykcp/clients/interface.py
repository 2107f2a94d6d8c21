"""What a controller may ask of an API server, in this process or across the network.

Nothing here says where the server is: a controller that only knows `Client` can move to
another process. Every verb names its logical cluster.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from pykcp.machinery.resources import GroupVersionResource
from pykcp.types import Object


class Client(Protocol):
    """Verbs on objects of any logical cluster. Refusals are raised as StatusError."""

    def get(
        self, cluster: str, kind: GroupVersionResource, name: str, namespace: str = ""
    ) -> Object | None:
        """The object, or None if there is none."""

    async def list(
        self,
        cluster: str,
        kind: GroupVersionResource,
        namespace: str = "",
        *,
        labels: str = "",
        fields: str = "",
    ) -> list[Object]:
        """All objects of a cluster, of one of its namespaces, of a selection."""

    async def create(self, cluster: str, kind: GroupVersionResource, obj: Object) -> Object: ...

    async def update(
        self, cluster: str, kind: GroupVersionResource, obj: Object, subresource: str = ""
    ) -> Object:
        """Write an object back; Conflict if it changed since it was read."""

    async def change(
        self,
        cluster: str,
        kind: GroupVersionResource,
        name: str,
        make: Callable[[Object], Any],
        namespace: str = "",
        subresource: str = "",
    ) -> Object:
        """Read, change and write; retried after a conflict. NotFound if there is none.

        `make` changes the object in place, or returns another one; what it raises is passed on.
        """

    async def apply(
        self, cluster: str, kind: GroupVersionResource, obj: Object, *, force: bool = False
    ) -> Object:
        """Server-side apply under this client's field manager."""

    async def delete(
        self,
        cluster: str,
        kind: GroupVersionResource,
        name: str,
        namespace: str = "",
        uid: str | None = None,
        propagation: str | None = None,
        resource_version: str | None = None,
    ) -> bool:
        """Delete; False if it was gone already, Conflict if it is not the one that was meant."""
