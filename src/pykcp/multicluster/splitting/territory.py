"""Which clusters serve which workspaces.

The clusters that are registered in a workspace serve it, and the workspaces that bind an API of it:
there they are known by a name that also says which workspace they are of.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, replace

from pykcp.machinery.resources import GroupVersionResource
from pykcp.multicluster.names import shared_name
from pykcp.multicluster.scheduling.model import ClusterView
from pykcp.multicluster.scheduling.snapshot import ACCEPTED, INCOMPATIBLE, cluster_view, type_name
from pykcp.multicluster.splitting.inventory import Inventory
from pykcp.types import Object

Kinds = Mapping[str, GroupVersionResource]


@dataclass(frozen=True, slots=True)
class _Registered:
    view: ClusterView
    kinds: Kinds
    """The types that it accepts."""
    listed: Kinds
    """With those that it accepts no longer, of which it may run something."""


@dataclass(frozen=True, slots=True)
class TerritoryChange:
    """What a change of a Cluster means for the workspaces that it serves."""

    workspaces: frozenset[str]
    is_material: bool
    """Decisions may be other ones."""
    are_kinds_new: bool
    is_new: bool
    """The Cluster was not known."""


class Territory:
    def __init__(self, inventory: Inventory, started: float = 0.0) -> None:
        self._inventory, self._started = inventory, started
        self._registered: dict[str, dict[str, _Registered]] = {}
        """By workspace and name."""
        self._consumers: dict[str, dict[str, str]] = {}
        """By workspace: its APIBindings, each with the workspace of the export."""
        self._serving: dict[str, set[str]] = {}
        """The workspaces that bind an API of a workspace."""
        self._snapshots: dict[str, dict[str, ClusterView]] = {}
        inventory.on_count(self._note_count)

    # --- clusters

    def put_cluster(self, workspace: str, name: str, cluster: Object | None) -> TerritoryChange:
        clusters = self._registered.setdefault(workspace, {})
        before = clusters.pop(name, None)
        after = None
        if cluster is not None:
            view = replace(
                cluster_view(cluster, started=self._started), identity=f"{workspace}/{name}"
            )
            after = clusters[name] = _Registered(
                view,
                _kinds(cluster, (ACCEPTED,)),
                _kinds(cluster, (ACCEPTED, INCOMPATIBLE)),
            )
        if not clusters:
            del self._registered[workspace]
        served = self.served_by(workspace)
        for one in served:
            self._snapshots.pop(one, None)
        known = before.listed if before is not None else {}
        return TerritoryChange(
            served,
            _without_load(before) != _without_load(after),
            after is not None and bool(after.listed.keys() - known.keys()),
            before is None and after is not None,
        )

    def clusters(self, workspace: str) -> Mapping[str, ClusterView]:
        """The clusters that serve a workspace, by the names that they have there."""
        found = self._snapshots.get(workspace)
        if found is None:
            found = self._snapshots[workspace] = {
                view.name: replace(view, bindings=self._inventory.count(workspace, view.name))
                for provider in self._providers(workspace)
                for view in self._views_for(workspace, provider)
            }
        return found

    def _note_count(self, workspace: str, name: str, count: int) -> None:
        """Another number of workloads is placed on a cluster."""
        found = self._snapshots.get(workspace)
        if found is not None and name in found:
            found[name] = replace(found[name], bindings=count)

    def _views_for(self, workspace: str, provider: str) -> list[ClusterView]:
        registered = self._registered.get(provider, {})
        if provider == workspace:
            return [one.view for one in registered.values()]
        return [
            replace(
                one.view, name=shared_name(provider, name), is_closed=not one.view.serves_others
            )
            for name, one in registered.items()
        ]

    # --- workspaces

    def put_binding(self, workspace: str, binding: str, provider: str) -> bool:
        """An APIBinding and the workspace of its export, empty if it has none; True if clusters
        are gained or lost with it.
        """
        bindings = self._consumers.setdefault(workspace, {})
        before = bindings.pop(binding, "")
        if provider and provider != workspace:
            bindings[binding] = provider
            self._serving.setdefault(provider, set()).add(workspace)
        if before and before not in bindings.values():
            self._serving[before].discard(workspace)
            if not self._serving[before]:
                del self._serving[before]
        if not bindings:
            del self._consumers[workspace]
        if before == provider:
            return False
        self._snapshots.pop(workspace, None)
        return before in self._registered or provider in self._registered

    def served_by(self, provider: str) -> frozenset[str]:
        return frozenset({provider, *self._serving.get(provider, ())})

    def is_served(self, workspace: str) -> bool:
        return any(provider in self._registered for provider in self._providers(workspace))

    def _providers(self, workspace: str) -> list[str]:
        return [workspace, *sorted(set(self._consumers.get(workspace, {}).values()))]

    def kinds(self, workspace: str) -> Kinds:
        """The types of which clusters of a workspace may run something."""
        found: dict[str, GroupVersionResource] = {}
        for provider in self._providers(workspace):
            for one in self._registered.get(provider, {}).values():
                found.update(one.listed)
        return found

    def kind(self, workspace: str, type_name_: str) -> GroupVersionResource | None:
        """A type that some cluster accepts."""
        for provider in self._providers(workspace):
            for one in self._registered.get(provider, {}).values():
                found = one.kinds.get(type_name_)
                if found is not None:
                    return found
        return None

    def listed_kind(self, workspace: str, type_name_: str) -> GroupVersionResource | None:
        """The same, or one that some cluster accepts no longer."""
        accepted = self.kind(workspace, type_name_)
        return accepted if accepted is not None else self.kinds(workspace).get(type_name_)


def _kinds(cluster: Object, states: Container[str]) -> Kinds:
    synced = (cluster.get("status") or {}).get("syncedResources") or ()
    return {
        type_name(one.get("group") or "", one["resource"]): GroupVersionResource(
            one.get("group") or "", one.get("version") or "v1", one["resource"]
        )
        for one in synced
        if one.get("state") in states
    }


def _without_load(registered: _Registered | None) -> _Registered | None:
    """Reports of free capacity arrive all the time and alone move nothing."""
    if registered is None:
        return None
    return replace(registered, view=replace(registered.view, free=None, bindings=0))
