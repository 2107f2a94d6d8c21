"""What is published, and what has to be done to copies."""

from __future__ import annotations

from typing import Any

import pytest

from pykcp.controllers.cache.replication_plan import (
    DELETION_ANNOTATION,
    ORIGINAL_UID,
    ORIGINAL_VERSION,
    SHARD_ANNOTATION,
    CopyAction,
    belongs,
    copy_of,
    plan,
    public_form,
)
from pykcp.machinery.kcp.replicate_marks import ANNOTATION
from pykcp.machinery.resources import (
    API_EXPORTS,
    CLUSTER_ROLES,
    LOGICAL_CLUSTERS,
    WORKLOAD_CLUSTERS,
    GroupVersionResource,
)
from pykcp.registry import codec


def obj(version: str = "5", uid: str = "u", **more: Any) -> dict[str, Any]:
    metadata = {"name": "x", "uid": uid, "resourceVersion": version, **more.pop("metadata", {})}
    metadata["annotations"] = {"kcp.io/cluster": "c", **metadata.get("annotations", {})}
    return {"metadata": metadata, **more}


def copied(original: dict[str, Any], version: str = "99") -> dict[str, Any]:
    copy = copy_of(original, "root")
    copy["metadata"]["resourceVersion"] = version
    copy["metadata"]["annotations"]["kcp.io/cluster"] = "c"
    return {"kind": "K", "apiVersion": "g/v1", **copy}


LEAVING = {"deletionTimestamp": "2026-01-01T00:00:00Z"}


@pytest.mark.parametrize(
    ("local", "cached", "expected"),
    [
        pytest.param(None, None, CopyAction.NOTHING, id="nothing anywhere"),
        pytest.param(obj(), None, CopyAction.CREATE, id="new"),
        pytest.param(None, copied(obj()), CopyAction.DELETE, id="gone"),
        pytest.param(obj(), copied(obj()), CopyAction.NOTHING, id="equal"),
        pytest.param(obj("7"), copied(obj("5")), CopyAction.NOTHING, id="only the version differs"),
        pytest.param(obj(spec={"a": 1}), copied(obj(spec={"a": 2})), CopyAction.UPDATE, id="spec"),
        pytest.param(obj(status={"a": 1}), copied(obj()), CopyAction.UPDATE, id="status"),
        pytest.param(
            obj(metadata={"labels": {"a": "b"}}), copied(obj()), CopyAction.UPDATE, id="labels"
        ),
        pytest.param(
            obj(metadata={"annotations": {"a": "b"}}),
            copied(obj()),
            CopyAction.UPDATE,
            id="annotation",
        ),
        pytest.param(obj(uid="v"), copied(obj()), CopyAction.DELETE, id="another of that name"),
        pytest.param(obj(metadata=LEAVING), copied(obj()), CopyAction.DELETE, id="being deleted"),
        pytest.param(
            obj(metadata={**LEAVING, "finalizers": ["f"]}),
            copied(obj()),
            CopyAction.NOTHING,
            id="being deleted, somebody waits",
        ),
        pytest.param(obj(metadata=LEAVING), None, CopyAction.NOTHING, id="not published any more"),
    ],
)
def test_plan(
    local: dict[str, Any] | None, cached: dict[str, Any] | None, expected: CopyAction
) -> None:
    assert plan(local, cached, "root").action is expected
    in_outline = [None if each is None else codec.outline_of(each) for each in (local, cached)]
    assert plan(*in_outline, "root").action is expected


def test_copies() -> None:
    local = obj(metadata={"annotations": {"a": "b"}}, spec={"x": 1})
    made = plan(local, None, "root").copy
    assert made is not None
    assert made["spec"] == {"x": 1}
    assert made["metadata"] == {
        "name": "x",
        "uid": "u",
        "annotations": {
            "a": "b",
            SHARD_ANNOTATION: "root",
            ORIGINAL_VERSION: "5",
            ORIGINAL_UID: "u",
        },
    }
    changed = plan({**local, "spec": {}}, copied(local), "root").copy
    assert changed is not None
    assert changed["metadata"]["resourceVersion"] == "99"
    assert local["metadata"]["resourceVersion"] == "5"


MARKED = {"annotations": {ANNOTATION: "apis.kcp.io"}}


@pytest.mark.parametrize(
    ("kind", "cluster", "local", "in_marked", "expected"),
    [
        (API_EXPORTS, "a", obj(), False, True),
        (API_EXPORTS, "system:admin", obj(), False, False),
        (LOGICAL_CLUSTERS, "a", obj(), False, False),
        (LOGICAL_CLUSTERS, "a", obj(metadata=MARKED), False, True),
        (LOGICAL_CLUSTERS, "system:shard", obj(metadata=MARKED), False, False),
        (CLUSTER_ROLES, "a", obj(metadata=MARKED), False, False),
        (CLUSTER_ROLES, "a", obj(metadata=MARKED), True, True),
        (CLUSTER_ROLES, "a", obj(), True, False),
    ],
)
def test_belongs(
    kind: GroupVersionResource,
    cluster: str,
    local: dict[str, Any],
    in_marked: bool,
    expected: bool,
) -> None:
    assert belongs(kind, cluster, local, in_marked=in_marked) is expected


def test_clusters_are_published_without_credentials_and_reports() -> None:
    cluster = obj(
        metadata={"managedFields": [{}], **LEAVING, "finalizers": ["f"]},
        spec={"kubeconfig": "secret", "kubeconfigSecretRef": {"name": "s"}, "mode": "Push"},
        status={"lastSyncerHeartbeatTime": "now", "syncer": {}, "uid": "u"},
    )
    shown = public_form(WORKLOAD_CLUSTERS, cluster)
    assert shown["spec"] == {"mode": "Push"}
    assert shown["status"] == {"uid": "u"}
    assert "managedFields" not in shown["metadata"]
    # Other shards have to know that it is being deleted while it still exists.
    assert shown["metadata"]["annotations"][DELETION_ANNOTATION] == LEAVING["deletionTimestamp"]
    assert plan(shown, copied(obj()), "root").action is CopyAction.UPDATE
    assert belongs(WORKLOAD_CLUSTERS, "c", cluster, in_marked=True)
    assert not belongs(WORKLOAD_CLUSTERS, "c", cluster, in_marked=False)
    assert public_form(API_EXPORTS, cluster) is cluster
