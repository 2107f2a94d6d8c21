"""The stage of kinds: which resources a logical cluster serves, and how objects are found."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from pykcp.admission.chain import AdmissionChain
from pykcp.admission.tenants import check_cel, schema_checks
from pykcp.admission.webhooks.conversions import ConversionCalls
from pykcp.apis.catalog import ResourceDefinition, builtin_definitions
from pykcp.programs.shard.stages.foundation import BackgroundTask, Foundation
from pykcp.programs.shard.stages.stores import StoresStage
from pykcp.registry.catalog.bound import BoundResources
from pykcp.registry.catalog.custom import CustomResources
from pykcp.registry.catalog.directory import Directory
from pykcp.registry.catalog.make import make_custom, make_renamed, make_resource
from pykcp.registry.catalog.old_names import OldNames
from pykcp.registry.catalog.published import find_published
from pykcp.registry.catalog.virtual_storage import find_storage
from pykcp.registry.local import LocalClient
from pykcp.registry.lookup import ObjectLookup
from pykcp.registry.paths import PathIndex
from pykcp.registry.resource import Conversion, Resource, Services
from pykcp.server.large.work import WorkerWork

if TYPE_CHECKING:
    from pykcp.clients.peers import Peers


@dataclass(frozen=True, slots=True)
class CatalogStage:
    admission: AdmissionChain
    """Of all resources below. It gets its plug-ins, which need the catalog, in the API stage."""
    directory: Directory
    bound: BoundResources
    paths: PathIndex
    lookup: ObjectLookup
    client: LocalClient
    """Acts as the API server itself."""
    peers: Peers | None
    """The other shards; None if this is the only one."""
    tasks: tuple[BackgroundTask, ...]


def build_catalog(base: Foundation, stores: StoresStage) -> CatalogStage:
    store, admission = stores.store, AdmissionChain()
    services = Services(
        store,
        stores.hub,
        admission,
        stores.sources,
        check_cel,
        schema_checks,
        ConversionCalls(base.egress.webhooks),
        WorkerWork(base.workers) if base.workers is not None else None,
        stores.moves,
    )
    directory = Directory(builtin_definitions(), partial(make_resource, services=services))
    paths = PathIndex(store)
    lookup = ObjectLookup(store, directory, paths, stores.cache.replica)
    custom = partial(make_custom, services=services)
    has_virtual_storage = base.has("CacheAPIs")
    bound = BoundResources(
        store,
        custom,
        directory.find_system,
        partial(find_storage, lookup) if has_virtual_storage else None,
        partial(find_published, lookup),
    )
    directory.add_source(bound)
    directory.add_source(CustomResources(store, custom))
    if has_virtual_storage:
        directory.add_source(OldNames(partial(_make_renamed, services)))
    client = LocalClient(directory, "system:apiserver", writes_own=True)
    peers = _peers(base, lookup)
    tasks = (BackgroundTask("peers", peers.run),) if peers is not None else ()
    return CatalogStage(admission, directory, bound, paths, lookup, client, peers, tasks)


def _peers(base: Foundation, lookup: ObjectLookup) -> Peers | None:
    if not base.settings.shard.has_peers:
        return None
    from pykcp.programs.shard.joining import make_peers

    return make_peers(base.settings.shard, lookup)


def _make_renamed(
    services: Services,
    definition: ResourceDefinition,
    version: str,
    conversion: Conversion | None,
) -> Resource:
    return make_renamed(definition, version, services, conversion)
