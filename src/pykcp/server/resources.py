"""What a server serves: asked by its router, by discovery and by OpenAPI."""

from __future__ import annotations

from typing import Protocol

from pykcp.apis.catalog import ResourceDefinition
from pykcp.registry.resource import Resource


class ServedResources(Protocol):
    """A shard's `Directory`, or the view that a virtual workspace has of one."""

    def find(
        self, cluster: str, group: str, version: str, plural: str, identity: str = ""
    ) -> Resource | None: ...

    async def find_partial(self, group: str, version: str, plural: str) -> Resource | None:
        """What some clusters bring, for reads of metadata over all of them."""

    def is_builtin_group(self, cluster: str, group: str) -> bool:
        """Whether the group has kinds that are built in."""

    def is_loaded(self, cluster: str) -> bool:
        """Whether `definitions` answers at once; otherwise `load` is awaited first."""

    async def load(self, cluster: str) -> None:
        """Read the definitions of a cluster in slices: they may be many, and large."""

    def definitions(self, cluster: str) -> tuple[ResourceDefinition, ...]: ...
