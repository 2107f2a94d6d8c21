"""Selectors on the command line."""

from __future__ import annotations

import pytest

from pykcp.cli.plugins.workspace.create import type_reference, workspace
from pykcp.cli.plugins.workspace.selector import parse_selector


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", None),
        ("a=b,c==d", {"matchLabels": {"a": "b", "c": "d"}}),
        (
            "a in (y,x),!b,c",
            {
                "matchExpressions": [
                    {"key": "a", "operator": "In", "values": ["x", "y"]},
                    {"key": "b", "operator": "DoesNotExist"},
                    {"key": "c", "operator": "Exists"},
                ]
            },
        ),
    ],
)
def test_selectors(text, expected):
    assert parse_selector(text) == expected


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("a>1", '"gt" isn\'t supported in label selectors'),
        ("a!=1", '"!=" is not a valid label selector operator'),
        ("a=b=c", 'couldn\'t parse the selector string "a=b=c": '),
    ],
)
def test_selectors_that_cannot_be_kept(text, complaint):
    with pytest.raises(ValueError) as caught:
        parse_selector(text)
    assert str(caught.value).startswith(complaint)


@pytest.mark.parametrize(
    ("text", "reference"),
    [
        ("", None),
        ("Universal", {"name": "universal"}),
        ("root:org:Team", {"name": "team", "path": "root:org"}),
    ],
)
def test_types(text, reference):
    assert type_reference(text) == reference


def test_the_object():
    assert workspace("a", {"name": "t"}, {"matchLabels": {"x": "y"}})["spec"] == {
        "type": {"name": "t"},
        "location": {"selector": {"matchLabels": {"x": "y"}}},
    }
