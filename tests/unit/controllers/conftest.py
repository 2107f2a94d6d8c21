"""A registry on a store in memory: controllers on the real thing, without a server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from functools import partial

import pytest

from pykcp.admission.chain import AdmissionChain
from pykcp.admission.plugins.namespace_lifecycle import NamespaceLifecycle
from pykcp.admission.plugins.resource_quota import Quotas
from pykcp.aio.owner import TaskOwner
from pykcp.apis.catalog import ResourceDefinition, builtin_definitions
from pykcp.controllers.kube import all as kube
from pykcp.controllers.runtime.manager import ControllerSet, join
from pykcp.controllers.runtime.metrics import ControllerMetrics
from pykcp.observe.metrics import Registry
from pykcp.registry.catalog.directory import Directory
from pykcp.registry.catalog.make import make_resource
from pykcp.registry.clock import Sources, Timestamps
from pykcp.registry.local import LocalClient
from pykcp.registry.local_lister import LocalLister
from pykcp.registry.log_feed import LogFeed
from pykcp.registry.resource import Resource, Services
from pykcp.registry.watch.hub import WatchHub
from pykcp.storage.memory import MemoryStore


@dataclass
class World:
    store: MemoryStore
    hub: WatchHub
    directory: Directory
    client: LocalClient
    owner: TaskOwner
    now: list[float] = field(default_factory=lambda: [1_700_000_000.0])
    """The time, to be set by tests."""

    @property
    def lister(self) -> LocalLister:
        return LocalLister(self.store, self.directory)

    def clock(self) -> float:
        return self.now[0]

    def controllers(self, ca: str = "ca-1") -> ControllerSet:
        followers = kube.make(
            lister=self.lister,
            make_client=partial(LocalClient, self.directory),
            hub=self.hub,
            directory=self.directory,
            metrics=ControllerMetrics(Registry()),
            ca_bundle=ca,
            sign_token=lambda account, secret, cluster: f"token of {cluster}",
            event_ttl=3600.0,
            quotas=Quotas(self.store),
            clock=self.clock,
        )
        return join(LogFeed(self.store), followers)


@pytest.fixture
async def world() -> AsyncIterator[World]:
    store = MemoryStore()
    hub = WatchHub(store)
    now = [1_700_000_000.0]
    admission = AdmissionChain()
    admission.install([NamespaceLifecycle(store)], [])
    services = Services(store, hub, admission, Sources(Timestamps(lambda: now[0])))

    def make(definition: ResourceDefinition, version: str) -> Resource:
        return make_resource(definition, version, services)

    directory = Directory(builtin_definitions(), make)
    async with TaskOwner("test") as owner:
        yield World(store, hub, directory, LocalClient(directory, "tester"), owner, now)
    hub.close()
