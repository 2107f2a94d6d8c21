"""What the scheduler knows of a workload besides the object: its leaders, and its neighbours."""

from __future__ import annotations

from collections.abc import Iterator

from pykcp.machinery import meta
from pykcp.multicluster.interpreter.kinds import (
    TABLE,
    KindTraits,
    has_claims,
    pod_spec,
    replicas_of,
    requests_of,
)
from pykcp.multicluster.scheduling.model import SINGLE, Policy, WorkloadView
from pykcp.multicluster.splitting.keys import RootKey
from pykcp.multicluster.splitting.parts import SplitterParts
from pykcp.types import Object


class Leading:
    def __init__(self, parts: SplitterParts) -> None:
        self._parts = parts

    def workload(
        self,
        key: RootKey,
        root: Object,
        rules: KindTraits,
        policy: Policy,
        placement: Object | None,
    ) -> WorkloadView:
        spec = pod_spec(rules, root, key.type)
        is_exclusive = rules.is_exclusive or has_claims(spec, root)
        leaders = self._leaders(key)
        spec_of_placement = (placement or {}).get("spec") or {}
        return WorkloadView(
            uid=meta.uid(root),
            type=key.type,
            replicas=replicas_of(rules, root),
            requests=requests_of(spec),
            is_exclusive=is_exclusive and policy.strategy == SINGLE,
            leaders={str(one.item): self._clusters_of(one) for one in sorted(leaders)},
            is_follower=rules.is_follower or bool(leaders),
            keeps_data=rules.keeps_data,
            together=self._neighbours(key, spec_of_placement.get("workloadAffinity")) or None,
            apart=self._neighbours(key, spec_of_placement.get("workloadAntiAffinity")),
        )

    def references(self, key: RootKey) -> list[Object]:
        """The leaders as a Binding lists them."""
        found = []
        for leader in sorted(self._leaders(key)):
            root = self._parts.root(leader)
            if root is not None:
                found.append(
                    {
                        "apiVersion": root["apiVersion"],
                        "kind": root["kind"],
                        "name": leader.name,
                        "uid": meta.uid(root),
                    }
                )
        return found

    def _leaders(self, key: RootKey) -> set[RootKey]:
        """The workloads at the beginning of all chains that lead here; cycles end by themselves."""
        found, seen, waiting = set[RootKey](), {key}, [key]
        while waiting:
            for leader in self._parts.inventory.leaders(waiting.pop()):
                if leader in seen:
                    continue
                seen.add(leader)
                if not self._takes_along(leader):
                    continue
                if not self._only_follows(leader):
                    found.add(leader)
                waiting.append(leader)
        return found

    def _takes_along(self, leader: RootKey) -> bool:
        """Whether the leader's Placement wants its followers to be placed with it."""
        name = ((self._parts.binding(leader) or {}).get("spec") or {}).get("placement")
        if not name:
            return True
        found = self._parts.inventory.placement(leader.cluster, leader.namespace, name)
        placement = found or {}
        wants: bool = (placement.get("spec") or {}).get("dependencies", True)
        return wants

    def _only_follows(self, key: RootKey) -> bool:
        rules = TABLE.get(key.type)
        if rules is not None and not rules.is_follower:
            return bool(self._parts.inventory.leaders(key))
        return rules is not None

    def _clusters_of(self, leader: RootKey) -> frozenset[str]:
        """Where a leader is or is going to be, and where it has not gone yet."""
        inventory = self._parts.inventory
        return inventory.placed(leader) | frozenset(inventory.leaves(leader))

    def _neighbours(self, key: RootKey, rule: Object | None) -> frozenset[str]:
        """The clusters of the other workloads of a group."""
        if not rule:
            return frozenset()
        label = rule.get("groupByLabel") or ""
        value = self._parts.inventory.labels(key).get(label)
        found: set[str] = set()
        if value is not None:
            for other in self._group(key, label, value):
                found |= self._parts.inventory.placed(other)
        return frozenset(found)

    def _group(self, key: RootKey, label: str, value: str) -> Iterator[RootKey]:
        inventory = self._parts.inventory
        for other in inventory.roots(key.cluster, key.namespace):
            if other != key and inventory.labels(other).get(label) == value:
                yield other
