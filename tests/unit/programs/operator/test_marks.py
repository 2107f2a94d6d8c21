"""Labels and closing of the Shard objects in root."""

from __future__ import annotations

from typing import Any, cast

import pytest

from pykcp.clients.errors import SendFailed
from pykcp.clients.interface import Client
from pykcp.programs.operator.access.shards import UNSCHEDULABLE, mark
from pykcp.types import Object


class _Root:
    """A root shard that has one Shard object, or none."""

    def __init__(self, live: Object | None) -> None:
        self.live, self.patches = live, list[Object]()

    async def get(self, *_place: object) -> Object | None:
        return self.live

    async def patch(self, _cluster: str, _kind: object, _name: str, patch: Object) -> None:
        self.patches.append(patch)


def _shard(**spec: Any) -> Object:
    return {"kind": "Shard", "metadata": {"name": "alpha"}, "spec": spec}


@pytest.mark.parametrize(
    ("wanted", "live", "patches"),
    [
        ({}, {}, []),
        ({"labels": {"region": "eu"}}, {}, [{"labels": {"region": "eu"}}]),
        ({"labels": {"region": "eu"}}, {"labels": {"region": "eu", "name": "alpha"}}, []),
        ({"unschedulable": True}, {}, [{"annotations": {UNSCHEDULABLE: "true"}}]),
        ({"unschedulable": True}, {"annotations": {UNSCHEDULABLE: "true"}}, []),
        ({"unschedulable": False}, {"annotations": {UNSCHEDULABLE: "true"}}, [{"annotations": {UNSCHEDULABLE: None}}]),
        ({}, {"annotations": {UNSCHEDULABLE: "by hand"}}, []),
        ({"labels": {"name": "alpha"}}, {"labels": {"name": "alpha"}, "annotations": {UNSCHEDULABLE: "by hand"}}, []),
    ],
)  # fmt: skip
async def test_only_what_differs_is_written(
    wanted: Object, live: Object, patches: list[Object]
) -> None:
    root = _Root({"metadata": live})
    await mark(cast("Client", root), _shard(**wanted), "alpha")
    assert root.patches == [{"metadata": patch} for patch in patches]


@pytest.mark.parametrize("spec", [{}, {"unschedulable": True}])
async def test_a_shard_that_has_not_registered_itself_is_tried_again(spec: Object) -> None:
    """It serves before it has reached root: nothing would come back to it otherwise."""
    with pytest.raises(SendFailed, match="shard alpha has not registered itself in root yet"):
        await mark(cast("Client", _Root(None)), _shard(**spec), "alpha")
