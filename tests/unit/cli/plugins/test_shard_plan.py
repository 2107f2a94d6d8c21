"""Plans of moves: children first, never to cordoned or full shards, as few as needed."""

from __future__ import annotations

from collections import Counter

import pytest

from pykcp.cli.plugins.errors import PluginError
from pykcp.cli.plugins.shards.plan import (
    PlacedWorkspace,
    PlannedMove,
    ShardRow,
    drain,
    rebalance,
    relocate,
)


def shards(*names: str) -> list[ShardRow]:
    return [ShardRow(name) for name in names]


def placed(**where: str) -> list[PlacedWorkspace]:
    """`org__team="a"`: the workspace root:org:team is on shard a."""
    return [
        PlacedWorkspace(f"root:{name.replace('__', ':')}", f"c-{name}", shard)
        for name, shard in where.items()
    ]


def targets(moves: list[PlannedMove]) -> list[tuple[str, str]]:
    return [(move.path, move.destination) for move in moves]


def test_drain_moves_children_first_to_the_emptiest_shards() -> None:
    found = placed(org="a", org__team="a", org__team__x="a", other="b", kept="c")
    assert targets(drain(shards("a", "b", "c"), found, "a")) == [
        ("root:org:team:x", "b"),
        ("root:org:team", "c"),
        ("root:org", "b"),
    ]


def test_cordoned_and_full_shards_take_none() -> None:
    found = placed(one="a", two="a")
    known = [ShardRow("a"), ShardRow("b", is_cordoned=True), ShardRow("c", limit=2), ShardRow("d", limit=0)]  # fmt: skip
    assert targets(drain(known, found, "a")) == [("root:one", "c"), ("root:two", "c")]
    with pytest.raises(PluginError, match="no shard can take"):
        drain([ShardRow("a"), ShardRow("c", limit=1)], found, "a")
    with pytest.raises(PluginError, match="no shard can take"):
        drain(shards("a"), found, "a")
    with pytest.raises(PluginError, match='"x" not found'):
        drain(shards("a"), found, "x")


@pytest.mark.parametrize(
    ("counts", "moves"),
    [
        ({"a": 4, "b": 0}, 2),
        ({"a": 3, "b": 2}, 0),
        ({"a": 9, "b": 0, "c": 0}, 6),
        ({"a": 5, "b": 5, "c": 0}, 3),
        ({"a": 1, "b": 0}, 0),
        ({}, 0),
    ],
)
def test_rebalance_evens_out(counts: dict[str, int], moves: int) -> None:
    found = [
        PlacedWorkspace(f"root:{shard}{number}", f"{shard}{number}", shard)
        for shard, count in counts.items()
        for number in range(count)
    ]
    planned = rebalance(shards(*counts), found)
    assert len(planned) == moves
    after = Counter(counts)
    for move in planned:
        assert move.origin != move.destination
        after[move.origin] -= 1
        after[move.destination] += 1
    if after:
        assert max(after.values()) - min(after.values()) <= 1


def test_rebalance_leaves_cordoned_shards_alone() -> None:
    found = placed(one="a", two="a", three="a", four="a", five="b")
    known = [ShardRow("a", is_cordoned=True), ShardRow("b"), ShardRow("c")]
    assert rebalance(known, found) == []


def test_a_subtree() -> None:
    found = placed(org="a", org__team="b", org__team__x="a", organic="a")
    known = shards("a", "b")
    whole = relocate(known, found, "root:org", "b", is_recursive=True)
    assert targets(whole) == [("root:org:team:x", "b"), ("root:org", "b")]
    assert targets(relocate(known, found, "root:org", "b", is_recursive=False)) == [
        ("root:org", "b")
    ]
    assert relocate(known, found, "root:org:team", "b", is_recursive=False) == []
    with pytest.raises(PluginError, match="workspace"):
        relocate(known, found, "root:none", "b", is_recursive=True)
    with pytest.raises(PluginError, match="shard"):
        relocate(known, found, "root:org", "z", is_recursive=True)
