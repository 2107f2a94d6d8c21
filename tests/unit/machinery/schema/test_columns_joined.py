"""Columns of which the path leads to several texts."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from pykcp.machinery.schema.printer import custom_columns

PATH = ".spec.clusters[*].name"
NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("names", "joined", "first"),
    [
        ([], "", None),
        (["east"], "east", "east"),
        (["east", "west"], "east,west", "east"),
        (["a", "b", "c", "d", "e"], "a,b,c + 2 more...", "a"),
    ],
)
def test_all_are_shown_where_they_are_joined(
    names: list[str], joined: str, first: str | None
) -> None:
    obj = {"spec": {"clusters": [{"name": name} for name in names]}}
    asked = [{"name": "Clusters", "type": "string", "jsonPath": PATH}]
    cells = [columns[1].cell(obj, NOW) for columns in _both(asked)]
    assert cells == [joined, first]


def test_an_object_without_the_field_shows_nothing() -> None:
    asked = [{"name": "Clusters", "type": "string", "jsonPath": PATH}]
    assert [columns[1].cell({}, NOW) or "" for columns in _both(asked)] == ["", ""]


def _both(asked: list[dict[str, str]]) -> tuple:  # type: ignore[type-arg]
    return custom_columns(asked, joins=True), custom_columns(asked)
