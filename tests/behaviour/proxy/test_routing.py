"""Requests through the front-proxy reach the logical cluster that they name."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pykcp.testing.client import TestClient, eventually
from pykcp.testing.front_proxy import FrontProxyProcess, proxied_shard
from pykcp.testing.workspaces import WORKSPACES, make_workspace

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


@pytest.fixture(scope="module")
def proxy() -> Iterator[FrontProxyProcess]:
    with proxied_shard() as process:
        yield process


@pytest.fixture
def root(proxy: FrontProxyProcess) -> TestClient:
    return proxy.admin("root")


def test_a_workspace_is_reached_by_its_path_and_by_its_name(root: TestClient) -> None:
    made = make_workspace(root, "team")
    by_path = root.in_cluster("root:team")
    assert by_path.post(CONFIG_MAPS, {"metadata": {"name": "one"}}).status == 201
    by_name = root.in_cluster(made["spec"]["cluster"])
    assert by_name.get(f"{CONFIG_MAPS}/one").status == 200


def test_users_are_known_by_their_certificates(proxy: FrontProxyProcess) -> None:
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    reply = proxy.admin("root").post(path, review)
    assert reply.status == 201, reply
    user = reply.json["status"]["userInfo"]
    assert user["username"] == "kcp-admin"
    assert user["groups"] == ["system:authenticated", "system:kcp:admin"]


def test_a_deleted_workspace_is_forgotten(root: TestClient) -> None:
    make_workspace(root, "gone")
    inside = root.in_cluster("root:gone")
    assert inside.get(CONFIG_MAPS).status == 200
    assert root.delete(f"{WORKSPACES}/gone").status == 200
    eventually(lambda: root.get(f"{WORKSPACES}/gone").status == 404)
    assert eventually(lambda: inside.get(CONFIG_MAPS).status == 403)
    made = make_workspace(root, "gone")
    assert inside.get(CONFIG_MAPS).status == 200
    assert root.in_cluster(made["spec"]["cluster"]).get(CONFIG_MAPS).status == 200


def test_unknown_clusters_are_forbidden(root: TestClient) -> None:
    for cluster in ("root:nowhere", "nowhere", "root:nowhere:below", "*", "Root", "a:", "system:x"):
        reply = root.in_cluster(cluster).get(CONFIG_MAPS)
        assert reply.status == 403, (cluster, reply)
        assert reply.json["reason"] == "Forbidden"
        assert reply.json["message"].endswith("access denied")


def test_watches_go_through(root: TestClient) -> None:
    make_workspace(root, "watched")
    inside = root.in_cluster("root:watched")
    events = inside.watch(CONFIG_MAPS)
    names = []
    assert inside.post(CONFIG_MAPS, {"metadata": {"name": "seen"}}).status == 201
    for event in events:
        names.append(event["object"]["metadata"]["name"])
        if names[-1] == "seen":
            break
    events.close()
    assert "seen" in names


def test_services_are_mapped(root: TestClient, proxy: FrontProxyProcess) -> None:
    client = proxy.admin()
    client.prefix = "/services"
    answer = client.get("/apiexport/root/nothing/clusters/*/api")
    assert b"API export not found" in answer.body, answer  # so says the shard
    client.prefix = "/nothing"
    assert client.get("/here").status == 404


def test_health_and_metrics(proxy: FrontProxyProcess) -> None:
    for path in ("/livez", "/readyz", "/healthz"):
        assert proxy.client().get(path).body == b"ok"
    assert proxy.client().get("/metrics").status == 401
    assert proxy.client("alice").get("/metrics").status == 403
    shown = proxy.admin().get("/metrics")
    assert shown.status == 200
    assert b"pykcp_proxy_routes" in shown.body
