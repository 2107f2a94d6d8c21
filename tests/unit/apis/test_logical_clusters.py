"""Phases of logical clusters and of the workspaces that own them."""

from __future__ import annotations

import pytest

from pykcp.apis.kcp import logical_clusters as lifecycle
from pykcp.machinery.kcp.hashes import initializer_label, terminator_label
from pykcp.types import Object

NOW = "2026-11-15T12:00:00Z"


def cluster(phase: str = "", *, deleting: bool = False, **more: object) -> Object:
    obj: Object = {"metadata": {"name": "cluster"}, "spec": {}, "status": {}}
    if phase:
        obj["status"]["phase"] = phase
    if deleting:
        obj["metadata"]["deletionTimestamp"] = NOW
    for key, value in more.items():
        part = "spec" if key.startswith("spec_") else "status"
        obj[part][key.removeprefix("spec_")] = value
    return obj


@pytest.mark.parametrize(
    ("given", "phase"),
    [
        (cluster(), "Ready"),
        (cluster("Scheduling", spec_initializers=["a:b"]), "Initializing"),
        (cluster("Initializing", initializers=["a:b"]), "Initializing"),
        (cluster("Initializing", spec_initializers=["a:b"]), "Ready"),
        (cluster("Ready"), "Ready"),
        (cluster("Ready", deleting=True), "Deleting"),
        (cluster("Ready", deleting=True, terminators=["a:b"]), "Terminating"),
        (cluster("Terminating", deleting=True), "Deleting"),
    ],
)
def test_phases(given: Object, phase: str) -> None:
    lifecycle.settle(given, "https://x/clusters/c", "root", NOW)
    assert given["status"]["phase"] == phase
    assert given["metadata"]["labels"]["tenancy.kcp.io/phase"] == phase
    assert given["status"]["URL"] == "https://x/clusters/c"


def test_settling_twice_changes_nothing() -> None:
    given = cluster(spec_initializers=["a:b"], spec_terminators=["c:d"])
    lifecycle.settle(given, "u", "root", NOW)
    before = repr(given)
    lifecycle.settle(given, "u", "root", "2027-01-01T00:00:00Z")
    assert repr(given) == before


def test_labels_and_finalizer_follow_the_status() -> None:
    given = cluster(spec_initializers=["a:b"], spec_terminators=["c:d"])
    lifecycle.settle(given, "u", "root", NOW)
    labels = given["metadata"]["labels"]
    assert labels[initializer_label("a:b")[0]] == initializer_label("a:b")[1]
    assert labels[terminator_label("c:d")[0]] == terminator_label("c:d")[1]
    assert given["metadata"]["finalizers"] == ["kcp.io/has-terminators"]
    given["status"]["initializers"] = []
    given["status"]["terminators"] = []
    lifecycle.settle(given, "u", "root", NOW)
    assert given["metadata"]["labels"] == {"tenancy.kcp.io/phase": "Ready"}
    assert given["metadata"]["finalizers"] == []


def test_inactive_and_back() -> None:
    given = cluster("Ready")
    given["metadata"]["annotations"] = {"core.kcp.io/inactive": "true"}
    lifecycle.settle(given, "u", "root", NOW)
    assert given["status"]["phase"] == "Inactive"
    del given["metadata"]["annotations"]["core.kcp.io/inactive"]
    lifecycle.settle(given, "u", "root", NOW)
    assert given["status"]["phase"] == "Ready"


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ('{"username":"a","groups":["g"]}', '{"username":"a"}'),
        ('{"username":"a"}', '{"username":"a"}'),
        ("nonsense", None),
    ],
)
def test_only_the_name_of_the_owner_stays(text: str, left: str | None) -> None:
    obj: Object = {"metadata": {"annotations": {lifecycle.OWNER_ANNOTATION: text}}}
    lifecycle.trim_owner(obj)
    assert obj["metadata"]["annotations"].get(lifecycle.OWNER_ANNOTATION) == left


def workspace(phase: str = "", *, deleting: bool = False) -> Object:
    obj: Object = {"metadata": {"name": "w"}, "spec": {"cluster": "c"}, "status": {}}
    if phase:
        obj["status"]["phase"] = phase
    if deleting:
        obj["metadata"]["deletionTimestamp"] = NOW
    return obj


@pytest.mark.parametrize(
    ("given", "its_cluster", "phase"),
    [
        (workspace(), cluster("Ready"), "Ready"),
        (workspace(), cluster("Scheduling"), "Initializing"),
        (workspace("Initializing"), cluster("Initializing", initializers=["a:b"]), "Initializing"),
        (workspace("Initializing"), None, "Unavailable"),
        (workspace("Ready"), None, "Unavailable"),
        (workspace("Ready", deleting=True), cluster("Ready", terminators=["a:b"]), "Terminating"),
        (workspace("Ready", deleting=True), cluster("Ready"), "Deleting"),
    ],
)
def test_a_workspace_mirrors_its_cluster(
    given: Object, its_cluster: Object | None, phase: str
) -> None:
    lifecycle.mirror(given, its_cluster, NOW)
    assert given["status"]["phase"] == phase
    assert given["metadata"]["labels"]["tenancy.kcp.io/phase"] == phase


def test_a_cluster_that_reappears_makes_its_workspace_available() -> None:
    given = workspace("Ready")
    lifecycle.mirror(given, None, NOW)
    assert given["status"]["phase"] == "Unavailable"
    lifecycle.mirror(given, cluster("Ready"), NOW)
    assert given["status"]["phase"] == "Ready"
