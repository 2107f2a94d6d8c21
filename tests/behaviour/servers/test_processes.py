"""`--serving-processes`: every process shows what any process has acknowledged."""

from __future__ import annotations

import itertools
import pathlib
import random
import re
import socket
import time
from contextlib import ExitStack
from dataclasses import replace

import pytest

from pykcp.auth.certificates import KeyPair, issue_client
from pykcp.testing.client import TestClient, eventually
from pykcp.testing.clusters import make_cluster
from pykcp.testing.processes import read_metrics
from pykcp.testing.server import ServerProcess
from pykcp.types import Object

Clients = dict[str, TestClient]
MAPS = "/api/v1/namespaces/default/configmaps"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
_numbers = itertools.count(1)


@pytest.fixture
def everywhere(shard: ServerProcess, clients: Clients) -> Clients:
    """The clients of all processes in a logical cluster of the test's own."""
    cluster = f"processes{next(_numbers)}"
    make_cluster(shard, cluster).drop()
    for client in clients.values():
        client.prefix = f"/clusters/{cluster}"
    return clients


def config_map(name: str, **data: str) -> Object:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def test_a_write_through_any_process_is_read_in_all(everywhere: Clients) -> None:
    for writer, client in everywhere.items():
        made = client.post(MAPS, config_map(writer, value="1"))
        assert made.status == 201, made
        for reader in everywhere.values():
            assert reader.get(f"{MAPS}/{writer}").body == made.body
            names = [one["metadata"]["name"] for one in reader.get(MAPS).json["items"]]
            assert writer in names
        assert client.delete(f"{MAPS}/{writer}").status == 200
        for reader in everywhere.values():
            assert reader.get(f"{MAPS}/{writer}").status == 404


def test_random_clients_never_read_older_than_acknowledged(everywhere: Clients) -> None:
    choose = random.Random(13)
    clients = list(everywhere.values())
    clients[0].post(MAPS, config_map("counter", value="0"))
    versions: list[int] = []
    for number in range(1, 300):
        body = {"data": {"value": str(number)}}
        changed = choose.choice(clients).patch(f"{MAPS}/counter", body)
        assert changed.status == 200, changed
        versions.append(int(changed.json["metadata"]["resourceVersion"]))
        reader = choose.choice(clients)
        found = reader.get(f"{MAPS}/counter").json
        assert found["data"]["value"] == str(number)
        listed = reader.get(MAPS, resourceVersion=versions[-1]).json
        assert int(listed["metadata"]["resourceVersion"]) >= versions[-1]
    assert versions == sorted(versions)


def test_a_watch_in_any_process_gets_every_event_once_and_in_order(everywhere: Clients) -> None:
    listed = everywhere["writer"].get(MAPS).json
    since = listed["metadata"]["resourceVersion"]
    watches = [
        client.watch(MAPS, resourceVersion=since, timeoutSeconds=30, labelSelector="watched")
        for client in everywhere.values()
    ]
    made = config_map("first")
    made["metadata"]["labels"] = {"watched": ""}
    assert everywhere["writer"].post(MAPS, made).status == 201
    for watch in watches:  # a generator opens its watch when it is first asked
        assert next(watch)["object"]["metadata"]["name"] == "first"
    for number, client in enumerate(itertools.islice(itertools.cycle(everywhere.values()), 30)):
        made["metadata"]["name"] = f"event{number}"
        assert client.post(MAPS, made).status == 201
    expected = [f"event{number}" for number in range(30)]
    for watch in watches:
        seen = [event["object"]["metadata"]["name"] for event in itertools.islice(watch, 30)]
        assert seen == expected
        watch.close()


def test_permissions_count_at_once_in_all_processes(
    shard: ServerProcess, everywhere: Clients
) -> None:
    master = everywhere["writer"]
    as_ann = {"headers": {"Impersonate-User": "ann"}}
    for client in everywhere.values():
        assert client.get(MAPS, **as_ann).status == 403
    subject = {"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "ann"}
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "ann"},
        "subjects": [subject],
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "ClusterRole",
            "name": "cluster-admin",
        },
    }
    for _ in range(5):
        assert master.post(f"{RBAC}/clusterrolebindings", binding).status == 201
        for client in everywhere.values():
            assert client.get(MAPS, **as_ann).status == 200
        assert master.delete(f"{RBAC}/clusterrolebindings/ann").status == 200
        for client in everywhere.values():
            assert client.get(MAPS, **as_ann).status == 403


def test_a_custom_resource_that_is_established_is_served_by_all(everywhere: Clients) -> None:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"}
    crd = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.io"},
        "spec": {
            "group": "example.io",
            "scope": "Namespaced",
            "names": names,
            "versions": [version],
        },
    }
    first = everywhere["follower-1"]
    assert first.post(CRDS, crd).status == 201
    eventually(lambda: _is_established(first))
    for client in everywhere.values():
        assert client.get("/apis/example.io/v1/namespaces/default/widgets").status == 200
        groups = [one["name"] for one in client.get("/apis").json["groups"]]
        assert "example.io" in groups


def _is_established(client: TestClient) -> bool:
    status = client.get(f"{CRDS}/widgets.example.io").json.get("status") or {}
    conditions = {one["type"]: one["status"] for one in status.get("conditions") or ()}
    return conditions.get("Established") == "True"


def test_what_a_follower_hands_over_has_its_own_client(everywhere: Clients) -> None:
    """The writer sees the user's token, not the follower, and no client can pretend to be one."""
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    for client in everywhere.values():
        path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
        forged = {"x-pykcp-peer": "1 HTTP/2.0 1 10.0.0.1 -"}
        user = client.post(path, review, headers=forged).json["status"]["userInfo"]
        assert user["username"] == "shard-admin"
        without = client.with_token("")
        assert without.post(path, review, headers=forged).status in (401, 403)
        without.close()


def test_a_client_certificate_counts_in_every_process(
    shard: ServerProcess, everywhere: Clients, tmp_path: pathlib.Path
) -> None:
    ca = KeyPair(*(shard.root.joinpath(f"client-ca.{end}").read_bytes() for end in ("crt", "key")))
    pair = issue_client(ca, "cert-user", ["system:kcp:logical-cluster-admin"], time.time())
    files = tmp_path / "client.crt", tmp_path / "client.key"
    files[0].write_bytes(pair.certificate)
    files[1].write_bytes(pair.key)
    access = replace(shard.client().access, token="", certificate=(str(files[0]), str(files[1])))
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    opened = [TestClient(access, "root") for _ in range(6)]  # some in each process
    for client in opened:
        path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
        user = client.post(path, review).json["status"]["userInfo"]
        assert user["username"] == "cert-user"
        assert "system:kcp:logical-cluster-admin" in user["groups"]
        assert "Forbidden" not in client.get("/apis").body.decode()
    for client in opened:
        client.close()


def test_a_home_workspace_is_made_by_reading_it_in_any_process(clients: Clients) -> None:
    for name, client in clients.items():
        as_user = {"Impersonate-User": f"home-{name}", "Impersonate-Group": "system:authenticated"}
        path = "/apis/tenancy.kcp.io/v1alpha1/workspaces/~"
        eventually(lambda: client.get(path, headers=as_user).status == 200)  # noqa: B023


def test_every_answer_has_one_audit_id(everywhere: Clients) -> None:
    for client in everywhere.values():
        for answer in (client.get(MAPS), client.post(MAPS, config_map("nameless" * 100))):
            assert len(answer.header_all("Audit-Id")) == 1
            assert len(answer.header_all("Date")) == 1


def test_connections_that_come_at_once_are_spread(shard: ServerProcess, clients: Clients) -> None:
    """A client that opens several connections does so faster than they are served.

    Each goes to the process that has the fewest. Some of earlier tests, and those that ask for the
    numbers, are about to be closed and count until they are: there are far more of these here.
    """
    address = (shard.client().access.host, shard.port)
    count = 10 * len(clients)
    with ExitStack() as opened:
        for _ in range(count):
            opened.enter_context(socket.create_connection(address))
        eventually(lambda: sum(open_connections(shard).values()) >= count)
        assert max(open_connections(shard).values()) <= count / 2, "most went to one process"


def open_connections(shard: ServerProcess) -> dict[str, int]:
    found = re.findall(
        r'^pykcp_connections\{process="([^"]+)"\} (\d+)', read_metrics(shard), re.MULTILINE
    )
    return {name: int(count) for name, count in found}
