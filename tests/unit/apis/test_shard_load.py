"""The report of a shard: written and read."""

from __future__ import annotations

from typing import Any

import pytest

from pykcp.apis.kcp.shard_load import HEARTBEAT, LOAD, ShardLoad, annotations_of, load_of


def shard(annotations: dict[str, Any] | None) -> dict[str, Any]:
    return {"metadata": {"name": "alpha", "annotations": annotations}}


def test_a_report_is_read_as_it_was_written() -> None:
    report = ShardLoad(1_800_000_000.0, 1204, 93_323_264)
    written = annotations_of(report)
    assert written == {
        HEARTBEAT: "2027-01-15T08:00:00Z",
        LOAD: '{"logicalClusters":1204,"storeBytes":93323264}',
    }
    assert load_of(shard(written)) == report


@pytest.mark.parametrize(
    "annotations",
    [
        None,
        {},
        {LOAD: "{}"},
        {HEARTBEAT: "yesterday"},
        {HEARTBEAT: 7},
        {HEARTBEAT: "2027-01-15T08:00:00Z", LOAD: "many"},
        {HEARTBEAT: "2027-01-15T08:00:00Z", LOAD: '{"logicalClusters":"1"}'},
    ],
)
def test_what_is_no_report(annotations: dict[str, Any] | None) -> None:
    assert load_of(shard(annotations)) is None


def test_a_shard_without_a_recent_report_is_dead() -> None:
    report = ShardLoad(1000.0)
    assert report.is_alive(1015.0)
    assert not report.is_alive(1016.0)
