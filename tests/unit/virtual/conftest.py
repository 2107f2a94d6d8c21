"""A directory of built-in kinds on a store in memory."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import Any, cast

import pytest

from pykcp.apis.catalog import ResourceDefinition, builtin_definitions
from pykcp.registry.catalog.directory import Directory
from pykcp.registry.catalog.make import make_resource
from pykcp.registry.clock import Sources, Timestamps
from pykcp.registry.resource import Resource, Services
from pykcp.registry.verbs.admitting import NoAdmission
from pykcp.registry.watch.hub import WatchHub
from pykcp.storage.memory import MemoryStore
from pykcp.virtual.framework import Parts


@pytest.fixture
def directory_parts() -> Iterator[Parts]:
    loop = asyncio.new_event_loop()
    store = MemoryStore()
    services = Services(
        store, WatchHub(store, loop), NoAdmission(), Sources(now=Timestamps(time.time))
    )

    def make(definition: ResourceDefinition, version: str) -> Resource:
        return make_resource(definition, version, services)

    nobody = cast("Any", None)
    yield Parts(Directory(builtin_definitions(), make), nobody, nobody)
    loop.close()
