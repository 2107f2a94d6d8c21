"""The total number of objects of a logical cluster, on a running server."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from pykcp.testing.client import Reply, TestClient, eventually
from pykcp.testing.clusters import make_cluster
from pykcp.testing.rights import grant
from pykcp.testing.server import ServerProcess, server
from pykcp.types import Object

CM = "/api/v1/namespaces/default/configmaps"
EVENTS = "/api/v1/namespaces/default/events"
LC = "/apis/core.kcp.io/v1alpha1/logicalclusters/cluster"
BINDINGS = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
ANNOTATION = "core.kcp.io/max-total-objects"
LIMIT = 12
STOCK = 4
"""What a cluster begins with: itself, a namespace, a service account, the published CA."""

_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def limited() -> Iterator[ServerProcess]:
    with server(f"--logical-cluster-total-object-limit={LIMIT}") as process:
        yield process


@pytest.fixture
def client(limited: ServerProcess) -> TestClient:
    """system:masters in a cluster that is ready and holds what it begins with."""
    made = make_cluster(limited, f"limited{next(_numbers)}")
    _settle(made)
    return made


def _settle(client: TestClient) -> None:
    eventually(lambda: client.get(f"{CM}/kube-root-ca.crt").status == 200)
    accounts = "/api/v1/namespaces/default/serviceaccounts/default"
    eventually(lambda: client.get(accounts).status == 200)
    eventually(lambda: client.get(LC).json["status"]["phase"] == "Ready")


def _map(name: str) -> Object:
    return {"metadata": {"name": name}}


def _annotate(client: TestClient, value: str | None) -> None:
    assert client.patch(LC, {"metadata": {"annotations": {ANNOTATION: value}}}).status == 200


def _fill(client: TestClient) -> int:
    """Create until it is refused; how many there was room for."""
    for number in range(100):
        made = client.post(CM, _map(f"fill{number}"))
        if made.status == 403:
            return number
        assert made.status == 201
    return 100


def test_refusal_names_cluster_count_and_limit(client: TestClient) -> None:
    assert _fill(client) == LIMIT - STOCK
    refused = client.post(CM, _map("more"))
    name = client.prefix.rpartition("/")[2]
    assert refused.status == 403
    assert refused.json["reason"] == "Forbidden"
    assert refused.json["message"] == (
        f'configmaps "more" is forbidden: logical cluster "{name}" has reached its total object '
        f"count limit ({LIMIT}/{LIMIT} objects); delete objects to free up capacity"
    )
    assert client.post(CM, _map("more"), dryRun="All").status == 403
    assert client.patch(f"{CM}/fill0", {"data": {"a": "1"}}).status == 200


def test_deletion_makes_room_at_once(client: TestClient) -> None:
    _fill(client)
    for _ in range(3):
        assert client.delete(f"{CM}/fill0").status == 200
        assert client.post(CM, _map("fill0")).status == 201
        assert client.post(CM, _map("more")).status == 403


def test_concurrent_creates_do_not_overshoot(client: TestClient) -> None:
    """And creates that fail for another reason take nobody's place."""

    def create(number: int) -> int:
        return client.post(CM, _map(f"m{number % 30}")).status

    with ThreadPoolExecutor(16) as threads:
        answers = list(threads.map(create, range(60)))
    assert answers.count(201) == LIMIT - STOCK
    assert len(client.get(CM).json["items"]) == LIMIT - STOCK + 1
    assert set(answers) <= {201, 403, 409}


def test_events_and_the_admin_binding_are_exempt(client: TestClient) -> None:
    _fill(client)
    event = {
        "metadata": {"name": "e"},
        "involvedObject": {"kind": "ConfigMap", "name": "m", "namespace": "default"},
    }
    assert client.post(EVENTS, event).status == 201
    binding = {
        "metadata": {"name": "workspace-admin"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "x"},
    }
    assert client.post(BINDINGS, {**binding, "metadata": {"name": "other"}}).status == 403
    assert client.post(BINDINGS, binding).status == 201


@pytest.mark.parametrize(
    ("annotation", "room"),
    [("6", 2), ("20", 16), ("0", 100), ("-1", 100), ("many", LIMIT - STOCK), ("", LIMIT - STOCK)],
)
def test_the_annotation_decides(client: TestClient, annotation: str, room: int) -> None:
    """A number overrides the shard's default, 0 and less lift it, nonsense changes nothing."""
    _annotate(client, annotation)
    assert _fill(client) == room


def test_a_changed_limit_holds_at_once(client: TestClient) -> None:
    _annotate(client, "5")
    assert _fill(client) == 1
    _annotate(client, "6")
    assert client.post(CM, _map("six")).status == 201
    assert client.post(CM, _map("seven")).status == 403
    _annotate(client, "3")
    refused = client.post(CM, _map("seven"))
    assert "(6/3 objects)" in refused.json["message"]
    _annotate(client, None)
    assert client.post(CM, _map("seven")).status == 201


def test_not_before_the_cluster_is_ready(limited: ServerProcess) -> None:
    client = make_cluster(limited, "beginning", initializers=["root:slow"])
    eventually(lambda: client.get(LC).json["status"].get("initializers"))
    for number in range(LIMIT + 3):
        assert client.post(CM, _map(f"m{number}")).status == 201
    assert client.patch(f"{LC}/status", {"status": {"initializers": []}}).status == 200
    eventually(lambda: client.get(LC).json["status"]["phase"] == "Ready")
    assert client.post(CM, _map("more")).status == 403


def test_root_has_no_default_limit(limited: ServerProcess) -> None:
    root = limited.client(cluster="root")
    for number in range(LIMIT + 3):
        assert root.post(CM, _map(f"m{number}")).status == 201


def test_clusters_have_a_limit_each(limited: ServerProcess) -> None:
    one, two = make_cluster(limited, "each1"), make_cluster(limited, "each2")
    _settle(one)
    _settle(two)
    assert _fill(one) == _fill(two) == LIMIT - STOCK


def test_the_count_is_right_after_a_restart() -> None:
    with server(f"--logical-cluster-total-object-limit={LIMIT}") as process:
        client = make_cluster(process, "again")
        _settle(client)
        _fill(client)
        assert client.delete(f"{CM}/fill0").status == 200
        process.kill()
        process.start()
        again = process.client(cluster="again")
        assert again.post(CM, _map("one")).status == 201
        assert again.post(CM, _map("two")).status == 403


def test_nearly_full_clusters_are_in_the_metrics(
    limited: ServerProcess, client: TestClient
) -> None:
    """From nine tenths on, and no others: labels must stay few."""
    name = client.prefix.rpartition("/")[2]

    def shown() -> list[str]:
        lines = limited.client().get("/metrics").body.decode().splitlines()
        return [line for line in lines if f'cluster="{name}"' in line]

    for number in range(LIMIT - STOCK - 2):
        assert client.post(CM, _map(f"m{number}")).status == 201
    assert shown() == []
    assert client.post(CM, _map("nine-tenths")).status == 201
    label = f'{{shard="root",cluster="{name}"}}'
    assert shown() == [
        f"kcp_logicalcluster_object_count{label} {LIMIT - 1}",
        f"kcp_logicalcluster_object_limit{label} {LIMIT}",
    ]
    assert client.delete(f"{CM}/nine-tenths").status == 200
    assert shown() == []


def test_tenants_do_not_lift_the_limit(client: TestClient, limited: ServerProcess) -> None:
    """They may change other annotations of their LogicalCluster, and in kcp's way this one, too."""
    grant(client, "alice", "*", "logicalclusters", "core.kcp.io")
    alice = {"Impersonate-User": "alice", "Impersonate-Group": "system:authenticated"}

    def annotate(tenant: TestClient, key: str, value: str | None) -> Reply:
        return tenant.patch(LC, {"metadata": {"annotations": {key: value}}}, headers=alice)

    eventually(lambda: annotate(client, "mine", "yes").status == 200)
    _annotate(client, "20")
    for value in ("0", "1000", "1", None):
        refused = annotate(client, ANNOTATION, value)
        assert refused.status == 403, refused
        assert refused.json["message"].endswith(
            f"metadata.annotations[{ANNOTATION}] can only be changed by system privileged users"
        )
    admin = limited.client("base")  # kcp-admin, who administers the installation
    admin.prefix = client.prefix
    _annotate(admin, "30")
    flags = ("--logical-cluster-total-object-limit=20", "--logical-cluster-object-limit-by-tenants")
    with server(*flags) as process:
        other = make_cluster(process, "others")
        grant(other, "alice", "*", "logicalclusters", "core.kcp.io")
        eventually(lambda: annotate(other, ANNOTATION, "0").status == 200)
