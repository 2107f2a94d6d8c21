"""The controllers of migrations, made and joined to one another."""

from __future__ import annotations

from pykcp.controllers.apis.apibinding import APIBindings
from pykcp.controllers.apis.bound_crds import BoundCRDs
from pykcp.controllers.apis.objects import ApiObjects
from pykcp.controllers.migration import migrations, move_plans
from pykcp.controllers.migration.arrivals import ArrivedClusters
from pykcp.controllers.migration.destination import MigrationDestination
from pykcp.controllers.migration.migrations import Migrations
from pykcp.controllers.migration.move_plans import MovePlans
from pykcp.controllers.migration.needed_definitions import NeededDefinitions
from pykcp.controllers.migration.objects import MigrationObjects
from pykcp.controllers.migration.origin import MigrationOrigin
from pykcp.controllers.runtime.parts import ControllerParts
from pykcp.controllers.tenancy import workspaces
from pykcp.controllers.tenancy.hosting import HostedClusters
from pykcp.controllers.tenancy.provisioning import WorkspaceProvisioning
from pykcp.controllers.tenancy.workspace_reports import WorkspaceReports
from pykcp.registry.moving.parts import ShardMoves
from pykcp.registry.shards import KnownShards


def make(
    parts: ControllerParts,
    moving: ShardMoves,
    provisioning: WorkspaceProvisioning,
    bindings: APIBindings,
    reports: WorkspaceReports | None,
) -> Migrations:
    lister, lookup, shard, now = parts.lister, parts.lookup, parts.shard_name, parts.now()
    client = parts.account(migrations.NAME)
    shards = KnownShards(lookup)
    origin = MigrationOrigin(client, shards, moving.outgoing, shard, now, parts.clock)
    objects = MigrationObjects(lister, client, lookup, parts.peers)
    destination, settle = None, _nothing
    if parts.peers is not None and reports is not None:
        known = ApiObjects(lister, lookup)
        definitions = NeededDefinitions(known, BoundCRDs(known, client, now), parts.peers)
        destination = MigrationDestination(moving.incoming, definitions, parts.peers, shard)
        hosted = HostedClusters(parts.account(workspaces.NAME), lookup, provisioning, shard, now)
        rebind = bindings.controller.add
        settle = ArrivedClusters(lister, hosted, reports, rebind, shard).settle
    return Migrations(
        objects, origin, destination, moving, settle, shard, now, lookup.replica,
        parts.metrics,
    )  # fmt: skip


def make_plans(parts: ControllerParts) -> MovePlans:
    client = parts.account(move_plans.NAME)
    return MovePlans(
        parts.lister, client, parts.peers, parts.now(), parts.clock, parts.metrics
    )  # fmt: skip


async def _nothing(cluster: str) -> None:
    """Nothing arrives at a shard that does not know others."""
