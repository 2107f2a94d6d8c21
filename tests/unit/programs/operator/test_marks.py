"""Labels and closing of the Shard objects in root."""

from __future__ import annotations

from typing import Any, cast

import pytest

from pykcp.clients.errors import SendFailed
from pykcp.clients.interface import Client
from pykcp.machinery.patch.mergepatch import apply
from pykcp.programs.operator.access.shards import OUR_LABELS, UNSCHEDULABLE, WE_CLOSED, mark, marks
from pykcp.types import Object

EU, BY_HAND = {"region": "eu"}, {UNSCHEDULABLE: "by hand"}
CLOSED = {UNSCHEDULABLE: "true", WE_CLOSED: "true"}
OPENED = {UNSCHEDULABLE: None, WE_CLOSED: None}


class _Root:
    """A root shard that has one Shard object, or none."""

    def __init__(self, live: Object | None) -> None:
        self.live, self.writes = live, 0

    async def get(self, *_place: object) -> Object | None:
        return self.live

    async def patch(self, _cluster: str, _kind: object, _name: str, patch: Object) -> Object:
        self.writes += 1
        self.live = cast("Object", apply(self.live or {}, patch))
        return self.live


def _shard(**spec: Any) -> Object:
    return {"kind": "Shard", "metadata": {"name": "alpha"}, "spec": spec}


@pytest.mark.parametrize(
    ("labels", "is_closed", "live", "patch"),
    [
        ({}, None, {}, {}),
        (EU, None, {}, {"labels": EU, "annotations": {OUR_LABELS: "region"}}),
        (EU, None, {"labels": EU, "annotations": {OUR_LABELS: "region"}}, {}),
        # What others have set is left to them.
        (EU, None, {"labels": {**EU, "name": "alpha"}}, {}),
        ({}, None, {"labels": {**EU, "name": "alpha"}}, {}),
        # What was set here is withdrawn.
        ({}, None, {"labels": EU, "annotations": {OUR_LABELS: "region"}}, {"labels": {"region": None}, "annotations": {OUR_LABELS: None}}),
        ({}, None, {"labels": {}, "annotations": {OUR_LABELS: "region"}}, {"annotations": {OUR_LABELS: None}}),
        ({"tier": "1"}, None, {"labels": EU, "annotations": {OUR_LABELS: "region"}}, {"labels": {"tier": "1", "region": None}, "annotations": {OUR_LABELS: "tier"}}),
        ({"region": "us"}, None, {"labels": EU, "annotations": {OUR_LABELS: "region"}}, {"labels": {"region": "us"}}),
        ({}, True, {}, {"annotations": CLOSED}),
        ({}, True, {"annotations": CLOSED}, {}),
        ({}, True, {"annotations": BY_HAND}, {}),
        ({}, None, {"annotations": BY_HAND}, {}),
        ({}, None, {"annotations": CLOSED}, {"annotations": OPENED}),
        ({}, False, {"annotations": CLOSED}, {"annotations": OPENED}),
        ({}, False, {"annotations": BY_HAND}, {"annotations": {UNSCHEDULABLE: None}}),
        # Opened by hand: the note goes as well.
        ({}, None, {"annotations": {WE_CLOSED: "true"}}, {"annotations": {WE_CLOSED: None}}),
    ],
)  # fmt: skip
def test_only_what_differs_is_written(
    labels: dict[str, str], is_closed: bool | None, live: Object, patch: Object
) -> None:
    assert marks(live, labels, is_closed) == patch


@pytest.mark.parametrize(
    ("specs", "is_closed", "metadata"),
    [
        ([{"labels": EU, "unschedulable": True}, {}], False, {"labels": {"name": "alpha"}}),
        ([{"unschedulable": True}, {"unschedulable": False}], False, {"labels": {"name": "alpha"}}),
        ([{}, {"unschedulable": True}], True, {"labels": {"name": "alpha"}, "annotations": CLOSED}),
    ],
)
async def test_marks_are_withdrawn_and_the_live_state_is_returned(
    specs: list[Object], is_closed: bool, metadata: Object
) -> None:
    root = _Root({"metadata": {"labels": {"name": "alpha"}}})
    for spec in specs:
        assert await mark(cast("Client", root), _shard(**spec), "alpha") == bool(
            spec.get("unschedulable")
        )
    writes = root.writes
    assert await mark(cast("Client", root), _shard(**specs[-1]), "alpha") == is_closed
    assert root.writes == writes
    assert root.live is not None
    found = {key: value for key, value in root.live["metadata"].items() if value}
    assert found == metadata


@pytest.mark.parametrize("spec", [{}, {"unschedulable": True}])
async def test_a_shard_that_has_not_registered_itself_is_tried_again(spec: Object) -> None:
    """It serves before it has reached root: nothing would come back to it otherwise."""
    with pytest.raises(SendFailed, match="shard alpha has not registered itself in root yet"):
        await mark(cast("Client", _Root(None)), _shard(**spec), "alpha")
