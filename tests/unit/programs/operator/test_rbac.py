"""Where roles of a Kubeconfig are bound, and what is left of them when it changes."""

from __future__ import annotations

from typing import Any, cast

import pytest
from tests.unit.programs.operator.objects import kubeconfig

from pykcp.clients.interface import Client
from pykcp.machinery.status import Forbidden, NotFound
from pykcp.programs.operator.access.rbac import (
    BindingPlace,
    RbacAction,
    is_gone,
    next_step,
    recorded,
)
from pykcp.programs.operator.names import RBAC_CLEANUP
from pykcp.types import Object

ROLES = {"clusterRoleBindings": {"clusterRoles": ["admin"]}}
THERE = BindingPlace("root", "root", "FrontProxy/frontproxy")
OLD = BindingPlace("root")
"""As earlier versions have recorded it."""
OTHER = {"frontProxyRef": {"name": "other"}}


def _kubeconfig(
    place: BindingPlace | None, *, is_held: bool = True, is_deleted: bool = False, **spec: Any
) -> Object:
    obj = kubeconfig(**{"authorization": ROLES, **spec})
    obj["metadata"] |= {"uid": "u", "finalizers": [RBAC_CLEANUP] if is_held else []}
    if is_deleted:
        obj["metadata"]["deletionTimestamp"] = "now"
    obj["status"] = {"authorization": recorded(place)}
    return obj


@pytest.mark.parametrize(
    ("obj", "root", "step"),
    [
        (_kubeconfig(None, is_held=False), "root", (RbacAction.HOLD, "")),
        (_kubeconfig(None), "root", (RbacAction.RECORD, THERE)),
        (_kubeconfig(THERE), "root", (RbacAction.BIND, THERE)),
        (_kubeconfig(OLD), "root", (RbacAction.RECORD, THERE)),
        (_kubeconfig(THERE, targetWorkspace="root:a"), "root", (RbacAction.REMOVE, THERE)),
        # A target of another installation, of another name, one that does not exist.
        (_kubeconfig(THERE), "second", (RbacAction.REMOVE, THERE)),
        (_kubeconfig(THERE, target=OTHER), "root", (RbacAction.REMOVE, THERE)),
        (_kubeconfig(THERE, target=OTHER), "", (RbacAction.REMOVE, THERE)),
        (_kubeconfig(THERE), "", (RbacAction.DONE, "")),
        (_kubeconfig(None), "", (RbacAction.DONE, "")),
        (_kubeconfig(THERE, authorization={}), "", (RbacAction.REMOVE, THERE)),
        (_kubeconfig(THERE, is_deleted=True), "", (RbacAction.REMOVE, THERE)),
        (_kubeconfig(THERE, is_deleted=True), "root", (RbacAction.REMOVE, THERE)),
        (_kubeconfig(OLD, is_deleted=True), "", (RbacAction.REMOVE, OLD)),
        (_kubeconfig(None, is_deleted=True), "", (RbacAction.RELEASE, "")),
        (_kubeconfig(None, is_held=False, authorization={}), "root", (RbacAction.DONE, "")),
    ],
)
def test_steps(obj: Object, root: str, step: tuple[RbacAction, BindingPlace | str]) -> None:
    action, place = step
    assert next_step(obj, root) == (action, place or BindingPlace(""))


class _Tree:
    """Answers for workspaces as proxies do."""

    def __init__(self, *paths: str) -> None:
        self._paths = {"root", *paths}

    async def get(self, cluster: str, _kind: object, name: str) -> Object | None:
        if cluster not in self._paths:
            raise Forbidden("workspace access not permitted") if name == "c" else NotFound.path()
        return {"metadata": {"name": name}} if f"{cluster}:{name}" in self._paths else None


@pytest.mark.parametrize(
    ("cluster", "paths", "gone"),
    [
        ("root", (), False),
        ("2x7h1lq", (), False),
        ("root:a", ("root:a",), False),
        ("root:a", (), True),
        ("root:a:b:c", ("root:a", "root:a:b"), True),
        ("root:a:b:c", ("root:a",), True),
        ("root:a:b:c", (), True),
        ("root:a:b:c", ("root:a", "root:a:b", "root:a:b:c"), False),
    ],
)
async def test_a_workspace_is_gone_if_its_parent_does_not_have_it(
    cluster: str, paths: tuple[str, ...], gone: bool
) -> None:
    assert await is_gone(cast("Client", _Tree(*paths)), cluster) == gone
