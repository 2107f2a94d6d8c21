"""The maximal permission policy: whom it concerns, whom it lets pass."""

from __future__ import annotations

from typing import Any, cast

import pytest

from pykcp.auth.authz.attributes import Attributes, Verdict
from pykcp.auth.authz.rbac import RbacObjects
from pykcp.auth.authz.role_cache import ADMIN_CLUSTER, ClusterRules, ClusterState
from pykcp.auth.user import User
from pykcp.programs.shard.permission_ceiling import PermissionCeiling
from pykcp.registry.catalog.bindings import BoundResource
from pykcp.steps import Steps, at_once
from pykcp.types import Object

COWBOYS = ("wild.west", "cowboys")
LIMITED: Object = {"spec": {"maximalPermissionPolicy": {"local": {}}}}


class _Bound:
    def in_steps(self, cluster: str) -> Steps[dict[tuple[str, str], BoundResource]]:
        yield
        found = BoundResource("uid", "hash", "b", "provider", "today", False)
        return {COWBOYS: found} if cluster == "consumer" else {}


class _Lookup:
    replica = None

    def __init__(self, export: Object | None) -> None:
        self._export = export

    def spec_members(self, *_: Any) -> Object | None:
        return None if self._export is None else self._export.get("spec") or {}


class _Nothing:
    def listen(self, *_: Any) -> None:
        return

    def touch(self, _: str) -> None:
        return


def _roles(*verbs: str, names: list[str] | None = None) -> RbacObjects:
    rule: Object = {"apiGroups": ["wild.west"], "resources": ["cowboys"], "verbs": list(verbs)}
    if names:
        rule["resourceNames"] = names
    subject = {"kind": "User", "name": "apis.kcp.io:binding:alice"}
    return RbacObjects(
        cluster_roles=[{"metadata": {"name": "r"}, "rules": [rule]}],
        cluster_role_bindings=[
            {
                "metadata": {"name": "b"},
                "roleRef": {"kind": "ClusterRole", "name": "r"},
                "subjects": [subject],
            }
        ],
    )


def _ask(
    attributes: Attributes,
    cluster: str = "consumer",
    export: Object | None = LIMITED,
    objects: RbacObjects | None = None,
) -> tuple[Verdict | None, str, bool]:
    states = {
        "provider": ClusterState("provider", ClusterRules(objects or RbacObjects()), 1),
        ADMIN_CLUSTER: ClusterState(ADMIN_CLUSTER, ClusterRules(), 2),
    }
    nothing = cast("Any", _Nothing())
    ceiling = PermissionCeiling(
        nothing, nothing, cast("Any", _Bound()), cast("Any", _Lookup(export))
    )
    return at_once(ceiling(attributes, cluster, states.__getitem__))


def _wants(verb: str, resource: str = "cowboys", name: str = "") -> Attributes:
    return Attributes(User("alice"), verb, group="wild.west", resource=resource, name=name)


@pytest.mark.parametrize(
    ("cluster", "resource", "export", "reason"),
    [
        ("other", "cowboys", LIMITED, "no relevant binding found"),
        ("consumer", "sheriffs", LIMITED, "no relevant binding found"),
        ("consumer", "cowboys", None, 'APIExport "provider":"today" not found'),
        (
            "consumer",
            "cowboys",
            {"spec": {}},
            'no maximum permission policy in API Export "provider"|"today"',
        ),
        (
            "consumer",
            "cowboys",
            {"spec": {"maximalPermissionPolicy": {}}},
            'no local maximum permission policy in API Export "provider"|"today"',
        ),
    ],
)
def test_it_does_not_concern_everybody(
    cluster: str, resource: str, export: Object | None, reason: str
) -> None:
    verdict, said, _ = _ask(_wants("get", resource), cluster, export)
    assert verdict is None
    assert said == f"delegating due to {reason}"


def test_the_providers_roles_decide_under_another_name() -> None:
    assert _ask(_wants("get"), objects=_roles("get"))[0] is None
    verdict, reason, _ = _ask(_wants("delete"), objects=_roles("get"))
    assert verdict is Verdict.NO_OPINION
    assert reason.startswith('API export "provider"|"today" policy: ')


def test_names_of_objects_are_told_apart() -> None:
    objects = _roles("get", names=["joe"])
    assert _ask(_wants("get", name="joe"), objects=objects)[::2] == (None, True)
    assert _ask(_wants("get", name="jim"), objects=objects)[::2] == (Verdict.NO_OPINION, True)
