"""`kubectl ws backup|restore|clone` of a tree whose workspaces are on several shards."""

from __future__ import annotations

import gzip
import json
import pathlib
from collections.abc import Iterator

import pytest
from tests.behaviour.backup.test_subtrees import MAPS, phase, ws

from pykcp.testing.apis import (
    BINDINGS,
    COWBOYS,
    EXPORTS,
    RESOURCE,
    SCHEMAS,
    binding,
    cowboy,
    export,
    schema,
)
from pykcp.testing.client import TestClient, eventually
from pykcp.testing.moving.migrations import holder
from pykcp.testing.programs import fsck, kcp
from pykcp.testing.rights import grant
from pykcp.testing.server import server
from pykcp.testing.sharded import Fleet, fleet
from pykcp.testing.workspaces import LOGICAL_CLUSTER, WORKSPACES, inside, make_workspace

pytestmark = pytest.mark.slow
SERVICE = "/services/copies/clusters"


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """root:org on shard-1; in it makers on root, users on shard-1, and below that deep on root."""
    with fleet(tmp_path_factory.mktemp("fleet")) as made:
        org = make_on(made.client(cluster="root"), "org", "shard-1")
        makers, users = make_on(org, "makers", "root"), make_on(org, "users", "shard-1")
        deep = make_on(users, "deep", "root")
        bind_over_shards(makers, users)
        assert users.post(COWBOYS, cowboy("lucky")).status == 201
        assert deep.post(MAPS, {"metadata": {"name": "kept"}}).status == 201
        yield made


def make_on(parent: TestClient, name: str, shard: str) -> TestClient:
    """A workspace on a shard; a client in it, by its path."""
    make_workspace(parent, name, location={"selector": {"matchLabels": {"name": shard}}})
    made = inside(parent, name)
    found = made.get(LOGICAL_CLUSTER).json["metadata"]["annotations"]
    assert found["core.kcp.io/shard"] == shard
    return made


def bind_over_shards(provider: TestClient, consumer: TestClient) -> None:
    """Binding is denied until the export has been replicated."""
    assert provider.post(SCHEMAS, schema()).status == 201
    assert provider.post(EXPORTS, export("cowboys", resources=[RESOURCE])).status == 201
    wanted = binding("cowboys", "cowboys", provider.prefix.rpartition("/")[2])
    eventually(lambda: consumer.post(BINDINGS, wanted).status == 201, 60)
    eventually(lambda: phase(consumer, consumer.prefix.rpartition("/")[2]) == "Bound", 60)


def cluster_of(client: TestClient, path: str) -> str:
    found = client.in_cluster(path).get(LOGICAL_CLUSTER).json
    return str(found["metadata"]["annotations"]["kcp.io/cluster"])


def check(client: TestClient, path: str) -> None:
    """The export of the copy is bound in the copy, with the objects of its consumer."""
    eventually(lambda: phase(client, f"{path}:users") == "Bound", 60)
    users = client.in_cluster(f"{path}:users")
    names = [item["metadata"]["name"] for item in users.get(COWBOYS).json["items"]]
    assert names == ["lucky"]
    assert client.in_cluster(f"{path}:users:deep").get(f"{MAPS}/kept").status == 200


def identity(client: TestClient, path: str) -> str:
    found = client.in_cluster(f"{path}:makers").get(f"{EXPORTS}/cowboys").json
    return str(found["status"]["identityHash"])


def test_a_backup_goes_to_another_installation(two: Fleet, tmp_path: pathlib.Path) -> None:
    code, text = ws(two.files.admin_kubeconfig, tmp_path, "backup :root:org -o org.backup")
    assert code == 0, text
    assert "4 workspaces" in text
    with gzip.open(tmp_path / "org.backup", "rt") as lines:
        tree = json.loads(lines.readlines()[1])["tree"]
    assert sorted(tree["shards"].values()) == ["root", "root"]
    with server() as other:
        there = other.client(cluster="root")
        code, text = ws(other.kubeconfig, tmp_path, "restore -f org.backup")
        assert code == 0, text
        check(there, "root:org")
        here = two.client()
        assert identity(there, "root:org") == identity(here, "root:org")
        code, text = ws(
            other.kubeconfig, tmp_path, "restore :root:second -f org.backup --new-names"
        )
        assert code == 0, text
        check(there, "root:second")
        assert identity(there, "root:org") != identity(there, "root:second")
        code, text = fsck(other)
        assert code == 0, text


def test_a_clone_lies_on_the_shard_of_its_parent(two: Fleet, tmp_path: pathlib.Path) -> None:
    code, text = ws(two.files.admin_kubeconfig, tmp_path, "clone :root:org :root:copy")
    assert code == 0, text
    client = two.client()
    check(client, "root:copy")
    assert identity(client, "root:copy") != identity(client, "root:org")
    for path in ("root:copy", "root:copy:users", "root:copy:users:deep"):
        assert holder(two, cluster_of(client, path)) == "root"
    assert client.in_cluster("root").delete(f"{WORKSPACES}/copy").status == 200
    eventually(lambda: client.in_cluster("root").get(f"{WORKSPACES}/copy").status == 404, 60)
    check(client, "root:org")
    for shard in two.shards:
        code, text = kcp("admin", "fsck", f"--root-directory={two[shard].root}")
        assert code == 0, text


def test_every_shard_decides_what_may_be_read(two: Fleet) -> None:
    """alice may do everything in the workspace at the top, and nothing in those of other shards."""
    client = two.client()
    grant(client.in_cluster("root:org"), "alice", "*", "*", "*")
    grant(client.in_cluster("root"), "alice", "create", "tenancy.kcp.io", "workspaces")
    master = two.client("shard-1")
    top = cluster_of(client, "root:org")
    as_alice = {"Impersonate-User": "alice"}
    reply = master.request("GET", f"{SERVICE}/{top}/tree?part=true", headers=as_alice)
    assert reply.status == 403, reply  # users, on the same shard
    body = {"source": top, "shard": "shard-1", "name": "stolen"}
    at_root = two.client("root")
    reply = at_root.request("POST", f"{SERVICE}/root/clone", body, headers=as_alice)
    assert reply.status == 403, reply
    assert client.in_cluster("root").get(f"{WORKSPACES}/stolen").status == 404


def test_a_tree_is_read_at_one_moment(two: Fleet) -> None:
    """A later write on one shard is not in it, although the other shard has not seen anything."""
    client = two.client()
    tree = client.get(f"{SERVICE}/root:org/tree").json
    deep, users = (cluster_of(client, f"root:org:{x}") for x in ("users:deep", "users"))
    assert set(tree["shards"]) >= {deep}
    for path in ("root:org:users:deep", "root:org:users"):
        made = client.in_cluster(path).post(MAPS, {"metadata": {"name": "late"}})
        assert made.status == 201
        assert int(made.json["metadata"]["resourceVersion"]) > tree["revision"]
    for cluster in (deep, users):
        rows = client.get(f"{SERVICE}/{cluster}/rows?at={tree['revision']}").json["rows"]
        assert rows
        assert not [row for row in rows if row[0].endswith("/late")]


def test_a_shard_that_is_away_is_reported(two: Fleet) -> None:
    top = cluster_of(two.client(), "root:org")
    two["root"].pause()
    try:
        reply = two.client("shard-1").get(f"{SERVICE}/{top}/tree")
        assert reply.status == 503, reply
    finally:
        two["root"].resume()
    eventually(lambda: two.client().get(f"{SERVICE}/root:org/tree").status == 200, 60)
