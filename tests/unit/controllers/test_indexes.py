"""Index entries by which controllers find their work."""

from __future__ import annotations

from typing import Any

import pytest

from pykcp.registry.indexes.entries import event_written, index_entries

_EVENT_TIMES = {"creationTimestamp": "2026-01-02T03:04:05Z"}


@pytest.mark.parametrize(
    ("stored", "entries"),
    [
        pytest.param({"metadata": {"name": "x"}, "data": {}}, (), id="ordinary"),
        pytest.param({"metadata": {"ownerReferences": []}}, (), id="no-owners"),
        pytest.param(
            {"metadata": {"ownerReferences": [{"uid": "a"}, {"uid": "b"}, {"uid": "a"}]}},
            ("owner:c:a", "owner:c:b"),
            id="owners-once-each",
        ),
        pytest.param({"metadata": {"deletionTimestamp": "t"}}, ("deleting",), id="deleting"),
        pytest.param({"metadata": {"deletionTimestamp": None}}, (), id="not-deleting"),
        pytest.param(
            {"metadata": _EVENT_TIMES, "involvedObject": {}},
            ("event:2026-01-02", "event:2026-01-02T03:04"),
            id="event",
        ),
    ],
)
def test_index_entries(stored: dict[str, Any], entries: tuple[str, ...]) -> None:
    assert index_entries("c", stored) == entries


def test_an_event_is_as_old_as_its_last_write() -> None:
    managed = [{"time": "2026-01-02T03:10:00Z"}, {"time": "2026-01-02T03:09:00Z"}, {}]
    event = {"metadata": {**_EVENT_TIMES, "managedFields": managed}}
    assert event_written(event) == "2026-01-02T03:10:00Z"
    assert event_written({"metadata": _EVENT_TIMES}) == "2026-01-02T03:04:05Z"
