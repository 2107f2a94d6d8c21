"""What a shard publishes in its cache, and that it stays as it is."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest

from pykcp.testing.client import MERGE, TestClient, eventually
from pykcp.testing.clusters import cached, make_cluster, name_of
from pykcp.testing.server import ServerProcess, server

EXPORTS = "/apis/apis.kcp.io/v1alpha2/apiexports"
CLUSTER = "/apis/core.kcp.io/v1alpha1/logicalclusters/cluster"
ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
BINDINGS = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
REPLICATE = "internal.kcp.io/replicate"


def make_export(client: TestClient, name: str) -> dict[str, Any]:
    body = {"apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIExport", "metadata": {"name": name}}
    reply = client.post(EXPORTS, body)
    assert reply.status == 201, reply
    made: dict[str, Any] = reply.json
    return made


def without_copy_marks(obj: dict[str, Any]) -> dict[str, Any]:
    metadata = obj["metadata"]
    metadata.pop("resourceVersion")
    annotations = metadata["annotations"]
    for name in (
        "kcp.io/shard",
        "cache.kcp.io/original-resource-version",
        "cache.kcp.io/original-resource-UID",
    ):
        assert annotations.pop(name)
    return obj


def is_copied(client: TestClient, copies: TestClient, path: str) -> bool:
    original, copy = client.get(path), copies.get(path)
    if copy.status != 200 or original.status != 200:
        return False
    wanted = original.json
    wanted["metadata"].pop("resourceVersion")
    return without_copy_marks(copy.json) == wanted


def annotation(client: TestClient, path: str) -> str | None:
    found: str | None = client.get(path).json["metadata"].get("annotations", {}).get(REPLICATE)
    return found


@pytest.fixture
def copies(shard: ServerProcess, cluster: TestClient) -> TestClient:
    return cached(shard, name_of(cluster))


def test_copies_follow_their_originals(cluster: TestClient, copies: TestClient) -> None:
    path = f"{EXPORTS}/followed"
    make_export(cluster, "followed")
    eventually(lambda: is_copied(cluster, copies, path))
    cluster.patch(path, {"metadata": {"labels": {"a": "b"}}}, MERGE)
    eventually(lambda: is_copied(cluster, copies, path))
    cluster.patch(path, {"spec": {"maximalPermissionPolicy": {"local": {}}}}, MERGE)
    eventually(lambda: is_copied(cluster, copies, path))
    assert copies.get(path).json["spec"]["maximalPermissionPolicy"] == {"local": {}}
    cluster.delete(path)
    eventually(lambda: copies.get(path).status == 404)


def test_copies_are_put_right(cluster: TestClient, copies: TestClient) -> None:
    path = f"{EXPORTS}/righted"
    make_export(cluster, "righted")
    eventually(lambda: is_copied(cluster, copies, path))
    copies.delete(path)
    eventually(lambda: is_copied(cluster, copies, path))
    copies.patch(path, {"spec": {"resources": [{"name": "x"}]}}, MERGE)
    eventually(lambda: is_copied(cluster, copies, path))
    copies.patch(path, {"metadata": {"labels": {"x": "y"}}}, MERGE)
    eventually(lambda: is_copied(cluster, copies, path))
    copies.post(
        EXPORTS,
        {"apiVersion": "apis.kcp.io/v1alpha2", "kind": "APIExport", "metadata": {"name": "lone"}},
    )
    eventually(lambda: copies.get(f"{EXPORTS}/lone").status == 404)


def test_large_copies(cluster: TestClient, copies: TestClient) -> None:
    """They are copied as texts, of which only the metadata is decoded."""
    path = f"{EXPORTS}/large"
    make_export(cluster, "large")
    claims = [
        {
            "group": f"g{n}.example.org",
            "resource": "things",
            "verbs": ["*"],
            "identityHash": "é" * 64,
        }
        for n in range(3000)
    ]
    reply = cluster.patch(path, {"spec": {"permissionClaims": claims}}, MERGE)
    assert reply.status == 200, reply
    eventually(lambda: is_copied(cluster, copies, path))
    identity = copies.get(path).json["status"]["identityHash"]
    copies.patch(path, {"spec": {"permissionClaims": claims[1:]}}, MERGE)
    eventually(lambda: is_copied(cluster, copies, path))
    found = copies.get(path).json
    assert (found["spec"]["permissionClaims"], found["status"]["identityHash"]) == (
        claims,
        identity,
    )
    copies.delete(path)
    eventually(lambda: is_copied(cluster, copies, path))
    cluster.delete(path)
    eventually(lambda: copies.get(path).status == 404)


def test_another_object_of_the_same_name(cluster: TestClient, copies: TestClient) -> None:
    path = f"{EXPORTS}/again"
    for _ in range(3):
        uid = make_export(cluster, "again")["metadata"]["uid"]
        cluster.delete(path)
    uid = make_export(cluster, "again")["metadata"]["uid"]
    eventually(lambda: is_copied(cluster, copies, path))
    assert copies.get(path).json["metadata"]["uid"] == uid


def test_clusters_with_exports_are_marked(cluster: TestClient, copies: TestClient) -> None:
    assert annotation(cluster, CLUSTER) is None
    assert copies.get(CLUSTER).status == 404
    make_export(cluster, "one")
    make_export(cluster, "two")
    eventually(lambda: annotation(cluster, CLUSTER) == "apis.kcp.io")
    eventually(lambda: is_copied(cluster, copies, CLUSTER))
    cluster.delete(f"{EXPORTS}/one")
    cluster.patch(CLUSTER, {"metadata": {"annotations": {REPLICATE: None}}}, MERGE)
    eventually(lambda: annotation(cluster, CLUSTER) == "apis.kcp.io")
    cluster.delete(f"{EXPORTS}/two")
    eventually(lambda: annotation(cluster, CLUSTER) is None)
    eventually(lambda: copies.get(CLUSTER).status == 404)


def rbac(client: TestClient, name: str, role: str, rules: list[dict[str, Any]]) -> None:
    if rules:
        made = client.post(ROLES, {"metadata": {"name": role}, "rules": rules})
        assert made.status == 201, made
    made = client.post(
        BINDINGS,
        {
            "metadata": {"name": name},
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "ClusterRole",
                "name": role,
            },
            "subjects": [
                {"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "alice"}
            ],
        },
    )
    assert made.status == 201, made


BIND = [{"apiGroups": ["apis.kcp.io"], "resources": ["apiexports"], "verbs": ["bind"]}]
ACCESS = [{"nonResourceURLs": ["/"], "verbs": ["access"]}]
PLAIN = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}]


def test_roles_are_marked_for_what_they_grant(cluster: TestClient, copies: TestClient) -> None:
    """Those of ordinary clusters stay here; once there is an export, they are published."""
    rbac(cluster, "bind", "bind", BIND)
    rbac(cluster, "access", "access", ACCESS)
    rbac(cluster, "plain", "plain", PLAIN)
    rbac(cluster, "admin", "cluster-admin", [])
    for kind in (ROLES, BINDINGS):
        eventually(lambda k=kind: annotation(cluster, f"{k}/bind") == "apis.kcp.io")
    eventually(lambda: annotation(cluster, f"{BINDINGS}/admin") == "apis.kcp.io,tenancy.kcp.io")
    assert annotation(cluster, f"{ROLES}/access") is None
    assert copies.get(BINDINGS).json["items"] == []

    make_export(cluster, "reason")
    for kind in (ROLES, BINDINGS):
        eventually(lambda k=kind: annotation(cluster, f"{k}/access") == "core.kcp.io")
        eventually(lambda k=kind: is_copied(cluster, copies, f"{k}/access"))
        eventually(lambda k=kind: is_copied(cluster, copies, f"{k}/bind"))
    everything = "apis.kcp.io,core.kcp.io,tenancy.kcp.io"
    eventually(lambda: annotation(cluster, f"{BINDINGS}/admin") == everything)
    eventually(lambda: is_copied(cluster, copies, f"{BINDINGS}/admin"))
    assert annotation(cluster, f"{ROLES}/plain") is None
    assert copies.get(f"{BINDINGS}/plain").status == 404

    cluster.patch(f"{ROLES}/bind", {"rules": PLAIN}, MERGE)
    for kind in (ROLES, BINDINGS):
        eventually(lambda k=kind: annotation(cluster, f"{k}/bind") is None)
        eventually(lambda k=kind: copies.get(f"{k}/bind").status == 404)
    cluster.delete(f"{EXPORTS}/reason")
    eventually(lambda: annotation(cluster, f"{ROLES}/access") is None)
    eventually(lambda: copies.get(BINDINGS).json["items"] == [])


def test_roles_of_a_maximal_permission_policy(cluster: TestClient) -> None:
    rbac(cluster, "policy", "policy", PLAIN)
    subject = {
        "kind": "Group",
        "apiGroup": "rbac.authorization.k8s.io",
        "name": "apis.kcp.io:binding:team",
    }
    cluster.patch(f"{BINDINGS}/policy", {"subjects": [subject]}, MERGE)
    for kind in (ROLES, BINDINGS):
        eventually(lambda k=kind: annotation(cluster, f"{k}/policy") == "apis.kcp.io")
    cluster.delete(f"{BINDINGS}/policy")
    eventually(lambda: annotation(cluster, f"{ROLES}/policy") is None)


def test_what_root_publishes(shard: ServerProcess) -> None:
    root, copies = shard.client(cluster="root"), cached(shard, "root")
    for path in (
        "/apis/core.kcp.io/v1alpha1/shards/root",
        "/apis/tenancy.kcp.io/v1alpha1/workspacetypes/universal",
        f"{EXPORTS}/tenancy.kcp.io",
        f"{BINDINGS}/system:kcp:authenticated:apiexport:topology:bind",
        CLUSTER,
    ):
        eventually(lambda p=path: is_copied(root, copies, p))
    assert annotation(root, CLUSTER) == "apis.kcp.io,tenancy.kcp.io"
    everywhere = cached(shard, "*")
    for path in (ROLES, BINDINGS, "/apis/core.kcp.io/v1alpha1/logicalclusters"):
        found = everywhere.get(path).json["items"]
        names = {item["metadata"]["annotations"]["kcp.io/cluster"] for item in found}
        assert not {name for name in names if name.startswith("system:")}


def test_a_wiped_cache_fills_up_again(tmp_path: pathlib.Path) -> None:
    with server(directory=tmp_path) as process:
        cluster = make_cluster(process, "wiped")
        make_export(cluster, "kept")
        rbac(cluster, "bind", "bind", BIND)
        copies = cached(process, "wiped")
        paths = (f"{EXPORTS}/kept", CLUSTER, f"{ROLES}/bind", f"{BINDINGS}/bind")
        for path in paths:
            eventually(lambda p=path: is_copied(cluster, copies, p))
        process.stop()
        for file in process.root.glob("cache.db*"):
            file.unlink()
        process.start()
        cluster, copies = process.client(cluster="wiped"), cached(process, "wiped")
        for path in paths:
            eventually(lambda p=path: is_copied(cluster, copies, p))
        process.kill()
        (process.root / "cache.db").write_bytes(b"not a database at all, and long enough" * 100)
        process.start()
        cluster, copies = process.client(cluster="wiped"), cached(process, "wiped")
        eventually(lambda: is_copied(cluster, copies, paths[0]))


def test_workspaces_leave_nothing_behind(shard: ServerProcess) -> None:
    """What a workspace published goes with it."""
    root = shard.client(cluster="root")
    path = "/apis/tenancy.kcp.io/v1alpha1/workspaces"
    body = {
        "apiVersion": "tenancy.kcp.io/v1alpha1",
        "kind": "Workspace",
        "metadata": {"name": "published"},
        "spec": {"type": {"name": "universal", "path": "root"}},
    }
    assert root.post(path, body).status == 201
    eventually(lambda: root.get(f"{path}/published").json["status"].get("phase") == "Ready")
    name = root.get(f"{path}/published").json["spec"]["cluster"]
    workspace, copies = shard.client(cluster=name), cached(shard, name)
    make_export(workspace, "one")
    rbac(workspace, "bind", "bind", BIND)
    paths = (f"{EXPORTS}/one", CLUSTER, f"{ROLES}/bind", f"{BINDINGS}/bind")
    for published in paths:
        eventually(lambda p=published: is_copied(workspace, copies, p))
    root.delete(f"{path}/published")
    eventually(lambda: root.get(f"{path}/published").status == 404)
    slices = "/apis/apis.kcp.io/v1alpha1/apiexportendpointslices/one"
    for published in (*paths, slices):
        eventually(lambda p=published: copies.get(p).status == 404)


def test_a_crash_in_between(tmp_path: pathlib.Path) -> None:
    """Killed while it publishes, a shard puts everything right when it is back."""
    with server(directory=tmp_path) as process:
        cluster = make_cluster(process, "crashed")
        for number in range(40):
            make_export(cluster, f"before-{number}")
        for number in range(20):
            cluster.delete(f"{EXPORTS}/before-{number}")
        process.kill()
        process.start()
        cluster, copies = process.client(cluster="crashed"), cached(process, "crashed")
        eventually(lambda: _versions(copies) == set(_uids(cluster)))
        eventually(lambda: annotation(cluster, CLUSTER) == "apis.kcp.io")
        eventually(lambda: is_copied(cluster, copies, CLUSTER))


def _uids(client: TestClient) -> list[tuple[str, str]]:
    items = client.get(EXPORTS).json["items"]
    return [(i["metadata"]["uid"], i["metadata"]["resourceVersion"]) for i in items]


def _versions(client: TestClient) -> set[tuple[str, str]]:
    """The originals that the copies are of."""
    items = client.get(EXPORTS).json["items"]
    marks = [i["metadata"]["annotations"] for i in items]
    uid, version = "cache.kcp.io/original-resource-UID", "cache.kcp.io/original-resource-version"
    return {(mark[uid], mark[version]) for mark in marks}
