"""Home workspaces: everybody's own, made when it is first asked for."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator

import pytest

from pykcp.machinery.kcp.hashes import home_cluster_name
from pykcp.testing.client import Reply, TestClient, eventually
from pykcp.testing.server import ServerProcess, server

HOME = "/apis/tenancy.kcp.io/v1alpha1/workspaces/~"
LOGICAL_CLUSTER = "/apis/core.kcp.io/v1alpha1/logicalclusters/cluster"
BINDINGS = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"


def arrive(client: TestClient, shard: ServerProcess, user: str) -> Reply:
    """Ask until the home is there, as clients do; the initializers are done by hand."""
    inside = shard.client(cluster=home_cluster_name(user))

    def ask() -> Reply | None:
        reply = client.get(HOME)
        if reply.status != 429:
            return reply
        assert reply.body == b"Creating the home workspace\n"
        assert reply.header("retry-after") == "1"
        return None

    first = client.get(HOME)
    if first.status == 429:
        status = inside.get(LOGICAL_CLUSTER).json["status"]
        if status["phase"] == "Initializing":
            inside.patch(
                f"{LOGICAL_CLUSTER}/status",
                {"status": {"phase": "Ready", "initializers": None, "URL": "https://x.example"}},
            )
    reply: Reply = eventually(ask)
    return reply


def test_a_home_is_made_and_found(shard: ServerProcess, alice: TestClient) -> None:
    """It looks like a workspace, and its owner may do everything in it."""
    reply = arrive(alice, shard, "alice")
    assert reply.status == 200, reply
    home = reply.json
    name = home_cluster_name("alice")
    assert (home["apiVersion"], home["kind"]) == ("tenancy.kcp.io/v1alpha1", "Workspace")
    assert home["metadata"]["name"] == "cluster"
    assert home["metadata"]["creationTimestamp"]
    assert home["spec"]["cluster"] == name
    assert home["spec"]["URL"]
    assert home["status"]["phase"] == "Ready"
    assert home == alice.get(HOME).json
    inside = shard.client(cluster="user:alice").with_token("alice-token")
    assert inside.get(BINDINGS).status == 200
    cluster = inside.get(LOGICAL_CLUSTER).json
    annotations = cluster["metadata"]["annotations"]
    assert annotations["kcp.io/cluster"] == name
    assert annotations["kcp.io/path"] == "user:alice"
    assert annotations["internal.tenancy.kcp.io/type"] == "root:home"
    assert cluster["spec"]["createdBy"]["username"] == "alice"
    assert cluster["spec"]["initializers"] == ["root:universal", "system:apibindings"]


def test_a_home_is_private(shard: ServerProcess, alice: TestClient, bob: TestClient) -> None:
    arrive(alice, shard, "alice")
    arrive(bob, shard, "bob")
    for cluster in ("user:alice", home_cluster_name("alice")):
        assert bob.in_cluster(cluster).get("/api/v1/namespaces").status == 403


def test_strangers_have_no_home(shard: ServerProcess, root: TestClient) -> None:
    """Only members of the groups that may have one."""
    stranger = root.with_token("")
    reply = stranger.get(HOME)
    assert reply.status == 403
    assert reply.json["message"] == (
        'workspaces.tenancy.kcp.io "~" is forbidden: User "system:anonymous" cannot create '
        'resource "workspaces" in API group "tenancy.kcp.io" at the cluster scope: '
        "workspace access not permitted"
    )


def test_an_impersonated_user_gets_their_own(shard: ServerProcess, root: TestClient) -> None:
    headers = {"Impersonate-User": "carol", "Impersonate-Group": "system:authenticated"}
    assert root.get(HOME, headers=headers).status in {200, 429}
    inside = shard.client(cluster=home_cluster_name("carol"))
    assert inside.get(LOGICAL_CLUSTER).json["spec"]["createdBy"]["username"] == "carol"


@pytest.fixture(scope="module")
def homeless(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    directory: pathlib.Path = tmp_path_factory.mktemp("homeless")
    with server("--enable-home-workspaces=false", directory=directory) as process:
        yield process


def test_homes_can_be_switched_off(homeless: ServerProcess) -> None:
    """Then `~` is a name like any other."""
    reply = homeless.client(cluster="root").get(HOME)
    assert reply.status == 404
    assert reply.json["message"] == 'workspaces.tenancy.kcp.io "~" not found'
