"""Where followers are: with their leaders, where their own Placement says, where their data is."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from pykcp.multicluster.scheduling.decide import decide
from pykcp.multicluster.scheduling.model import (
    ClusterView,
    Placed,
    Policy,
    Question,
    WeightedTerm,
    WorkloadView,
)
from pykcp.multicluster.scheduling.policy import is_named
from pykcp.types import Object

TYPE = "configmaps"
NO_LEADERS: dict[str, frozenset[str]] = {}
LEADERS = {"deployments.apps/web": frozenset("a"), "deployments.apps/api": frozenset("b")}
SINGLE = Policy("rules", "Single")
ONLY_C = Policy("rules", required=(WeightedTerm(names=frozenset("c")),))


class Case(NamedTuple):
    policy: Policy
    leaders: dict[str, frozenset[str]]
    placed: str = ""
    keeps_data: bool = False
    expected: str = ""
    clusters: dict[str, dict[str, Any]] = {}  # noqa: RUF012  # it is not changed
    replicas: int | None = None


CASES = {
    "its leaders": Case(Policy(), LEADERS, expected="ab"),
    "a Placement of its own beside them": Case(ONLY_C, LEADERS, expected="abc"),
    "Single does not part it from its leaders": Case(SINGLE, LEADERS, "ab", expected="ab"),
    "a Placement alone": Case(ONLY_C, NO_LEADERS, expected="c"),
    "a workload that others need is not run more often": Case(
        ONLY_C, LEADERS, expected="c", replicas=3
    ),
    "a Placement that nothing matches": Case(
        Policy("rules", required=(WeightedTerm(names=frozenset("x")),)), LEADERS, expected="ab"
    ),
    "the last leader is gone": Case(Policy(), NO_LEADERS, "ab"),
    "data stays without a leader": Case(Policy(), NO_LEADERS, "ab", True, "ab"),
    "data stays where its leader was": Case(
        Policy(), {"deployments.apps/web": frozenset("c")}, "b", True, "bc"
    ),
    "data stays in a lost cluster": Case(
        Policy(), NO_LEADERS, "b", True, "b", {"b": {"is_ready": False}}
    ),
    "data goes when the cluster is drained": Case(
        Policy(), NO_LEADERS, "ab", True, "a", {"b": {"evict_after": 5.0}}
    ),
    "data goes with its Cluster": Case(
        Policy(), NO_LEADERS, "ab", True, "a", {"b": {"is_terminating": True}}
    ),
    "data stays beside its own Placement": Case(ONLY_C, NO_LEADERS, "ab", True, "abc"),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_where_a_follower_is(case: Case) -> None:
    clusters = {
        name: ClusterView(name, types=frozenset((TYPE,)), **case.clusters.get(name, {}))
        for name in "abc"
    }
    workload = WorkloadView(
        "u1",
        TYPE,
        case.replicas,
        leaders=case.leaders,
        is_follower=True,
        keeps_data=case.keeps_data,
    )
    placed = Placed(dict.fromkeys(case.placed), leaves=frozenset(case.placed))
    found = decide(Question(workload, case.policy, clusters, placed, now=10.0))
    assert set(found.clusters) == set(case.expected)
    assert set(found.reasons) == set(case.expected)
    assert found.is_scheduled is bool(case.expected)


@pytest.mark.parametrize(("selector", "expected"), [
    (None, False),
    ({"labelSelector": {"matchLabels": {"app": "web"}}}, False),
    ({"apiVersion": "v1"}, False),
    ({"kind": "ConfigMap"}, True),
    ({"kind": "Deployment"}, False),
    ({"name": "settings"}, True),
    ({"kind": "ConfigMap", "labelSelector": {"matchLabels": {"app": "web"}}}, True),
    ({"kind": "ConfigMap", "labelSelector": {"matchLabels": {"app": "api"}}}, False),
])  # fmt: skip
def test_a_follower_has_to_be_named(selector: Object | None, expected: bool) -> None:
    spec = {} if selector is None else {"resourceSelectors": [selector]}
    placement = {"metadata": {"name": "rules"}, "spec": spec}
    obj = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "settings", "labels": {"app": "web"}},
    }
    assert is_named(placement, obj) is expected
