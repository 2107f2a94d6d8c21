"""What every namespace has from the beginning, and keeps."""

from __future__ import annotations

import time

from pykcp.testing.client import MERGE, TestClient, eventually
from pykcp.testing.kubeconfig import read_access
from pykcp.testing.server import ServerProcess

NAMESPACES = "/api/v1/namespaces"
ACCOUNT = "/api/v1/namespaces/default/serviceaccounts/default"
CA = "/api/v1/namespaces/default/configmaps/kube-root-ca.crt"


def test_the_default_service_account_is_made_and_made_again(cluster: TestClient) -> None:
    first = eventually(lambda: _found(cluster, ACCOUNT))
    assert cluster.delete(ACCOUNT).status == 200
    second = eventually(lambda: _found(cluster, ACCOUNT))
    assert second["metadata"]["uid"] != first["metadata"]["uid"]
    # As upstream's it has nothing but a name, so nobody owns a field of it.
    assert set(second["metadata"]) == {
        "name", "namespace", "uid", "resourceVersion", "creationTimestamp", "annotations",
    }  # fmt: skip


def test_other_service_accounts_stay_deleted(cluster: TestClient) -> None:
    path = ACCOUNT.rpartition("/")[0]
    assert cluster.post(path, {"metadata": {"name": "mine"}}).status == 201
    eventually(lambda: _found(cluster, ACCOUNT))
    cluster.delete(f"{path}/mine")
    cluster.delete(ACCOUNT)
    eventually(lambda: _found(cluster, ACCOUNT))
    assert cluster.get(f"{path}/mine").status == 404


def test_the_ca_is_published_and_restored(shard: ServerProcess, cluster: TestClient) -> None:
    made = eventually(lambda: _found(cluster, CA))
    assert made["data"] == {"ca.crt": read_access(shard.kubeconfig, "root").ca}
    assert made["metadata"]["annotations"]["kubernetes.io/description"]
    assert made["metadata"]["managedFields"][0]["manager"] == "root-ca-cert-publisher"
    cluster.patch(CA, {"data": {"ca.crt": "forged", "more": "x"}}, MERGE)
    eventually(lambda: cluster.get(CA).json["data"] == made["data"])
    cluster.patch(CA, {"metadata": {"annotations": None}}, MERGE)
    eventually(
        lambda: "kubernetes.io/description" in cluster.get(CA).json["metadata"]["annotations"]
    )
    cluster.delete(CA)
    eventually(lambda: (_found(cluster, CA) or {}).get("data") == made["data"])


def test_both_are_there_soon_after_the_namespace(cluster: TestClient) -> None:
    """Typically in a few milliseconds; the bound is for a busy machine."""
    eventually(lambda: _found(cluster, ACCOUNT))
    took = []
    for number in range(10):
        began = time.perf_counter()
        cluster.post(NAMESPACES, {"metadata": {"name": f"n{number}"}})
        base = f"{NAMESPACES}/n{number}"
        while not _found(cluster, f"{base}/serviceaccounts/default") or not _found(
            cluster, f"{base}/configmaps/kube-root-ca.crt"
        ):
            assert time.perf_counter() - began < 5
        took.append(time.perf_counter() - began)
    assert sorted(took)[len(took) // 2] < 0.25, took


def _found(client: TestClient, path: str) -> dict[str, object] | None:
    answer = client.get(path)
    return answer.json if answer.status == 200 else None
