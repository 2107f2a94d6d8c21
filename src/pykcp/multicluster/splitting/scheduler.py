"""The scheduler: the only writer of a Binding's spec and of its condition Scheduled."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from pykcp.controllers.runtime.controller import Controller
from pykcp.machinery import meta
from pykcp.machinery.resources import EVENTS
from pykcp.machinery.status import AlreadyExists, NotFound, StatusError
from pykcp.multicluster.interpreter.kinds import KindTraits, usual_strategy
from pykcp.multicluster.names import WORKLOAD_BINDINGS
from pykcp.multicluster.scheduling.decide import decide
from pykcp.multicluster.scheduling.following import NO_LEADER
from pykcp.multicluster.scheduling.model import (
    DIVIDED,
    Placed,
    PlacementDecision,
    Policy,
    Question,
    WorkloadView,
)
from pykcp.multicluster.scheduling.policy import is_named, policy_of
from pykcp.multicluster.scheduling.snapshot import placed_of
from pykcp.multicluster.scheduling.stuck import StuckReplicaBrakes
from pykcp.multicluster.splitting import bindings
from pykcp.multicluster.splitting.departing import Departures, WorkloadDepartures
from pykcp.multicluster.splitting.inventory import (
    EXPECTED,
    NO_BINDING,
    KnownBinding,
    KnownLeaf,
)
from pykcp.multicluster.splitting.keys import RootKey, binding_name
from pykcp.multicluster.splitting.leading import Leading
from pykcp.multicluster.splitting.parts import SplitterParts
from pykcp.multicluster.splitting.recording import NORMAL, WARNING, Told, event, record
from pykcp.types import Object

NAME = "workload-scheduler"
_SOONEST = 0.05

FirstLeaves = Callable[[RootKey, Object, Object], list[tuple[Object, KnownLeaf]] | None]
"""The leaves of a workload and its new Binding, with what is then known of them; None if they
cannot be made at once."""


class WorkloadScheduler:
    def __init__(self, parts: SplitterParts, first_leaves: FirstLeaves | None = None) -> None:
        """`first_leaves`: the leaves of a new Binding; None if they are made by themselves."""
        self._parts, self._first_leaves = parts, first_leaves
        self._leading = Leading(parts)
        self._departures = WorkloadDepartures(parts)
        self._stuck: StuckReplicaBrakes[RootKey] = StuckReplicaBrakes(
            parts.settings.stuck_toleration, self._departures.wait_to_leave
        )
        self.controller: Controller[RootKey] = Controller(
            NAME, self.reconcile, workers=8, metrics=parts.metrics
        )

    def note_clusters(self, workspace: str) -> None:
        """Clusters of a workspace changed."""
        self._departures.note_clusters(workspace)

    async def reconcile(self, key: RootKey) -> float | None:
        parts = self._parts
        if parts.territory.kind(key.cluster, key.type) is None:
            return None  # no cluster accepts the type any more: everything stays where it is
        if parts.is_too_large(key):
            return None
        root, binding = parts.root(key), parts.binding(key)
        if root is None or meta.is_deleting(root):
            await self._forget(key, binding)
            return None
        rules = parts.rules(key, root)
        if not rules.is_placed:
            return None
        placement = parts.placement(key, root)
        policy = self._policy(key, root, binding, rules, placement)
        workload = self._leading.workload(key, root, rules, policy, placement)
        if binding is None and workload.is_follower and not (workload.leaders or policy.placement):
            return None
        return await self._place(key, root, binding, policy, workload)

    def _policy(
        self,
        key: RootKey,
        root: Object,
        binding: Object | None,
        rules: KindTraits,
        placement: Object | None,
    ) -> Policy:
        """What is asked for the object itself. One that follows others has to be named: a Placement
        of the whole namespace is about its workloads.
        """
        if rules.is_follower and placement is not None and not is_named(placement, root):
            placement = None
        placed_in = len(((binding or {}).get("spec") or {}).get("clusters") or ())
        return policy_of(placement, usual_strategy(rules, root, key.type, placed_in))

    async def _place(
        self,
        key: RootKey,
        root: Object,
        binding: Object | None,
        policy: Policy,
        workload: WorkloadView,
    ) -> float | None:
        parts, now = self._parts, self._parts.clock()
        clusters = parts.territory.clusters(key.cluster)
        known = parts.inventory.leaves(key)
        leaves = frozenset(known)
        placed = placed_of(binding, leaves, clusters)
        question = Question(workload, policy, clusters, placed, {}, now, parts.settings.cooldown)
        departures = self._departures.of(question, key)
        caps, look_again = self._caps(key, policy, placed, known, now)
        if departures.now or caps:
            question = replace(question, departing=departures.now, caps=caps)
        decision = decide(question)
        if decision.reason == NO_LEADER and binding is not None and not leaves:
            await self._forget(key, binding)
            return None
        await self._write(key, root, binding, policy, workload, decision, departures)
        asked = (decision.again_after, departures.again_after, look_again)
        waits = [wait for wait in asked if wait is not None]
        return max(_SOONEST, min(waits)) if waits else None

    def _caps(
        self,
        key: RootKey,
        policy: Policy,
        placed: Placed,
        leaves: Mapping[str, KnownLeaf],
        now: float,
    ) -> tuple[dict[str, int], float | None]:
        """Clusters that have no room for all of their replicas. What is being moved is let be."""
        if policy.strategy != DIVIDED or not policy.rebalances or placed.leaving:
            return {}, None
        stuck = {name: leaf.stuck for name, leaf in leaves.items() if leaf.stuck}
        return self._stuck.caps(key, stuck, placed.clusters, now)

    # --- writing

    async def _write(
        self,
        key: RootKey,
        root: Object,
        binding: Object | None,
        policy: Policy,
        workload: WorkloadView,
        decision: PlacementDecision,
        departures: Departures,
    ) -> None:
        parts = self._parts
        leaders = self._leading.references(key) if workload.leaders else []
        wanted = bindings.spec_of(root, policy, workload, decision, leaders)
        before = (binding or {}).get("spec") or {}
        is_changed = binding is None or before != wanted
        told = _told(before, wanted, decision) if is_changed else []
        status_of = partial(
            bindings.scheduling_status,
            decision=decision,
            departures=departures,
            now=parts.clock(),
        )
        if binding is None and await self._write_at_once(key, root, wanted, status_of({}), told):
            return
        if is_changed:
            binding = await self._write_spec(key, root, binding, wanted, decision)
        assert binding is not None
        parts.inventory.put_placed(key, bindings.all_clusters(binding))
        status = status_of(binding)
        if status != (binding.get("status") or {}):
            await self._write_status(key, binding, status)
        for one in told:
            await record(parts.client, key.cluster, root, one, parts.clock())

    async def _write_at_once(
        self, key: RootKey, root: Object, spec: Object, status: Object, told: Sequence[Told]
    ) -> bool:
        """A new Binding with its status and events as one write, where the client can do that."""
        client: Any = self._parts.client
        if not hasattr(client, "transaction"):
            return False
        made = {**bindings.new_binding(key, root, spec), "status": status}
        inventory, now = self._parts.inventory, self._parts.clock()
        kind = self._parts.territory.kind(key.cluster, key.type)
        leaves = self._first_leaves(key, root, made) if self._first_leaves is not None else None
        writes = [
            client.to_create(key.cluster, WORKLOAD_BINDINGS, made),
            *(client.to_create(key.cluster, EVENTS, event(root, one, now)) for one in told),
            *(client.to_create(key.cluster, kind, leaf) for leaf, _ in leaves or ()),
        ]
        for _, known in leaves or ():
            inventory.put_leaf(key, known)
        placed = bindings.all_clusters(made)
        spec_known = EXPECTED if leaves is not None else ""
        inventory.put_binding(key, KnownBinding(spec_known, placed))
        try:
            await client.transaction(writes)
        except StatusError:  # one of them is rejected: each is tried alone
            inventory.put_binding(key, NO_BINDING)
            for _, known in leaves or ():
                inventory.drop_leaf(key, known.cluster)
            return False
        return True

    async def _write_spec(
        self,
        key: RootKey,
        root: Object,
        binding: Object | None,
        wanted: Object,
        decision: PlacementDecision,
    ) -> Object:
        parts = self._parts
        if binding is None:
            made = bindings.new_binding(key, root, wanted)
            try:
                return await parts.client.create(key.cluster, WORKLOAD_BINDINGS, made)
            except AlreadyExists:
                found = await parts.client.get(
                    key.cluster, WORKLOAD_BINDINGS, binding_name(key), key.namespace
                )
                if found is None:
                    raise
                binding = found
        changed = {**binding, "spec": wanted}
        if decision.moved:
            bindings.note_move(changed, parts.clock())
        return await parts.client.update(key.cluster, WORKLOAD_BINDINGS, changed)

    async def _write_status(self, key: RootKey, binding: Object, status: Object) -> None:
        def set_status(live: Object) -> None:
            found = live.setdefault("status", {})
            found["explanation"] = status.get("explanation") or []
            found["conditions"] = status["conditions"]

        await self._parts.client.change(
            key.cluster,
            WORKLOAD_BINDINGS,
            meta.name(binding),
            set_status,
            key.namespace,
            "status",
        )

    async def _forget(self, key: RootKey, binding: Object | None) -> None:
        self._parts.inventory.put_placed(key, frozenset())
        self._stuck.forget(key)
        if binding is None or meta.is_deleting(binding):
            return
        try:
            await self._parts.client.delete(
                key.cluster,
                WORKLOAD_BINDINGS,
                meta.name(binding),
                key.namespace,
                uid=meta.uid(binding),
            )
        except NotFound:
            return  # the workspace is gone


def _told(before: Object, wanted: Object, decision: PlacementDecision) -> list[Told]:
    """The events of a decision."""
    old = {one["name"] for one in before.get("clusters") or ()}
    new = {one["name"] for one in wanted.get("clusters") or ()}
    told: list[Told] = []
    if decision.evicted:
        names = ", ".join(decision.evicted)
        reasons = {one.reason for one in decision.leaving}
        told.append(Told(WARNING, "Evicted", f"leaves {names}: {', '.join(sorted(reasons))}"))
    if decision.moved:
        told.append(Told(NORMAL, "Rebalanced", decision.moved))
    elif new != old and decision.is_scheduled:
        told.append(Told(NORMAL, "Scheduled", decision.message))
    elif not decision.is_scheduled:
        told.append(Told(WARNING, "FailedScheduling", decision.message))
    return told
