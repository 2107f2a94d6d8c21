"""How one gets into a workspace: by name, by path, or not at all."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator

import pytest

from pykcp.testing.client import Reply, TestClient, eventually
from pykcp.testing.clusters import bind, make_cluster
from pykcp.testing.server import ServerProcess, server
from pykcp.testing.workspaces import LOGICAL_CLUSTER, WORKSPACES
from pykcp.types import Object

MAPS = "/api/v1/namespaces/default/configmaps"
INACTIVE = "core.kcp.io/inactive"

_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def shard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server without controllers: workspaces stay as the tests make them."""
    directory = tmp_path_factory.mktemp("entering")
    tokens = directory / "tokens.csv"
    tokens.write_text("bob-token,bob,b1\n")
    flags = ("--run-controllers=false", f"--token-auth-file={tokens}")
    with server(*flags, directory=directory) as process:
        root = process.client(cluster="root")
        root.patch(f"{LOGICAL_CLUSTER}/status", {"status": {"phase": "Ready"}})
        yield process


def a_workspace(root: TestClient, cluster: str = "", **more: Object) -> str:
    """A Workspace in root as its controller would leave it; its name."""
    name = f"entering{next(_numbers)}"
    spec: Object = {"type": {"name": "universal", "path": "root"}, **more.pop("spec", {})}
    if cluster:
        spec |= {"cluster": cluster, "URL": f"https://x.example/clusters/root:{name}"}
    made = root.post(
        WORKSPACES,
        {
            "apiVersion": "tenancy.kcp.io/v1alpha1",
            "kind": "Workspace",
            "metadata": {"name": name, **more.pop("metadata", {})},
            "spec": spec,
        },
    )
    assert made.status == 201, made
    return name


def mark(cluster: TestClient, value: str | None) -> None:
    patch = {"metadata": {"annotations": {INACTIVE: value}}}
    assert cluster.patch(LOGICAL_CLUSTER, patch).status == 200


def is_inactive(reply: Reply, name: str) -> bool:
    message = (
        f'logicalclusters.core.kcp.io "{name}" is forbidden: logical cluster is marked inactive'
    )
    return reply.status == 403 and reply.json["message"] == message


def test_a_path_and_a_name_lead_to_the_same(shard: ServerProcess, root: TestClient) -> None:
    inside = make_cluster(shard, "sameplace")
    name = a_workspace(root, "sameplace")
    assert inside.post(MAPS, {"metadata": {"name": "x"}}).status == 201
    by_path = shard.client(cluster=f"root:{name}")
    assert by_path.get(f"{MAPS}/x").json["metadata"]["annotations"] == {
        "kcp.io/cluster": "sameplace"
    }


def test_paths_that_lead_nowhere(shard: ServerProcess) -> None:
    for path in ("root:nosuch", "root:nosuch:deeper", "nosuch:nosuch", "user:nobody"):
        reply = shard.client(cluster=path).get("/api/v1/namespaces")
        assert reply.status == 404, reply
        assert reply.json["message"] == f'workspaces.tenancy.kcp.io "{path}" not found'


def test_who_may_read_workspaces_learns_that_there_is_none(
    shard: ServerProcess, root: TestClient
) -> None:
    """Everybody who is somebody may look around in root."""
    bob = root.in_cluster("root:nosuch").with_token("bob-token")
    assert bob.get("/api").json["message"] == 'workspaces.tenancy.kcp.io "root:nosuch" not found'
    assert root.in_cluster("root:nosuch").with_token("nonsense").get("/api").status == 401


def test_strangers_cannot_tell_what_there_is(shard: ServerProcess, root: TestClient) -> None:
    """Whatever is at a path below a workspace that one may not enter: the answer is the same,
    to the byte."""
    vault = make_cluster(shard, "vault")
    vault.patch(f"{LOGICAL_CLUSTER}/status", {"status": {"phase": "Ready"}})
    bind(vault, root, "tenancy.kcp.io")
    vault.patch(
        LOGICAL_CLUSTER,
        {"metadata": {"annotations": {"internal.tenancy.kcp.io/type": "root:universal"}}},
    )
    above = a_workspace(root, "vault")
    there = make_cluster(shard, "treasure")
    there.patch(f"{LOGICAL_CLUSTER}/status", {"status": {"phase": "Ready"}})
    asleep = make_cluster(shard, "dragon")
    asleep.patch(f"{LOGICAL_CLUSTER}/status", {"status": {"phase": "Ready"}})
    mark(asleep, "true")
    names = {
        "there": a_workspace(vault, "treasure"),
        "asleep": a_workspace(vault, "dragon"),
        "elsewhere": a_workspace(
            vault, "lives-away", metadata={"annotations": {"core.kcp.io/shard": "amber"}}
        ),
        "away": a_workspace(vault, "treasure"),
        "missing": "nosuch",
    }
    away = {"status": {"phase": "Unavailable"}}
    assert vault.patch(f"{WORKSPACES}/{names['away']}/status", away).status == 200
    paths = [f"root:{above}:{name}" for name in names.values()]
    paths += ["treasure", "dragon", "nosuchname", f"root:{above}:nosuch:deeper", "user:carol"]
    for place in ("/api", MAPS, "/apis/nosuch.example/v1/things/x"):
        for user, status in (("bob-token", 403), ("nonsense", 401)):
            clients = [root.in_cluster(path).with_token(user) for path in paths]
            answers = {(reply.status, reply.body) for reply in (c.get(place) for c in clients)}
            assert len(answers) == 1, (place, answers)
            assert answers.pop()[0] == status


def test_what_is_not_scheduled_is_not_there(shard: ServerProcess, root: TestClient) -> None:
    """A workspace whose logical cluster is gone, or on another shard, cannot be entered here."""
    gone = a_workspace(root, "gonebynow")
    assert shard.client(cluster=f"root:{gone}").get("/api").status == 404
    moved = a_workspace(
        root, "livesonamber", metadata={"annotations": {"core.kcp.io/shard": "amber"}}
    )
    reply = shard.client(cluster=f"root:{moved}").get("/api")
    assert (reply.status, reply.body) == (429, b"Not found on this shard\n")
    assert reply.header("retry-after") == "1"


def test_what_is_not_available(shard: ServerProcess, root: TestClient) -> None:
    make_cluster(shard, "weak")
    name = a_workspace(root, "weak")
    status = f"{WORKSPACES}/{name}/status"
    assert shard.client(cluster=f"root:{name}").get("/api").status == 200
    unavailable = {
        "phase": "Unavailable",
        "conditions": [
            {
                "type": "WorkspaceScheduled",
                "status": "False",
                "severity": "Error",
                "reason": "Unknown",
                "message": "away",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }
        ],
    }

    assert root.patch(status, {"status": unavailable}).status == 200
    reply = shard.client(cluster=f"root:{name}").get("/api")
    assert reply.status == 503
    assert reply.body == b"Not available.\n"
    assert reply.header("content-type") == "text/plain; charset=utf-8"


def test_an_inactive_cluster_is_closed(shard: ServerProcess, root: TestClient) -> None:
    """For everybody who could enter it, by name and by path, but for what it takes to open it
    again."""
    inside = make_cluster(shard, "asleep")
    inside.patch(f"{LOGICAL_CLUSTER}/status", {"status": {"phase": "Ready"}})
    name = a_workspace(root, "asleep")
    mark(inside, "true")
    for client in (inside, shard.client(cluster=f"root:{name}")):
        assert is_inactive(client.get(MAPS), "asleep")
        assert is_inactive(client.get("/api"), "asleep")
    assert inside.get(LOGICAL_CLUSTER).status == 200
    assert inside.get("/openapi/v3").status == 200
    mark(inside, None)
    assert inside.get(MAPS).status == 200


def test_the_old_mark_counts_too(shard: ServerProcess) -> None:
    inside = make_cluster(shard, "asleep-too")
    inside.patch(f"{LOGICAL_CLUSTER}/status", {"status": {"phase": "Ready"}})
    patch = {"metadata": {"annotations": {"internal.kcp.io/inactive": "true"}}}
    assert inside.patch(LOGICAL_CLUSTER, patch).status == 200
    assert is_inactive(inside.get(MAPS), "asleep-too")


class Watching:
    """A watch that is read in the background until it ends."""

    def __init__(self, client: TestClient, path: str) -> None:
        self.seen: list[str] = []
        self.is_open = threading.Event()
        self._events = client.watch(path, allowWatchBookmarks="true", resourceVersion="0")
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()
        eventually(lambda: self.seen)

    def _read(self) -> None:
        for event in self._events:
            self.seen.append(event["type"])

    def ends(self) -> bool:
        self._thread.join(10)
        return not self._thread.is_alive()

    def goes_on(self) -> bool:
        return self._thread.is_alive()


@pytest.fixture
def busy(shard: ServerProcess) -> TestClient:
    """A ready cluster with an object to see."""
    inside = make_cluster(shard, f"busy{next(_numbers)}")
    inside.patch(f"{LOGICAL_CLUSTER}/status", {"status": {"phase": "Ready"}})
    inside.post(MAPS, {"metadata": {"name": "x"}})
    return inside


def test_watches_end_when_a_cluster_is_put_to_sleep(
    shard: ServerProcess, busy: TestClient, root: TestClient
) -> None:
    """Those in it and those over all clusters; not those that wait for it to wake up."""
    other = Watching(root, "/api/v1/namespaces")
    inside, everywhere = Watching(busy, MAPS), Watching(root.in_cluster("*"), "/api/v1/configmaps")
    itself = Watching(busy, LOGICAL_CLUSTER.rpartition("/")[0])
    mark(busy, "true")
    assert inside.ends()
    assert everywhere.ends()
    assert itself.goes_on()
    assert other.goes_on()
    again = Watching(root.in_cluster("*"), "/api/v1/configmaps")
    busy.patch(LOGICAL_CLUSTER, {"metadata": {"labels": {"a": "b"}}})
    eventually(lambda: itself.seen[-2:] == ["MODIFIED", "MODIFIED"])
    assert again.goes_on()


def test_watches_end_with_their_cluster(busy: TestClient) -> None:
    inside = Watching(busy, MAPS)
    assert busy.delete(LOGICAL_CLUSTER).status == 200
    status = {"status": {"phase": "Deleting"}}
    busy.patch(f"{LOGICAL_CLUSTER}/status", status)
    assert inside.ends()


def test_service_accounts_need_no_path(shard: ServerProcess, busy: TestClient) -> None:
    """A client in a pod knows an address, not a cluster: its token says which is meant."""
    accounts = "/api/v1/namespaces/default/serviceaccounts"
    busy.post(accounts, {"metadata": {"name": "pod"}})
    token = busy.post(
        f"{accounts}/pod/token",
        {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}},
    ).json["status"]["token"]
    bare = shard.client("shard-base").with_token(token)
    bare.prefix = ""
    name = busy.prefix.rpartition("/")[2]
    reply = bare.get(MAPS)
    assert reply.status == 403  # known there, but without rights
    assert 'User "system:serviceaccount:default:pod"' in reply.json["message"]
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    extra = bare.post(path, review).json["status"]["userInfo"]["extra"]
    assert extra["authentication.kcp.io/cluster-name"] == [name]
    assert bare.post(path, review, headers={"X-Kubernetes-Sharded-Request": "1"}).status != 201
