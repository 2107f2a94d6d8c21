"""A client inside its shard: beside the verbs of every client, transactions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from pykcp.clients.interface import Client
from pykcp.machinery.resources import GroupVersionResource
from pykcp.registry.resource import Resource
from pykcp.registry.verbs.templates import TemplateCopy
from pykcp.registry.verbs.transaction import Create, FromTemplate, Update, Write
from pykcp.types import Object


class ShardClient(Client, Protocol):
    """Writes of several objects as one; no client of another process can do that."""

    def resource(self, cluster: str, kind: GroupVersionResource) -> Resource:
        """How the cluster serves a kind."""

    def to_create(self, cluster: str, kind: GroupVersionResource, obj: Object) -> Create: ...

    def from_template(
        self, cluster: str, kind: GroupVersionResource, copy: TemplateCopy
    ) -> FromTemplate: ...

    def to_update(
        self,
        cluster: str,
        kind: GroupVersionResource,
        name: str,
        make: Callable[[Object], Any],
    ) -> Update: ...

    async def transaction(self, writes: Sequence[Write]) -> None:
        """Creates, updates of spec and status alike, deletions: all of them or none."""
