"""Trees as text."""

from __future__ import annotations

import pytest

from pykcp.cli.plugins.errors import PluginError
from pykcp.cli.plugins.go_text import columns
from pykcp.cli.plugins.workspace.tree import WorkspaceNode, child_node, drawn


def test_a_tree():
    tree = WorkspaceNode(
        "root",
        "root",
        children=[
            WorkspaceNode("a", "a", children=[WorkspaceNode("b", "b"), WorkspaceNode("c", "c")]),
            WorkspaceNode("d [m]"),
        ],
    )
    assert list(drawn([tree])) == [
        ".",
        "└── root",
        "    ├── a",
        "    │   ├── b",
        "    │   └── c",
        "    └── d [m]",
    ]


def test_columns_of_a_wide_tree():
    tree = WorkspaceNode("root\tws=-\tlc=Ready", children=[WorkspaceNode("a\tws=Ready\tlc=Ready")])
    assert columns(list(drawn([tree])), padding=2) == [
        ".",
        "└── root   ws=-      lc=Ready",
        "    └── a  ws=Ready  lc=Ready",
    ]


def _workspace(**spec):
    return {"metadata": {"name": "w"}, "spec": spec, "status": {"phase": "Ready"}}


@pytest.mark.parametrize(
    ("workspace", "is_full", "expected"),
    [
        (_workspace(URL="https://h/clusters/root:w"), False, WorkspaceNode("w", "root:w", "Ready")),
        (_workspace(URL="https://h/clusters/abc"), True, WorkspaceNode("root:w", "abc", "Ready")),
        # a mount's URL may lead back to its parent, so it is never looked into
        (_workspace(URL="https://h/x/clusters/root", mount={}), False, WorkspaceNode("w [m]")),
        (_workspace(URL="https://h/x", mount={"ref": {}}), True, WorkspaceNode("root:w [m]")),
    ],
)
def test_children(workspace, is_full, expected):
    assert child_node(workspace, "root", is_full=is_full) == expected


def test_a_url_that_leads_nowhere():
    with pytest.raises(PluginError) as caught:
        child_node(_workspace(URL="https://h/x"), "root", is_full=False)
    assert str(caught.value) == (
        'current config context URL "https://h/x" does not point to workspace'
    )
