"""Requests for a logical cluster that is about to be served by this shard."""

from __future__ import annotations

from typing import Any, cast

import pytest

from pykcp.machinery.status import ServiceUnavailable
from pykcp.server.call import Call
from pykcp.server.filters.clusters import ArrivingCluster, FindCluster


class Arriving:
    """It takes longer than requests wait for it."""

    def __init__(self) -> None:
        self.waited = 0

    async def arrived(self, name: str) -> None:
        self.waited += 1

    def resolve(self, call: Call) -> None:
        raise ArrivingCluster(cast("Any", self), "moved")


async def test_a_cluster_that_does_not_arrive_in_time_is_unavailable_and_not_forbidden() -> None:
    """Nothing of it is known, so authorization would deny what is allowed."""
    arriving = Arriving()
    passed: list[Call] = []
    handler = FindCluster(cast("Any", arriving), cast("Any", None)).around(passed.append)
    pending = handler(cast("Any", object()))
    assert pending is not None
    with pytest.raises(ServiceUnavailable) as raised:
        await pending
    assert raised.value.retry_after == 1
    assert (arriving.waited, passed) == (1, [])
