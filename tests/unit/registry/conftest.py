"""A registry on a store in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest

from pykcp.apis.catalog import ResourceDefinition, builtin_definitions
from pykcp.auth.user import User
from pykcp.registry.catalog.directory import Directory
from pykcp.registry.catalog.make import make_resource
from pykcp.registry.clock import Sources, Timestamps
from pykcp.registry.context import RequestContext
from pykcp.registry.resource import Resource, Services
from pykcp.registry.verbs.admitting import NoAdmission
from pykcp.registry.verbs.create import create
from pykcp.registry.watch.hub import WatchHub
from pykcp.storage.memory import MemoryStore
from pykcp.types import Object

NOW = 1_700_000_000.0


@dataclass
class World:
    store: MemoryStore
    hub: WatchHub
    directory: Directory
    context: RequestContext = field(
        default_factory=lambda: RequestContext("c", User("tester"), "test")
    )

    def resource(self, plural: str, group: str = "") -> Resource:
        found = self.directory.find("c", group, "v1", plural)
        assert found is not None
        return found

    async def config_map(self, name: str, namespace: str = "n", **labels: str) -> Object:
        resource = self.resource("configmaps")
        obj: Object = {"metadata": {"name": name, "labels": labels}, "data": {"a": "b"}}
        value = await create(resource, self.context, namespace, obj)
        return resource.object_of(value)


@pytest.fixture
async def world() -> AsyncIterator[World]:
    store = MemoryStore()
    hub = WatchHub(store)
    services = Services(store, hub, NoAdmission(), Sources(Timestamps(lambda: NOW)))

    def make(definition: ResourceDefinition, version: str) -> Resource:
        return make_resource(definition, version, services)

    yield World(store, hub, Directory(builtin_definitions(), make))
    hub.close()
