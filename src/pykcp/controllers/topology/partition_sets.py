"""kcp-topology-partitionset: one Partition for each combination of shard labels that occurs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from pykcp.clients.interface import Change, Client, Feed, Lister
from pykcp.controllers.runtime.controller import Controller
from pykcp.controllers.runtime.metrics import ControllerMetrics
from pykcp.controllers.runtime.shard_changes import follow_published_shards, follow_shards
from pykcp.machinery import meta
from pykcp.machinery.kcp.condition_marks import mark_false, mark_true
from pykcp.machinery.labels import SelectorError, from_label_selector
from pykcp.machinery.metadata import metadata_of
from pykcp.machinery.object_keys import ObjectKey
from pykcp.machinery.resources import PARTITION_SETS, PARTITIONS, SHARDS
from pykcp.machinery.status import NotFound, StatusError
from pykcp.registry.clock import Timestamps
from pykcp.registry.lookup import ObjectLookup
from pykcp.types import Object

NAME = "kcp-topology-partitionset"
VALID, READY = "PartitionSetValid", "PartitionsReady"
_SET_KIND = "PartitionSet"
_NAME_MAX = 252

Labels = tuple[tuple[str, str], ...]
"""Keys and values, sorted."""


def combinations(
    shards: Iterable[Mapping[str, str]], dimensions: Sequence[str], more: Iterable[str]
) -> list[Labels]:
    """The combinations of label values of the shards; shards that lack a label are ignored.

    `more`: labels that selected the shards, which are added to the partitions' selectors.
    """
    keys = sorted({*dimensions, *more})
    found = {
        tuple((key, shard[key]) for key in keys)
        for shard in shards
        if keys and all(key in shard for key in keys)
    }
    return sorted(found)


def partition_for(
    owner: Object, match: Labels, expressions: Sequence[Object], dimensions: Sequence[str]
) -> Object:
    """The Partition of a set for one combination."""
    values = dict(match)
    parts = [meta.name(owner), *(values[key].lower() for key in sorted(set(dimensions)))]
    selector: Object = {"matchLabels": values}
    if expressions:
        selector["matchExpressions"] = list(expressions)
    return {
        "apiVersion": "topology.kcp.io/v1alpha1",
        "kind": "Partition",
        "metadata": {
            "generateName": f"{'-'.join(parts)[:_NAME_MAX]}-",
            "ownerReferences": [
                {
                    "apiVersion": "topology.kcp.io/v1alpha1",
                    "kind": "PartitionSet",
                    "name": meta.name(owner),
                    "uid": meta.uid(owner),
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "spec": {"selector": selector},
    }


class PartitionSets:
    def __init__(
        self,
        lister: Lister,
        client: Client,
        lookup: ObjectLookup,
        now: Timestamps,
        metrics: ControllerMetrics | None = None,
    ) -> None:
        self._lister, self._client, self._lookup, self._now = lister, client, lookup, now
        self.controller = Controller(NAME, self.reconcile, metrics=metrics)

    def follow(self, feed: Feed) -> None:
        feed.on(PARTITION_SETS, self._on_set)
        feed.on(PARTITIONS, self._on_partition)
        follow_shards(feed, self._on_shard)
        follow_published_shards(self._lookup.replica, self._add_everything)

    def _on_set(self, change: Change) -> None:
        if not change.deleted:
            self.controller.add(change.key)

    def _on_partition(self, change: Change) -> None:
        """Those sets that own it, or did until now."""
        cluster = change.cluster
        before = change.previous()
        for value in {change.value, before or change.value}:
            for owner in metadata_of(value).owner_references or ():
                if owner.kind == _SET_KIND:
                    self.controller.add(ObjectKey(cluster, "", owner.name))

    def _on_shard(self, _: Change) -> None:
        self._add_everything()

    def _add_everything(self) -> None:
        for key in self._lister.keys(PARTITION_SETS):
            self.controller.add(key)

    async def reconcile(self, key: ObjectKey) -> None:
        found = await self._client.get(key.cluster, PARTITION_SETS, key.name)
        if found is None or meta.is_deleting(found):
            return
        after = {**found, "status": dict(found.get("status") or {})}
        failure: StatusError | None = None
        try:
            await self._settle(key.cluster, after)
        except StatusError as error:
            failure = error
        if after["status"] != (found.get("status") or {}):
            try:
                await self._client.update(key.cluster, PARTITION_SETS, after, "status")
            except NotFound:
                return
        if failure is not None:
            raise failure

    async def _settle(self, cluster: str, found: Object) -> None:
        now, spec = self._now(), found.get("spec") or {}
        given = spec.get("shardSelector")
        try:
            selector = from_label_selector(given) if given is not None else None
        except SelectorError as error:
            mark_false(found, VALID, "InvalidSelector", str(error), now)
            mark_false(found, READY, "ErrorGeneratingPartitions", "", now)
            return
        mark_true(found, VALID, now)
        shards = [
            meta.labels(shard)
            for shard in self._lookup.all(SHARDS, "root")
            if selector is None or selector.matches(meta.labels(shard))
        ]
        dimensions = spec.get("dimensions") or []
        wanted = combinations(shards, dimensions, (given or {}).get("matchLabels") or ())
        found["status"]["count"] = len(wanted)
        expressions = (given or {}).get("matchExpressions") or []
        try:
            missing = await self._remove_stale(cluster, found, wanted, expressions)
        except StatusError:
            _failed(found, "old partition could not get deleted", now)
            raise
        try:
            for match in missing:
                made = partition_for(found, match, expressions, dimensions)
                await self._client.create(cluster, PARTITIONS, made)
        except StatusError:
            _failed(found, "partition could not get created", now)
            raise
        mark_true(found, READY, now)

    async def _remove_stale(
        self, cluster: str, owner: Object, wanted: Sequence[Labels], expressions: Sequence[Object]
    ) -> list[Labels]:
        """Delete Partitions that fit no longer; returns what is missing."""
        missing = list(wanted)
        for partition in await self._client.list(cluster, PARTITIONS):
            if not any(o.get("uid") == meta.uid(owner) for o in meta.owner_references(partition)):
                continue
            selector = (partition.get("spec") or {}).get("selector") or {}
            match = tuple(sorted((selector.get("matchLabels") or {}).items()))
            if match in missing and (selector.get("matchExpressions") or []) == expressions:
                missing.remove(match)
            else:
                await self._client.delete(cluster, PARTITIONS, meta.name(partition))
        return missing


def _failed(found: Object, message: str, now: str) -> None:
    mark_false(found, READY, "ErrorGeneratingPartitions", message, now)
