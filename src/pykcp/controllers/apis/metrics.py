"""How many bindings and exports are in which state, under kcp's names. No label per cluster.

Nothing is remembered per object. What is settled is counted at start without being read; what
is not is found by index. From then on, creations, deletions and the controllers' own writes
say what changes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from pykcp.apis.kcp_catalog import kind_id
from pykcp.clients.interface import Change, Feed, Lister
from pykcp.controllers.apis.parts import with_state
from pykcp.machinery import meta
from pykcp.machinery.conditions import conditions_of
from pykcp.machinery.resources import GroupVersionResource
from pykcp.observe.metrics import Histogram, LabelledGauge, LabelValues, Registry
from pykcp.types import Object

_MILLISECONDS = (100, 500, 1000, 2500, 5000, 10000, 30000, 60000, 120000, 300000)
_STATUS = b'"status":{'
_STATUSES = ("True", "False", "Unknown")


class StateTally:
    """Counts of phases and conditions of one kind."""

    def __init__(
        self,
        lister: Lister,
        kind: GroupVersionResource,
        unsettled: str,
        settled: Object,
        known: Iterable[str],
    ) -> None:
        """`unsettled`: the index of objects that differ from `settled`; `known`: the conditions that
        are counted. Users can write other conditions, and label values must stay bounded.
        """
        self._known = frozenset(known)
        self._lister, self._kind = lister, kind
        self._unsettled, self._settled = unsettled, settled
        self._is_counting = False
        self.phases: Counter[str] = Counter()
        self.conditions: Counter[LabelValues] = Counter()

    def follow(self, feed: Feed) -> None:
        feed.on(self._kind, self._on_change)
        feed.at_start(self._count)

    async def _count(self) -> None:
        self._is_counting = True
        total = await self._lister.count(kind_id(self._kind))
        for ref in self._lister.find(self._unsettled, self._kind):
            value = self._lister.value(ref)
            if value is not None:
                self._add(with_state(value), 1)
                total -= 1
        self._add(self._settled, total)

    def _on_change(self, change: Change) -> None:
        if not self._is_counting:
            return  # the count at the start will have it
        if (change.created or change.deleted) and _STATUS in change.value:
            self._add(with_state(change.value), 1 if change.created else -1)

    def changed(self, before: Object, after: Object) -> None:
        """A controller wrote a status."""
        if self._is_counting:
            self._add(before, -1)
            self._add(after, 1)

    def _add(self, obj: Object, number: int) -> None:
        phase = (obj.get("status") or {}).get("phase")
        if phase:
            self.phases[phase] += number
        for condition in conditions_of(obj):
            label = condition["type"], condition["status"]
            if label[0] in self._known and label[1] in _STATUSES:
                self.conditions[label] += number


class ApiMetrics:
    """The tallies of bindings and exports, shown."""

    def __init__(
        self,
        registry: Registry,
        shard: str,
        clock: Callable[[], float],
        bindings: StateTally,
        exports: StateTally,
    ) -> None:
        self._label, self._clock = (shard,), clock
        self.bindings, self.exports = bindings, exports
        self._binding_ready = _durations(
            "kcp_apibinding_ready_duration_ms",
            "Time from the creation of an APIBinding until it is Bound.",
        )
        self._export_ready = _durations(
            "kcp_apiexport_ready_duration_ms",
            "Time from the creation of an APIExport until it is valid.",
        )
        registry.add(
            LabelledGauge(
                "kcp_apibinding_phase",
                "APIBindings by phase.",
                ("shard", "phase"),
                lambda: self._shown({(phase,): n for phase, n in bindings.phases.items()}),
            ),
            self._conditions("kcp_apibinding_condition_status", "APIBindings", bindings),
            self._conditions("kcp_apiexport_condition_status", "APIExports", exports),
            self._binding_ready,
            self._export_ready,
        )

    def _conditions(self, name: str, what: str, tally: StateTally) -> LabelledGauge:
        return LabelledGauge(
            name,
            f"{what} by condition and its status.",
            ("shard", "condition", "status"),
            lambda: self._shown(tally.conditions),
        )

    def _shown(self, counts: Mapping[LabelValues, int]) -> Iterable[tuple[LabelValues, float]]:
        return [((*self._label, *values), number) for values, number in sorted(counts.items())]

    def binding_ready(self, binding: Object) -> None:
        self._observe(self._binding_ready, binding)

    def export_ready(self, export: Object) -> None:
        self._observe(self._export_ready, export)

    def _observe(self, durations: Histogram, obj: Object) -> None:
        created = meta.parse_rfc3339(meta.creation_timestamp(obj))
        durations.observe(self._label, max(0.0, self._clock() - created) * 1000)


def _durations(name: str, text: str) -> Histogram:
    return Histogram(name, f"{text} In milliseconds.", ("shard",), _MILLISECONDS)
