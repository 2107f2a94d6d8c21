"""The composition root of a shard: its stages, in the order in which they are built."""

from __future__ import annotations

from dataclasses import dataclass

from pykcp.controllers.runtime.manager import ControllerSet
from pykcp.programs.shard.credentials import Credentials
from pykcp.programs.shard.settings import ShardSettings
from pykcp.programs.shard.stages.access import AccessStage, build_access
from pykcp.programs.shard.stages.api import ApiStage, build_api
from pykcp.programs.shard.stages.catalog import CatalogStage, build_catalog
from pykcp.programs.shard.stages.controllers import build_controllers
from pykcp.programs.shard.stages.foundation import BackgroundTask, Foundation, build_foundation
from pykcp.programs.shard.stages.stores import StoresStage, build_stores
from pykcp.programs.shard.stages.views import ViewsStage, build_views
from pykcp.storage.interface import Store


@dataclass(frozen=True, slots=True)
class Shard:
    """A shard that is built, but not started."""

    base: Foundation
    stores: StoresStage
    catalog: CatalogStage
    access: AccessStage
    api: ApiStage
    views: ViewsStage

    @property
    def tasks(self) -> tuple[BackgroundTask, ...]:
        """What runs in the background, in the order in which it is started."""
        return (
            *self.base.tasks,
            *self.stores.tasks,
            *self.catalog.tasks,
            *self.access.tasks,
            *self.views.tasks,
        )


def wire(
    settings: ShardSettings,
    credentials: Credentials,
    store: Store,
    cache_store: Store,
) -> Shard:
    """Build a shard on stores that are started."""
    base = build_foundation(settings, credentials)
    stores = build_stores(base, store, cache_store)
    catalog = build_catalog(base, stores)
    access = build_access(base, stores, catalog)
    api = build_api(base, stores, catalog, access)
    views = build_views(base, stores, catalog, access, api)
    return Shard(base, stores, catalog, access, api, views)


def make_controllers(shard: Shard) -> ControllerSet:
    """The controllers of a shard whose bootstrap objects exist."""
    return build_controllers(shard.base, shard.stores, shard.catalog, shard.api, shard.views)
