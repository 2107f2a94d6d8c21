"""When a shard reports its load."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pykcp.apis.kcp.shard_load import DEAD_SECONDS, LOAD, REPORT_SECONDS, UNCHANGED_SECONDS
from pykcp.machinery.resources import LOGICAL_CLUSTERS
from pykcp.programs.shard.heartbeat import Heartbeat
from pykcp.registry.keys import kind_prefix
from pykcp.registry.local import LocalClient
from pykcp.storage.interface import Event, Store


class Counted:
    """A store of some logical clusters."""

    size = SimpleNamespace(used=0)

    def listen(self, callback: Callable[[Sequence[Event]], None], _prefixes: object) -> None:
        self.tell = callback

    async def count(self, _prefix: str) -> int:
        return 3

    def create(self, name: str) -> None:
        key = f"{kind_prefix(LOGICAL_CLUSTERS)}{name}/cluster"
        self.tell([Event(1, key, b"{}", "", "", created=True, deleted=False)])


async def test_reports(monkeypatch: pytest.MonkeyPatch) -> None:
    """Often while the number of logical clusters changes, otherwise just often enough."""
    store, now, reports = Counted(), 0.0, list[tuple[float, str]]()

    class Client:
        async def patch(self, _cluster: str, _kind: object, _name: str, patch: Any) -> None:
            reports.append((now, patch["metadata"]["annotations"][LOAD]))

    async def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds
        if len(reports) == 2:
            store.create("new")
        if len(reports) == 5:
            raise asyncio.CancelledError

    heartbeat = Heartbeat(cast("Store", store), cast("LocalClient", Client()), "one", lambda: now)
    monkeypatch.setattr(asyncio, "sleep", sleep)
    with pytest.raises(asyncio.CancelledError):
        await heartbeat.run()
    pauses = [b[0] - a[0] for a, b in itertools.pairwise(reports)]
    often, seldom = REPORT_SECONDS, UNCHANGED_SECONDS
    assert pauses == [seldom, often, seldom, seldom]
    assert [load[19:20] for _, load in reports] == ["3", "3", "4", "4", "4"]
    assert 2 * UNCHANGED_SECONDS < DEAD_SECONDS
