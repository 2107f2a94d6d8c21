"""Aggregated ClusterRoles follow the roles they select."""

from __future__ import annotations

from pykcp.testing.client import MERGE, TestClient, eventually
from pykcp.testing.server import ServerProcess

ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
GET = {"verbs": ["get"], "apiGroups": [""], "resources": ["configmaps"]}
LIST = {"verbs": ["list"], "apiGroups": [""], "resources": ["secrets"]}


def _role(client: TestClient, name: str, rules: list[object], **labels: str) -> None:
    body = {"metadata": {"name": name, "labels": labels}, "rules": rules}
    assert client.post(ROLES, body).status == 201


def _sum(client: TestClient, name: str = "sum") -> None:
    selectors = [{"matchLabels": {"part": "yes"}}]
    body = {"metadata": {"name": name}, "aggregationRule": {"clusterRoleSelectors": selectors}}
    assert client.post(ROLES, body).status == 201


def _has(client: TestClient, name: str, *rules: object) -> bool:
    return bool((client.get(f"{ROLES}/{name}").json.get("rules") or []) == list(rules))


def test_rules_come_and_go_with_the_parts(cluster: TestClient) -> None:
    _role(cluster, "b", [LIST, GET], part="yes")
    _role(cluster, "z", [LIST], part="no")
    _sum(cluster)
    eventually(lambda: _has(cluster, "sum", LIST, GET))
    _role(cluster, "a", [GET], part="yes")
    eventually(lambda: _has(cluster, "sum", GET, LIST))
    cluster.patch(f"{ROLES}/b", {"rules": [GET]}, MERGE)
    eventually(lambda: _has(cluster, "sum", GET))
    cluster.delete(f"{ROLES}/a")
    cluster.delete(f"{ROLES}/b")
    eventually(lambda: _has(cluster, "sum"))


def test_rules_are_applied_by_the_controller(cluster: TestClient) -> None:
    _role(cluster, "a", [GET], part="yes")
    _sum(cluster)
    eventually(lambda: _has(cluster, "sum", GET))
    managed = cluster.get(f"{ROLES}/sum").json["metadata"]["managedFields"]
    entry = next(m for m in managed if m["manager"] == "clusterrole-aggregation-controller")
    assert entry["operation"] == "Apply"
    assert entry["fieldsV1"] == {"f:rules": {}}
    cluster.patch(f"{ROLES}/sum", {"rules": [LIST]}, MERGE)
    eventually(lambda: _has(cluster, "sum", GET))


def test_bootstrap_roles_aggregate_in_their_own_cluster(
    shard: ServerProcess, cluster: TestClient
) -> None:
    """A role in another cluster adds nothing to `view`, one beside it does."""
    admin = shard.client(cluster="system:admin")
    rule = {"verbs": ["get"], "apiGroups": ["example.com"], "resources": ["widgets"]}
    label = {"rbac.authorization.k8s.io/aggregate-to-view": "true"}
    _role(cluster, "widgets", [rule], **label)
    _sum(cluster, "view-like")
    _role(admin, "widgets", [rule], **label)
    eventually(lambda: rule in admin.get(f"{ROLES}/view").json["rules"])
    admin.delete(f"{ROLES}/widgets")
    eventually(lambda: rule not in admin.get(f"{ROLES}/view").json["rules"])
