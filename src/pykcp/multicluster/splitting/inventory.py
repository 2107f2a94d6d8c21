"""What the splitter has seen: roots with their relations, and leaves. It is rebuilt at each start;
nothing depends on what it remembers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from pykcp.machinery.object_keys import ObjectKey
from pykcp.multicluster.interpreter.dependencies import Item, Relations
from pykcp.multicluster.splitting.keys import RootKey
from pykcp.types import Object

_Namespace = tuple[str, str]


@dataclass(slots=True)
class _Graph:
    """Objects of one namespace and how they are related."""

    relations: dict[Item, Relations] = field(default_factory=dict)
    needed_by: dict[Item, set[Item]] = field(default_factory=dict)
    followed_by: dict[Item, set[Item]] = field(default_factory=dict)
    selecting: dict[Item, frozenset[tuple[str, str]]] = field(default_factory=dict)
    pods: dict[Item, frozenset[tuple[str, str]]] = field(default_factory=dict)

    def put(self, item: Item, found: Relations | None) -> None:
        before = self.relations.pop(item, None)
        if before is not None:
            _unlink(self.needed_by, before.needs, item)
            _unlink(self.followed_by, before.follows, item)
            self.selecting.pop(item, None)
            self.pods.pop(item, None)
        if found is None:
            return
        self.relations[item] = found
        for other in found.needs:
            self.needed_by.setdefault(other, set()).add(item)
        for other in found.follows:
            self.followed_by.setdefault(other, set()).add(item)
        if found.selector:
            self.selecting[item] = frozenset(found.selector)
        if found.pod_labels:
            self.pods[item] = frozenset(found.pod_labels)

    def leaders(self, item: Item) -> set[Item]:
        """The objects that need this one."""
        found = set(self.needed_by.get(item, ()))
        own = self.relations.get(item)
        if own is not None:
            found |= own.follows
        wanted = self.selecting.get(item)
        if wanted:
            found.update(other for other, labels in self.pods.items() if wanted <= labels)
        found.discard(item)
        return found

    def followers(self, item: Item) -> set[Item]:
        own = self.relations.get(item)
        found = set(own.needs) if own is not None else set()
        found |= self.followed_by.get(item, set())
        labels = self.pods.get(item)
        if labels:
            found.update(other for other, wanted in self.selecting.items() if wanted <= labels)
        found.discard(item)
        return found


def _unlink(index: dict[Item, set[Item]], keys: Iterable[Item], item: Item) -> None:
    for key in keys:
        linked = index.get(key)
        if linked is not None:
            linked.discard(item)
            if not linked:
                del index[key]


@dataclass(frozen=True, slots=True)
class KnownLeaf:
    cluster: str
    content: str
    """Changes when more than metadata or the status did."""
    is_applied: bool = False
    is_terminating: bool = False
    report: str = ""
    """Changes with what the cluster says of it; empty if nothing was said yet."""
    observed: int = 0
    """The latest generation of the root that the cluster has observed."""
    stuck: int = 0
    """Replicas that no node of the cluster takes."""

    def is_as_written(self, other: KnownLeaf | None) -> bool:
        """Whether nothing has to be done about it that was not done for the other state."""
        if other is None:
            return False
        return (self.content, self.is_terminating) == (other.content, other.is_terminating)

    def is_news_to(self, before: KnownLeaf | None) -> bool:
        """Whether the status of the workload may be another one."""
        known = before or KnownLeaf(self.cluster, "")
        return (self.report, self.observed, self.is_terminating) != (
            known.report,
            known.observed,
            known.is_terminating,
        )


@dataclass(frozen=True, slots=True)
class KnownBinding:
    """What is remembered of a Binding."""

    spec: str
    """Changes with its spec."""
    clusters: frozenset[str]
    """Those that the workload is leaving included."""
    refusal: str = ""
    """Why it is not scheduled; empty if it is."""

    def is_news_to(self, before: KnownBinding) -> bool:
        """Whether leaves, or followers, may have to be others."""
        if before.clusters != self.clusters:
            return True
        return before.spec not in (EXPECTED, self.spec)


NO_BINDING = KnownBinding("", frozenset())
EXPECTED = "expected"
"""The spec of a Binding that is being written together with its leaves."""


class Inventory:
    def __init__(self) -> None:
        self._graphs: dict[_Namespace, _Graph] = {}
        self._roots: dict[str, dict[RootKey, Mapping[str, str]]] = {}
        self._leaves: dict[RootKey, dict[str, KnownLeaf]] = {}
        self._bindings: dict[RootKey, KnownBinding] = {}
        self._placements: dict[_Namespace, dict[str, Object]] = {}
        self._counts: dict[tuple[str, str], int] = {}
        self._counted: Callable[[str, str, int], None] = lambda _cluster, _name, _count: None

    # --- roots

    def put_root(self, key: RootKey, labels: Mapping[str, str], found: Relations) -> bool:
        """False if it says the same as before."""
        graph = self._graphs.setdefault((key.cluster, key.namespace), _Graph())
        roots = self._roots.setdefault(key.cluster, {})
        if roots.get(key) == labels and graph.relations.get(key.item) == found:
            return False
        roots[key] = labels
        graph.put(key.item, found)
        return True

    def drop_root(self, key: RootKey) -> None:
        roots = self._roots.get(key.cluster)
        if roots is not None:
            roots.pop(key, None)
            if not roots:
                del self._roots[key.cluster]
        graph = self._graphs.get((key.cluster, key.namespace))
        if graph is not None:
            graph.put(key.item, None)
            if not graph.relations:
                del self._graphs[key.cluster, key.namespace]

    def has_root(self, key: RootKey) -> bool:
        return key in self._roots.get(key.cluster, {})

    def is_known(self, key: RootKey) -> bool:
        """Whether there is anything of an object: itself, a Binding, leaves."""
        return self.has_root(key) or key in self._bindings or key in self._leaves

    def roots(self, cluster: str, namespace: str = "") -> Iterator[RootKey]:
        for key in tuple(self._roots.get(cluster, ())):
            if namespace in ("", key.namespace):
                yield key

    def labels(self, key: RootKey) -> Mapping[str, str]:
        return self._roots.get(key.cluster, {}).get(key, {})

    def leaders(self, key: RootKey) -> set[RootKey]:
        """Objects that need this one directly, as far as they exist."""
        graph = self._graphs.get((key.cluster, key.namespace))
        if graph is None:
            return set()
        return {key.beside(item) for item in graph.leaders(key.item) if item in graph.relations}

    def followers(self, key: RootKey) -> set[RootKey]:
        graph = self._graphs.get((key.cluster, key.namespace))
        return {key.beside(item) for item in graph.followers(key.item)} if graph else set()

    # --- leaves

    def put_leaf(self, key: RootKey, leaf: KnownLeaf) -> None:
        self._leaves.setdefault(key, {})[leaf.cluster] = leaf

    def drop_leaf(self, key: RootKey, cluster: str) -> None:
        leaves = self._leaves.get(key)
        if leaves is not None:
            leaves.pop(cluster, None)
            if not leaves:
                del self._leaves[key]

    def leaves(self, key: RootKey) -> Mapping[str, KnownLeaf]:
        return self._leaves.get(key, {})

    # --- bindings

    def put_binding(self, key: RootKey, binding: KnownBinding) -> KnownBinding:
        """Returns what was known before."""
        before = self._bindings.get(key, NO_BINDING)
        for name in before.clusters - binding.clusters:
            self._count(key.cluster, name, -1)
        for name in binding.clusters - before.clusters:
            self._count(key.cluster, name, 1)
        if binding == NO_BINDING:
            self._bindings.pop(key, None)
        else:
            self._bindings[key] = binding
        return before

    def put_placed(self, key: RootKey, clusters: frozenset[str]) -> None:
        """The clusters that were decided on, before the Binding that says so is seen."""
        known = self._bindings.get(key, NO_BINDING)
        self.put_binding(key, replace(known, clusters=clusters))

    def _count(self, cluster: str, name: str, change: int) -> None:
        count = self._counts.get((cluster, name), 0) + change
        if count:
            self._counts[cluster, name] = count
        else:
            self._counts.pop((cluster, name), None)
        self._counted(cluster, name, count)

    def placed(self, key: RootKey) -> frozenset[str]:
        return self._bindings.get(key, NO_BINDING).clusters

    def count(self, cluster: str, name: str) -> int:
        """How many workloads of a workspace are placed on a cluster."""
        return self._counts.get((cluster, name), 0)

    def on_count(self, handler: Callable[[str, str, int], None]) -> None:
        """Call the handler with a workspace, a cluster and its `count` when that has changed."""
        self._counted = handler

    # --- placements

    def put_placement(self, at: ObjectKey, placement: Object | None) -> None:
        """None: it is gone."""
        where = (at.cluster, at.namespace)
        known = self._placements.setdefault(where, {})
        known.pop(at.name, None)
        if placement is not None:
            known[at.name] = placement
        if not known:
            del self._placements[where]

    def placements(self, cluster: str, namespace: str) -> Collection[Object]:
        return self._placements.get((cluster, namespace), {}).values()

    def placement(self, cluster: str, namespace: str, name: str) -> Object | None:
        return self._placements.get((cluster, namespace), {}).get(name)
