"""The example of docs/design/virtual-workspaces.md is code that runs."""

from __future__ import annotations

import pathlib
import re

from pykcp.virtual import framework

_PAGE = pathlib.Path(__file__).parents[3] / "docs" / "design" / "virtual-workspaces.md"
_NAMES = """
from collections.abc import Mapping
from pykcp.auth.authz.attributes import Decision
from pykcp.auth.authz.chain import Authorizer
from pykcp.machinery.resources import NAMESPACES
from pykcp.machinery.terms import Condition, label_term
from pykcp.registry.resource import Resource
from pykcp.registry.watch.selection import Selection
from pykcp.server.filters.authorization import attributes_of
from pykcp.server.call import Call
from pykcp.virtual.framework import *
from pykcp.virtual.framework import FixedView, Parts, ResourceKey, Visit, restricted, split_clusters
"""


def test_the_example(directory_parts: framework.Parts) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", _PAGE.read_text(), re.DOTALL)
    scope: dict[str, object] = {}
    exec("from __future__ import annotations\n" + _NAMES + example, scope)
    workspace: framework.VirtualWorkspace = scope["CensusWorkspace"](directory_parts)  # type: ignore[operator]
    visit = workspace.visit("/clusters/*/api/v1/namespaces")
    assert visit is not None
    assert (visit.cluster, visit.path) == ("*", "/api/v1/namespaces")
    resource = visit.view.find("*", "", "v1", "namespaces")
    assert resource is not None
    assert resource.definition.verbs == ("get", "list", "watch")
    assert resource.select("a=b", "").conditions[0].any_of == ("\x1fl:census=yes\x1f",)
    assert workspace.visit("/clusters/root:org/api") is None
