"""What a quickstart checks and shapes before it asks a server."""

from __future__ import annotations

import pytest

from pykcp.cli.plugins.errors import PluginError
from pykcp.cli.plugins.quickstart.api_provider import ApiProvider
from pykcp.cli.plugins.quickstart.workspace_tree import WorkspaceTree, random_tree


@pytest.mark.parametrize(("count", "depth"), [(0, 1), (5, 1), (50, 3), (200, 10)])
def test_random_trees(count, depth):
    places = random_tree("q", count, depth, seed=7)
    assert len(places) == count + 1
    assert max(place.depth for place in places) <= depth
    for index, place in enumerate(places[1:], 1):
        assert place.name == f"q-ws-{index}"
        assert place.parent < index
        assert place.depth == places[place.parent].depth + 1
    assert random_tree("q", count, depth, seed=7) == places


@pytest.mark.parametrize(
    ("scenario", "prefix", "complaint"),
    [
        (ApiProvider(), "Foo", '--name-prefix "Foo" produces invalid workspace name "Foo-org": [a'),
        (WorkspaceTree(0, 1, 1), "q", "--tree-depth must be >= 1, got 0"),
        (WorkspaceTree(1, -1, 1), "q", "--tree-count must be >= 0, got -1"),
        (
            WorkspaceTree(1, 10, 1),
            "q" * 59,
            f'--name-prefix "{"q" * 59}" with --tree-count 10 produces invalid workspace name',
        ),
    ],
)
def test_what_cannot_work(scenario, prefix, complaint):
    with pytest.raises(PluginError) as caught:
        scenario.check(prefix)
    assert str(caught.value).startswith(complaint)


def test_steps():
    steps = ApiProvider().steps("q")
    assert [step.description for step in steps] == [
        'Creating organization workspace "q-org"',
        'Creating service provider workspace "q-provider"',
        "Applying APIResourceSchema",
        "Applying APIExport",
        'Creating consumer workspace "q-consumer"',
        "Creating APIBinding in consumer workspace",
    ]
    assert [step.undo is not None for step in steps] == [True, False, False, False, False, False]
