"""ClusterCachedResources: objects of a workspace's own resources, copied into the cache."""

from __future__ import annotations

import base64
import hashlib
from typing import Any

import pytest

from pykcp.testing.client import MERGE, TestClient, eventually
from pykcp.testing.clusters import cached, make_cluster, name_of
from pykcp.testing.server import ServerProcess

CACHED = "/apis/cache.kcp.io/v1alpha1/clustercachedresources"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
INSTANCES = "/apis/machines.svm.io/v1alpha1/instances"


def define(client: TestClient, scope: str = "Cluster", also: str = "") -> None:
    """`also`: another version of it."""
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    versions = [
        {"name": name, "served": True, "storage": name != also, "schema": schema}
        for name in ("v1alpha1", also)
        if name
    ]
    made = client.post(
        CRDS,
        {
            "metadata": {"name": "instances.machines.svm.io"},
            "spec": {
                "group": "machines.svm.io",
                "scope": scope,
                "names": {"kind": "Instance", "plural": "instances"},
                "versions": versions,
            },
        },
    )
    assert made.status == 201, made


def add(client: TestClient, name: str, **labels: str) -> None:
    body = {
        "apiVersion": "machines.svm.io/v1alpha1",
        "kind": "Instance",
        "metadata": {"name": name, "labels": labels},
        "spec": {"tier": "basic"},
        "status": {"phase": "Running"},
    }
    eventually(lambda: client.post(INSTANCES, body).status in (201, 409))


def publish(client: TestClient, name: str = "instances", **spec: Any) -> None:
    body = {
        "apiVersion": "cache.kcp.io/v1alpha1",
        "kind": "ClusterCachedResource",
        "metadata": {"name": name},
        "spec": {
            "group": "machines.svm.io",
            "version": "v1alpha1",
            "resource": "instances",
            **spec,
        },
    }
    made = client.post(CACHED, body)
    assert made.status == 201, made


def status(client: TestClient, name: str = "instances") -> dict[str, Any]:
    found: dict[str, Any] = client.get(f"{CACHED}/{name}").json.get("status") or {}
    return found


def counts(client: TestClient) -> tuple[int, int] | None:
    found = status(client).get("resourceCounts")
    return None if found is None else (found["local"], found["cache"])


def condition(client: TestClient, kind: str) -> dict[str, Any]:
    for one in status(client).get("conditions") or ():
        if one["type"] == kind:
            found: dict[str, Any] = one
            return found
    return {}


def test_objects_are_copied_and_counted(shard: ServerProcess, cluster: TestClient) -> None:
    define(cluster)
    for number in range(3):
        add(cluster, f"chosen-{number}", part="yes")
    add(cluster, "other")
    publish(cluster, labelSelector={"matchLabels": {"part": "yes"}})
    eventually(lambda: counts(cluster) == (3, 3))
    found = cluster.get(f"{CACHED}/instances").json
    assert found["metadata"]["finalizers"] == ["cache.kcp.io/clustercachedresource"]
    annotations = found["metadata"]["annotations"]
    assert annotations["cache.kcp.io/resource-kind"] == "Instance"
    assert annotations["cache.kcp.io/resource-scope"] == "Cluster"
    secret = {"namespace": "kcp-system", "name": "instances"}
    assert found["spec"]["identity"] == {"secretRef": secret}
    assert found["status"]["phase"] == "Ready"
    true = {c["type"] for c in found["status"]["conditions"] if c["status"] == "True"}
    assert true == {"IdentityValid", "ReplicationStarted", "ResourceValid"}
    key = cluster.get("/api/v1/namespaces/kcp-system/secrets/instances").json["data"]["key"]
    identity = hashlib.sha256(base64.b64decode(key)).hexdigest()
    assert found["status"]["identityHash"] == identity

    copies = cached(shard, name_of(cluster), "root")
    copy = copies.get(f"{INSTANCES}/chosen-1").json
    original = cluster.get(f"{INSTANCES}/chosen-1").json
    assert (copy["spec"], copy["status"]) == (original["spec"], original["status"])
    assert copy["kind"] == "Instance"
    assert copy["metadata"]["uid"] == original["metadata"]["uid"]
    everywhere = cached(shard, "*", "*").get(f"{INSTANCES}:{identity}").json["items"]
    assert len(everywhere) == 3
    assert cached(shard, "*", "*").get(INSTANCES).status == 404
    assert cached(shard, "*", "*").get(f"{INSTANCES}:beef").status == 404
    seen = copies.get("/apis/machines.svm.io/v1alpha1").json["resources"]
    assert [one["name"] for one in seen] == ["instances"]


def test_two_versions_with_one_identity(shard: ServerProcess, cluster: TestClient) -> None:
    """Their copies are the same, and none of them removes the other's."""
    define(cluster, also="v1beta1")
    add(cluster, "a", part="a")
    add(cluster, "b", part="b")
    publish(cluster, labelSelector={"matchLabels": {"part": "a"}})
    identity = eventually(lambda: status(cluster).get("identityHash"))
    publish(
        cluster,
        "other",
        version="v1beta1",
        labelSelector={"matchLabels": {"part": "b"}},
        identity={"secretRef": {"namespace": "kcp-system", "name": "instances"}},
    )
    eventually(lambda: status(cluster, "other").get("identityHash") == identity)
    copies = cached(shard, name_of(cluster), "root")

    def versions() -> dict[str, str]:
        items = copies.get(INSTANCES).json.get("items") or ()
        found = [one["metadata"] for one in items]
        return {one["name"]: one["resourceVersion"] for one in found}

    eventually(lambda: versions().keys() == {"a", "b"})
    before = versions()
    add(cluster, "last", part="b")
    eventually(lambda: versions().keys() == {"a", "b", "last"})
    cluster.delete(f"{INSTANCES}/last")
    eventually(lambda: versions() == before)


def test_copies_follow(shard: ServerProcess, cluster: TestClient) -> None:
    define(cluster)
    publish(cluster, labelSelector={"matchLabels": {"part": "yes"}})
    add(cluster, "one", part="yes")
    add(cluster, "two", part="yes")
    eventually(lambda: counts(cluster) == (2, 2))
    copies = cached(shard, name_of(cluster), "root")
    cluster.patch(f"{INSTANCES}/one", {"spec": {"tier": "premium"}}, MERGE)
    eventually(lambda: copies.get(f"{INSTANCES}/one").json["spec"]["tier"] == "premium")
    cluster.patch(f"{INSTANCES}/one", {"metadata": {"labels": {"part": "no"}}}, MERGE)
    eventually(lambda: counts(cluster) == (1, 1))
    assert copies.get(f"{INSTANCES}/one").status == 404
    copies.delete(f"{INSTANCES}/two")
    eventually(lambda: copies.get(f"{INSTANCES}/two").status == 200)
    cluster.delete(f"{INSTANCES}/two")
    eventually(lambda: counts(cluster) == (0, 0))
    cluster.patch(f"{CACHED}/instances", {"spec": {"labelSelector": None}}, MERGE)
    eventually(lambda: counts(cluster) == (1, 1))


def test_identities_are_shared_by_secret(shard: ServerProcess) -> None:
    names = ("shared-one", "shared-two")
    identity = hashlib.sha256(b"mine").hexdigest()
    for name in names:
        client = make_cluster(shard, name)
        define(client)
        add(client, f"of-{name}")
        client.post(
            "/api/v1/namespaces/default/secrets",
            {"metadata": {"name": "identity"}, "stringData": {"key": "mine"}},
        )
        publish(client, identity={"secretRef": {"namespace": "default", "name": "identity"}})
        eventually(lambda c=client: counts(c) == (1, 1))
        assert status(client)["identityHash"] == identity
    everywhere = cached(shard, "*", "*")
    items = everywhere.get(f"{INSTANCES}:{identity}").json["items"]
    assert {i["metadata"]["annotations"]["kcp.io/cluster"] for i in items} == set(names)

    client = shard.client(cluster=names[0])
    client.delete(f"{CACHED}/instances")
    eventually(lambda: client.get(f"{CACHED}/instances").status == 404)
    copies = cached(shard, names[0], "root")
    eventually(lambda: copies.get(f"{INSTANCES}/of-{names[0]}").status == 404)
    items = everywhere.get(f"{INSTANCES}:{identity}").json["items"]
    assert [i["metadata"]["name"] for i in items] == [f"of-{names[1]}"]
    assert client.get(f"{INSTANCES}/of-{names[0]}").status == 200


def test_missing_secret(cluster: TestClient) -> None:
    define(cluster)
    eventually(lambda: cluster.get(INSTANCES).status == 200)
    publish(cluster, identity={"secretRef": {"namespace": "default", "name": "late"}})
    eventually(lambda: condition(cluster, "IdentityValid").get("status") == "False")
    found = condition(cluster, "IdentityValid")
    assert found["reason"] == "IdentityVerificationFailed"
    assert found["message"] == 'secrets "late" not found'
    cluster.post(
        "/api/v1/namespaces/default/secrets",
        {"metadata": {"name": "late"}, "stringData": {"key": "x"}},
    )
    eventually(lambda: status(cluster).get("phase") == "Ready")
    cluster.patch(
        "/api/v1/namespaces/default/secrets/late", {"stringData": {"key": "other"}}, MERGE
    )
    eventually(lambda: condition(cluster, "IdentityValid").get("status") == "False")
    assert "hash mismatch" in condition(cluster, "IdentityValid")["message"]


def test_a_definition_may_come_later(cluster: TestClient) -> None:
    publish(cluster)
    eventually(lambda: cluster.get(f"{CACHED}/instances").json["metadata"].get("finalizers"))
    define(cluster)
    add(cluster, "late")
    eventually(lambda: counts(cluster) == (1, 1))


@pytest.mark.parametrize("scope", ["Namespaced"])
def test_only_cluster_wide_resources(cluster: TestClient, scope: str) -> None:
    publish(cluster)
    define(cluster, scope)
    eventually(lambda: condition(cluster, "ResourceValid").get("status") == "False")
    found = condition(cluster, "ResourceValid")
    assert found["reason"] == "ResourceNotClusterScoped"
    assert found["message"] == "Resource instances.machines.svm.io is not cluster-scoped"


def test_nothing_is_left_behind(shard: ServerProcess, cluster: TestClient) -> None:
    define(cluster)
    for number in range(5):
        add(cluster, f"some-{number}")
    publish(cluster)
    eventually(lambda: counts(cluster) == (5, 5))
    identity = status(cluster)["identityHash"]
    cluster.delete(f"{CACHED}/instances")
    eventually(lambda: cluster.get(f"{CACHED}/instances").status == 404)
    copies = cached(shard, name_of(cluster), "root")
    eventually(lambda: copies.get(f"{CACHED}/instances").status == 404)
    assert copies.get(f"{INSTANCES}:{identity}").status == 404
    assert len(cluster.get(INSTANCES).json["items"]) == 5


def test_kinds_that_are_published_anyway(shard: ServerProcess, cluster: TestClient) -> None:
    """Copies of an identity are others than those that shards publish for each other."""
    roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
    for name in ("chosen", "other"):
        labels = {"part": "yes"} if name == "chosen" else {}
        body = {"metadata": {"name": name, "labels": labels}, "rules": []}
        assert cluster.post(roles, body).status == 201
    body = {
        "apiVersion": "cache.kcp.io/v1alpha1",
        "kind": "ClusterCachedResource",
        "metadata": {"name": "instances"},
        "spec": {
            "group": "rbac.authorization.k8s.io",
            "version": "v1",
            "resource": "clusterroles",
            "labelSelector": {"matchLabels": {"part": "yes"}},
        },
    }
    assert cluster.post(CACHED, body).status == 201
    eventually(lambda: counts(cluster) == (1, 1))
    copies = cached(shard, name_of(cluster), "root")
    identity = status(cluster)["identityHash"]
    found = copies.get(f"{roles}:{identity}").json["items"]
    assert [one["metadata"]["name"] for one in found] == ["chosen"]
    assert copies.get(roles).json["items"] == []
    cluster.delete(f"{CACHED}/instances")
    eventually(lambda: cluster.get(f"{CACHED}/instances").status == 404)
    eventually(lambda: copies.get(f"{CACHED}/instances").status == 404)
    assert cluster.get(f"{roles}/chosen").status == 200
