"""ResourceQuota on a running server: counts that are right, and limits that hold."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from pykcp.testing.client import APPLY, TestClient, eventually
from pykcp.testing.clusters import make_cluster
from pykcp.testing.server import ServerProcess, server
from pykcp.types import Object

CM = "/api/v1/namespaces/default/configmaps"
QUOTAS = "/api/v1/namespaces/default/resourcequotas"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
WIDGETS = "/apis/example.com/v1/namespaces/default/widgets"
COUNT = "count/configmaps"


def _map(name: str) -> Object:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}


def _quota(client: TestClient, hard: dict[str, str], name: str = "q", **spec: object) -> None:
    eventually(lambda: client.get(f"{CM}/kube-root-ca.crt").status == 200)
    body = {"metadata": {"name": name}, "spec": {"hard": hard, **spec}}
    assert client.post(QUOTAS, body).status == 201


def _used(client: TestClient, name: str = "q") -> dict[str, str]:
    status = client.get(f"{QUOTAS}/{name}").json.get("status") or {}
    used: dict[str, str] = status.get("used") or {}
    return used


def _widgets() -> Object:
    return {
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget", "singular": "widget"},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": {"type": "object"}},
                }
            ],
        },
    }


def test_status_says_hard_and_used(cluster: TestClient) -> None:
    """Everything named is counted, the published CA too, and kinds that are not served are 0."""
    hard = {
        COUNT: "5",
        "count/widgets.example.com": "1",
        "count/roles.rbac.authorization.k8s.io": "2",
    }
    _quota(cluster, hard)
    eventually(lambda: len(_used(cluster)) == 3)
    assert cluster.get(f"{QUOTAS}/q").json["status"] == {
        "hard": hard,
        "used": {
            COUNT: "1",
            "count/widgets.example.com": "0",
            "count/roles.rbac.authorization.k8s.io": "0",
        },
    }


def test_refusal_in_upstream_words(cluster: TestClient) -> None:
    _quota(cluster, {COUNT: "2"})
    assert cluster.post(CM, _map("one")).status == 201
    refused = cluster.post(CM, _map("two"))
    assert refused.status == 403
    assert refused.json == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": 'configmaps "two" is forbidden: exceeded quota: q, requested: count/configmaps=1, '
        "used: count/configmaps=2, limited: count/configmaps=2",
        "reason": "Forbidden",
        "details": {"name": "two", "kind": "configmaps"},
        "code": 403,
    }
    assert cluster.post(CM, {"metadata": {"generateName": "gen-"}}).status == 403
    assert cluster.post(CM, _map("dry"), dryRun="All").status == 403
    applied = cluster.patch(f"{CM}/applied", _map("applied"), APPLY, fieldManager="m")
    assert applied.status == 403
    assert cluster.patch(f"{CM}/one", {"data": {"a": "1"}}).status == 200
    assert cluster.post(LEASES, {"metadata": {"name": "other-kind"}}).status == 201


def test_dry_run_is_judged_but_not_counted(cluster: TestClient) -> None:
    _quota(cluster, {COUNT: "2"})
    for _ in range(3):
        assert cluster.post(CM, _map("dry"), dryRun="All").status == 201
    assert cluster.post(CM, _map("real")).status == 201
    assert _used(cluster)[COUNT] == "2"


def test_a_failed_create_is_not_counted(cluster: TestClient) -> None:
    _quota(cluster, {COUNT: "3"})
    assert cluster.post(CM, _map("one")).status == 201
    for _ in range(4):
        assert cluster.post(CM, _map("one")).status == 409
    assert _used(cluster)[COUNT] == "2"
    assert cluster.post(CM, _map("two")).status == 201


@pytest.mark.parametrize("hard", [1, 2, 8])
def test_concurrent_creates_do_not_overshoot(cluster: TestClient, hard: int) -> None:
    """Also in the first moments of a quota, when nothing has been counted yet."""
    _quota(cluster, {COUNT: str(hard + 1)})

    def create(number: int) -> int:
        return cluster.post(CM, _map(f"m{number}")).status

    with ThreadPoolExecutor(16) as threads:
        answers = list(threads.map(create, range(48)))
    assert sorted(set(answers)) == [201, 403]
    assert answers.count(201) == hard
    assert len(cluster.get(CM).json["items"]) == hard + 1
    assert _used(cluster)[COUNT] == str(hard + 1)


def test_creates_and_deletes_at_once_stay_within_the_limit(cluster: TestClient) -> None:
    """While objects come and go the namespace never holds more than it may."""
    _quota(cluster, {COUNT: "6"})
    seen = []

    def churn(number: int) -> None:
        for round_ in range(8):
            name = f"m{number}-{round_}"
            if cluster.post(CM, _map(name)).status == 201:
                seen.append(len(cluster.get(CM).json["items"]))
                assert cluster.delete(f"{CM}/{name}").status == 200

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(churn, range(8)))
    assert seen
    assert max(seen) <= 6
    eventually(lambda: _used(cluster)[COUNT] == "1")


def test_deletion_gives_back(cluster: TestClient) -> None:
    _quota(cluster, {COUNT: "2"})
    assert cluster.post(CM, _map("one")).status == 201
    assert cluster.post(CM, _map("two")).status == 403
    assert cluster.delete(f"{CM}/one").status == 200
    eventually(lambda: cluster.post(CM, _map("two")).status == 201)
    eventually(lambda: _used(cluster)[COUNT] == "2")


def test_all_quotas_of_a_namespace_count(cluster: TestClient) -> None:
    """The narrowest decides; a refusal charges none of them."""
    _quota(cluster, {COUNT: "9"}, "wide")
    _quota(cluster, {COUNT: "2"}, "narrow")
    assert cluster.post(CM, _map("one")).status == 201
    refused = cluster.post(CM, _map("two"))
    assert "exceeded quota: narrow," in refused.json["message"]
    assert _used(cluster, "wide")[COUNT] == _used(cluster, "narrow")[COUNT] == "2"


def test_custom_kinds_are_counted_from_their_first_object(cluster: TestClient) -> None:
    """A quota may name a kind before it exists."""
    name = "count/widgets.example.com"
    _quota(cluster, {name: "1"})
    eventually(lambda: _used(cluster) == {name: "0"})
    assert cluster.post(CRDS, _widgets()).status == 201
    body = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}}
    eventually(lambda: cluster.get(WIDGETS).status == 200)
    assert cluster.post(WIDGETS, body).status == 201
    assert _used(cluster) == {name: "1"}
    refused = cluster.post(WIDGETS, {**body, "metadata": {"name": "v"}})
    assert refused.json["message"] == (
        'widgets.example.com "v" is forbidden: exceeded quota: q, '
        f"requested: {name}=1, used: {name}=1, limited: {name}=1"
    )
    assert cluster.delete(f"{CRDS}/widgets.example.com").status == 200
    eventually(lambda: _used(cluster) == {name: "0"})


def test_quotas_are_of_one_namespace_in_one_cluster(shard: ServerProcess) -> None:
    one, two = make_cluster(shard, "quota-one"), make_cluster(shard, "quota-two")
    _quota(one, {COUNT: "1"})
    assert one.post(CM, _map("m")).status == 403
    assert two.post(CM, _map("m")).status == 201
    assert one.post("/api/v1/namespaces", {"metadata": {"name": "other"}}).status == 201
    assert one.post(CM.replace("default", "other"), _map("m")).status == 201


def test_changes_of_the_quota_count_at_once(cluster: TestClient) -> None:
    _quota(cluster, {COUNT: "1"})
    assert cluster.post(CM, _map("m")).status == 403
    assert cluster.patch(f"{QUOTAS}/q", {"spec": {"hard": {COUNT: "2"}}}).status == 200
    assert cluster.post(CM, _map("m")).status == 201
    eventually(lambda: cluster.get(f"{QUOTAS}/q").json["status"]["hard"] == {COUNT: "2"})
    hard = {"spec": {"hard": {COUNT: None, "count/secrets": "1"}}}
    assert cluster.patch(f"{QUOTAS}/q", hard).status == 200
    assert cluster.post(CM, _map("n")).status == 201
    eventually(lambda: _used(cluster) == {"count/secrets": "0"})
    assert cluster.delete(f"{QUOTAS}/q").status == 200
    assert cluster.post(CM, _map("o")).status == 201


def test_a_status_written_by_hand_is_put_right(cluster: TestClient) -> None:
    _quota(cluster, {COUNT: "9"})
    eventually(lambda: _used(cluster) == {COUNT: "1"})
    status = {"status": {"used": {COUNT: "9"}}}
    assert cluster.patch(f"{QUOTAS}/q/status", status).status == 200
    assert cluster.post(CM, _map("m")).status == 403
    eventually(lambda: _used(cluster) == {COUNT: "1"})
    assert cluster.post(CM, _map("m")).status == 201


def test_bare_names_of_core_kinds_count_too(cluster: TestClient) -> None:
    """As in Kubernetes; bare names of kinds that nobody has limit nothing, nor do events."""
    _quota(cluster, {"configmaps": "2", "count/events": "0", "pods": "0"})
    eventually(lambda: _used(cluster) == {"configmaps": "1"})
    assert cluster.post(CM, _map("m")).status == 201
    refused = cluster.post(CM, _map("n"))
    assert refused.status == 403
    assert (
        "requested: configmaps=1, used: configmaps=2, limited: configmaps=2"
        in refused.json["message"]
    )
    event = {
        "metadata": {"name": "e"},
        "involvedObject": {"kind": "ConfigMap", "name": "m", "namespace": "default"},
    }
    assert cluster.post("/api/v1/namespaces/default/events", event).status == 201


def test_usage_is_found_again_after_a_crash() -> None:
    """Deletions that nobody had time to count before the process died."""
    with server() as shard:
        client = make_cluster(shard, "crash")
        _quota(client, {COUNT: "20"})
        for number in range(10):
            assert client.post(CM, _map(f"m{number}")).status == 201
        for number in range(10):
            assert client.delete(f"{CM}/m{number}").status == 200
        shard.kill()
        shard.start()
        again = shard.client(cluster="crash")
        eventually(lambda: _used(again) == {COUNT: "1"})


def test_a_quota_for_a_whole_logical_cluster(cluster: TestClient) -> None:
    """In the namespace `admin`, with kcp's annotation: all namespaces and what is in none."""
    assert cluster.post("/api/v1/namespaces", {"metadata": {"name": "admin"}}).status == 201
    quota = {
        "metadata": {
            "name": "wide",
            "annotations": {"experimental.quota.kcp.io/cluster-scoped": "true"},
        },
        "spec": {
            "hard": {
                "count/configmaps": "3",
                "count/clusterroles.rbac.authorization.k8s.io": "1",
            }
        },
    }
    path = "/api/v1/namespaces/admin/resourcequotas"
    eventually(
        lambda: len(cluster.get("/api/v1/configmaps").json["items"]) == 2  # one CA each
    )
    assert cluster.post(path, quota).status == 201

    def used() -> dict[str, str]:
        found: dict[str, str] = cluster.get(f"{path}/wide").json["status"].get("used") or {}
        return found

    roles = "count/clusterroles.rbac.authorization.k8s.io"
    eventually(lambda: used() == {"count/configmaps": "2", roles: "0"})
    maps = "/api/v1/namespaces/default/configmaps"
    assert cluster.post(maps, {"metadata": {"name": "third"}}).status == 201
    refused = cluster.post(maps, {"metadata": {"name": "fourth"}})
    assert refused.status == 403
    assert "exceeded quota: wide" in refused.json["message"]
    api = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
    assert cluster.post(api, {"metadata": {"name": "one"}}).status == 201
    assert cluster.post(api, {"metadata": {"name": "two"}}).status == 403
    assert used() == {"count/configmaps": "3", roles: "1"}
    assert cluster.delete(f"{maps}/third").status == 200
    eventually(lambda: used()["count/configmaps"] == "2")
    change = {"metadata": {"annotations": {"experimental.quota.kcp.io/cluster-scoped": None}}}
    assert cluster.patch(f"{path}/wide", change).status == 200
    eventually(lambda: used() == {"count/configmaps": "1", roles: "0"})
    assert cluster.post(api, {"metadata": {"name": "two"}}).status == 201
