"""Resource versions of pods in several clusters."""

from __future__ import annotations

import pytest

from pykcp.server.handlers.placed_position import PodPosition, parse_position


@pytest.mark.parametrize("position", [
    PodPosition(12, {"k3f9ab": "678", "x92abc": "4455"}),
    PodPosition(0, {"k3f9ab": "0"}),
])  # fmt: skip
def test_a_position_is_read_as_it_was_written(position: PodPosition) -> None:
    assert parse_position(str(position)) == position


def test_without_clusters_it_is_a_plain_version() -> None:
    assert str(PodPosition(7)) == "7"


@pytest.mark.parametrize(
    "text", ["", "0", "12", "x.a-1", "1.a", "1.a-", "1.a-x", "1.a-1.", "1.A-1"]
)
def test_other_versions_are_none(text: str) -> None:
    assert parse_position(text) is None
