"""kcp's stages in front of RBAC, each on its own."""

from __future__ import annotations

from typing import Any

import pytest

from pykcp.auth.authz import stages
from pykcp.auth.authz.attributes import Attributes, Verdict, path_attributes
from pykcp.auth.authz.role_cache import ClusterFacts
from pykcp.auth.user import User

DENY, ALLOW, NO_OPINION = Verdict.DENY, Verdict.ALLOW, Verdict.NO_OPINION
READY = ClusterFacts("Ready")
SA = "system:serviceaccount:ns:sa"
HERE = {"authentication.kcp.io/cluster-name": ("this",)}
THERE = {"authentication.kcp.io/cluster-name": ("other",)}


def situation(
    *groups: str, facts: ClusterFacts | None = READY, cluster: str = "this", is_deep: bool = False
) -> stages.Situation:
    return stages.Situation(cluster, facts, frozenset(groups), is_deep)


def asked(user: User | None = None) -> Attributes:
    return Attributes(user or User("u"), "get", "ns", "", "configmaps")


def needs(groups: str) -> ClusterFacts:
    return ClusterFacts("Ready", groups)


@pytest.mark.parametrize(
    ("where", "user", "verdict", "reason"),
    [
        (situation(), None, None, "delegating due to logical cluster does not require groups"),
        (situation(is_deep=True, facts=None), None, None, "delegating due to deep SAR request"),
        (situation(cluster=""), None, NO_OPINION, "empty cluster name"),
        (situation(facts=None), None, NO_OPINION, "logical cluster not found"),
        (situation("system:kcp:logical-cluster-admin", facts=None), None, None,
         "delegating due to logical cluster admin access"),
        (situation("system:kcp:external-logical-cluster-admin", facts=None), None, NO_OPINION,
         "logical cluster not found"),
        (situation("system:kcp:external-logical-cluster-admin", facts=needs("x")), None, None,
         "delegating due to external logical cluster admin access"),
        (situation(facts=needs("x")), User(SA), None,
         "delegating due to service account access to logical cluster"),
        (situation("a", facts=needs("a")), None, None,
         "delegating due to user is member of required groups: a"),
        (situation("a", facts=needs("a,b")), None, DENY,
         "user is not a member of required groups: a,b"),
        (situation("b", "a", facts=needs("a,b;c")), None, None,
         "delegating due to user is member of required groups: a,b;c"),
        (situation("c", facts=needs("a,b;c")), None, None,
         "delegating due to user is member of required groups: a,b;c"),
        (situation("system:kcp:admin", facts=needs("a")), None, None,
         "delegating due to user is member of required groups: a"),
        (situation("system:kcp:tenancy:workspace-bootstrapper", facts=needs("a")), None, None,
         "delegating due to user is member of required groups: a"),
        (situation("a", facts=needs("")), None, DENY,
         "user is not a member of required groups: "),
    ],
)  # fmt: skip
def test_required_groups(where: Any, user: User | None, verdict: Any, reason: str) -> None:
    found = stages.required_groups(asked(user), where)
    assert (found.verdict, found.reason) == (verdict, reason)


@pytest.mark.parametrize(
    ("where", "user", "access", "verdict", "reason"),
    [
        (situation(), None, True, None, "delegating due to user logical cluster access"),
        (situation(), None, False, NO_OPINION, "no verb=access permission on /"),
        (situation(cluster=""), None, True, NO_OPINION, "empty or system workspace"),
        (situation("system:kcp:admin", cluster="system:admin"), None, True, NO_OPINION,
         "empty or system workspace"),
        (situation(facts=None), None, True, DENY, "LogicalCluster not found"),
        (situation(facts=None, is_deep=True), None, False, None,
         "delegating due to deep SAR request"),
        (situation("system:kcp:logical-cluster-admin", facts=None), None, False, None,
         "delegating due to logical cluster admin access"),
        (situation(), User(SA, extra=HERE), False, None,
         "delegating due to local service account access"),
        (situation(), User(SA), False, None, "delegating due to local service account access"),
        (situation(), User(SA, extra=THERE), False, NO_OPINION, "no verb=access permission on /"),
        (situation(), User(SA, extra=THERE), True, None,
         "delegating due to user logical cluster access"),
    ],
)  # fmt: skip
def test_content(where: Any, user: User | None, access: bool, verdict: Any, reason: str) -> None:
    found = stages.content(asked(user), where) or stages.access(access)
    assert (found.verdict, found.reason) == (verdict, reason)


@pytest.mark.parametrize(
    ("phase", "is_open"),
    [
        ("Scheduling", False), ("Initializing", True), ("Ready", True), ("Inactive", True),
        ("Terminating", True), ("Deleting", True), ("Unavailable", False), ("", False),
    ],
)  # fmt: skip
def test_a_workspace_is_open_in_some_phases(phase: str, is_open: bool) -> None:
    found = stages.content(asked(), situation(facts=ClusterFacts(phase))) or stages.access(True)
    if is_open:
        assert found.verdict is None
    else:
        assert found == (NO_OPINION, f'not permitted due to phase "{phase}"', False)


@pytest.mark.parametrize(
    ("phase", "verdict"),
    [("Initializing", ALLOW), ("Terminating", ALLOW), ("Deleting", ALLOW), ("Ready", NO_OPINION)],
)
def test_lifecycle_groups_pass_only_while_the_workspace_comes_or_goes(
    phase: str, verdict: Verdict
) -> None:
    user = User("c", groups=("system:kcp:initializer:root:x",))
    found = stages.content(asked(user), situation(facts=ClusterFacts(phase))) or stages.access(
        False
    )
    assert found.verdict is verdict


def test_metrics_belong_to_the_shard() -> None:
    attributes = path_attributes(User("u"), "get", "/metrics")
    found = stages.content(attributes, situation(facts=None, cluster="root")) or stages.access(
        False
    )
    assert found == stages.delegate("shard-level path")


@pytest.mark.parametrize(
    ("group", "resource", "subresource", "reason"),
    [
        ("apis.kcp.io", "apibindings", "status", "apibinding status updates not permitted"),
        ("apis.kcp.io", "apiexports", "status", "apiexport status updates not permitted"),
        ("apis.kcp.io", "apiexports", "", None),
        ("apis.kcp.io", "apiexportendpointslices", "status", None),
        ("other.io", "apiexports", "status", None),
    ],
)
def test_system_crd(group: str, resource: str, subresource: str, reason: str | None) -> None:
    attributes = Attributes(User("u"), "get", "", group, resource, subresource)
    found = stages.system_crd(attributes, situation())
    if reason is None:
        assert found == stages.delegate("no system CRD violation")
    else:
        assert found == (DENY, reason, False)


def test_facts_are_read_off_the_object() -> None:
    assert ClusterFacts.of({}) == ClusterFacts()
    annotated = {
        "metadata": {"annotations": {"authorization.kcp.io/required-groups": "a"}},
        "status": {"phase": "Ready"},
    }
    assert ClusterFacts.of(annotated) == ClusterFacts("Ready", "a")
