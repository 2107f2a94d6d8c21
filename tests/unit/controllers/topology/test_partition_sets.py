"""Which partitions a set of shards falls into."""

import pytest

from pykcp.controllers.topology.partition_sets import Labels, combinations, partition_for
from pykcp.types import Object

SHARDS = [
    {"region": "Europe", "cloud": "aws"},
    {"region": "Europe", "cloud": "azure"},
    {"region": "Asia", "cloud": "aws"},
    {"region": "Asia", "cloud": "aws"},
    {"cloud": "aws"},
]


@pytest.mark.parametrize(
    ("dimensions", "more", "expected"),
    [
        (["region"], [], [(("region", "Asia"),), (("region", "Europe"),)]),
        (
            ["region"],
            ["cloud"],
            [
                (("cloud", "aws"), ("region", "Asia")),
                (("cloud", "aws"), ("region", "Europe")),
                (("cloud", "azure"), ("region", "Europe")),
            ],
        ),
        (["nowhere"], [], []),
        ([], [], []),
    ],
)
def test_combinations(dimensions: list[str], more: list[str], expected: list[Labels]) -> None:
    assert combinations(SHARDS, dimensions, more) == expected


def test_a_partition() -> None:
    owner: Object = {"metadata": {"name": "set", "uid": "u"}}
    match = (("cloud", "AWS"), ("region", "Europe"))
    made = partition_for(owner, match, [], ["region", "cloud", "region"])
    assert made["metadata"]["generateName"] == "set-aws-europe-"
    assert made["metadata"]["ownerReferences"][0]["controller"] is True
    assert made["spec"] == {"selector": {"matchLabels": {"cloud": "AWS", "region": "Europe"}}}
