"""A logical cluster is swept if something was created in it while it was deleted, or afterwards."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest

from pykcp.apis.kcp_catalog import kind_id
from pykcp.clients.interface import Change, Handler
from pykcp.controllers.core.cluster_deletion import ClusterDeletion, SweptCluster
from pykcp.machinery.object_keys import ObjectKey
from pykcp.machinery.resources import LOGICAL_CLUSTERS, GroupVersionResource


class Feed:
    """Delivers changes in the order of the log: to the handlers of the kind, then to those of all."""

    def __init__(self) -> None:
        self._of_clusters: list[Handler] = []
        self._of_all: list[Handler] = []

    def on(
        self, kind: GroupVersionResource, handler: Handler, *, from_the_start: bool = False
    ) -> None:
        assert kind == LOGICAL_CLUSTERS
        self._of_clusters.append(handler)

    def on_everything(self, handler: Handler, *, with_updates: bool = True) -> None:
        assert not with_updates
        self._of_all.append(handler)

    def on_deletions(self, handler: Handler) -> None:
        raise NotImplementedError

    def on_resource(self, resource: str, handler: Handler) -> None:
        raise NotImplementedError

    def at_start(self, resume: Callable[[], Awaitable[None]]) -> None:
        """Nothing is left from before."""

    async def synced(self) -> None:
        return

    def deliver(self, change: Change) -> None:
        if change.resource == kind_id(LOGICAL_CLUSTERS):
            for handler in self._of_clusters:
                handler(change)
        for handler in self._of_all if change.created or change.deleted else ():
            handler(change)


def change(what: str) -> Change:
    """`cluster deleting`, `cluster deleted`, `binding created` or `binding changed`."""
    kind, _, how = what.partition(" ")
    resource = kind_id(LOGICAL_CLUSTERS) if kind == "cluster" else "apis.kcp.io/apibindings"
    value = b'{"metadata":{"deletionTimestamp":"t"}}' if kind == "cluster" else b"{}"
    return Change(
        (resource, "c", "", kind),
        1,
        value,
        "",
        how == "created",
        how == "deleted",
        lambda _key, _revision: None,
    )


@pytest.mark.parametrize(
    ("changes", "is_swept"),
    [
        (["binding created", "cluster deleting", "cluster deleted"], False),
        (["cluster deleting", "binding changed", "cluster deleted"], False),
        (["cluster deleting", "binding created", "cluster deleted"], True),
        (["cluster deleting", "binding created", "cluster deleting", "cluster deleted"], True),
        (["cluster deleting", "binding created"], False),
        (["cluster deleting", "cluster deleted", "binding created"], True),
        (["binding created"], False),
    ],
)
async def test_late_creations(changes: list[str], is_swept: bool) -> None:
    unused = cast("Any", None)
    deletion = ClusterDeletion(unused, unused, unused, unused, unused)
    feed = Feed()
    deletion.follow(feed)
    for each in changes:
        feed.deliver(change(each))
    queue = deletion.controller.queue
    queue.advance(float("inf"))
    taken = set(iter(queue.take, None))
    assert (SweptCluster("c") in taken) is is_swept
    assert taken <= {SweptCluster("c"), ObjectKey("c", "", "cluster")}
