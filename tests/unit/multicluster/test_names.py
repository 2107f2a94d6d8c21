"""Names that are derived from others: valid, stable and distinct."""

from __future__ import annotations

import pytest

from pykcp.multicluster import names
from pykcp.multicluster.names import Locator, parse_locator


@pytest.mark.parametrize(
    ("root", "cluster", "expected"),
    [
        ("web", "east", "web--east"),
        ("w" * 50, "east", f"{'w' * 50}--east"),
        ("w" * 60, "east", None),
        ("w" * 250, "e" * 60, None),
    ],
)
def test_leaves_have_names_of_labels_length(root: str, cluster: str, expected: str | None) -> None:
    made = names.leaf_name(root, cluster)
    assert len(made) <= 63
    assert expected is None or made == expected


def test_long_names_stay_distinct() -> None:
    long = "w" * 70
    assert names.leaf_name(long, "east") != names.leaf_name(long, "west")
    assert names.owned_by(f"{long}a") != names.owned_by(f"{long}b")
    assert names.syncer_finalizer(f"{long}a") != names.syncer_finalizer(f"{long}b")
    assert len(names.syncer_finalizer(long).partition("/")[2]) <= 63
    assert len(names.syncer_namespace(long, "u")) <= 63


def test_names_in_other_workspaces_are_told_from_most_others() -> None:
    assert names.is_shared_name(names.shared_name("abc", "east"))
    assert names.is_shared_name(names.shared_name("abc", "e" * 63))
    assert not names.is_shared_name("east")
    assert not names.is_shared_name("east-1")


def test_a_locator_is_read_back() -> None:
    locator = Locator("hub", "uid-1", "abc", "default")
    assert parse_locator(locator.to_json()) == locator
    assert locator.downstream_namespace().startswith("kcp-")
    assert len(locator.downstream_namespace()) == 16


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"installation":"x"}', "7"])
def test_what_is_no_locator(text: str) -> None:
    assert parse_locator(text) is None


def test_a_locator_of_other_types_is_none() -> None:
    fields = '"installation":1,"clusterUID":"u","logicalCluster":"c","namespace":"n"'
    assert parse_locator("{" + fields + "}") is None


def test_every_part_of_a_locator_counts() -> None:
    locators = [
        Locator("a", "b", "c", "d"),
        Locator("x", "b", "c", "d"),
        Locator("a", "x", "c", "d"),
        Locator("a", "b", "x", "d"),
        Locator("a", "b", "c", "x"),
    ]
    assert len({locator.downstream_namespace() for locator in locators}) == len(locators)


def test_names_of_imports() -> None:
    assert names.import_name("pods", "east", "v1", "") == "pods.east.v1.core"
    assert names.negotiated_name("deployments", "v1", "apps") == "deployments.v1.apps"
