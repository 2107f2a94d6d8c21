"""`kubectl ws backup|restore|clone`: a workspace with everything below it."""

from __future__ import annotations

import pathlib
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from pykcp.testing.apis import BINDINGS, COWBOYS, EXPORTS, bind_cowboys, cowboy
from pykcp.testing.client import TestClient, eventually
from pykcp.testing.moving.provisioning import LIMIT, OWN_SHARD, clusters_here
from pykcp.testing.programs import fsck
from pykcp.testing.rights import grant
from pykcp.testing.server import ServerProcess, environment, server
from pykcp.testing.workspaces import LOGICAL_CLUSTER, WORKSPACES, make_workspace

MAPS = "/api/v1/namespaces/default/configmaps"
SECRETS = "/api/v1/namespaces/default/secrets"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
SERVICE = "/services/copies/clusters"
CHANGED = ("uid", "resourceVersion", "creationTimestamp", "managedFields", "generation")


@pytest.fixture(scope="module")
def shard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    folder = tmp_path_factory.mktemp("tokens")
    (folder / "tokens.csv").write_text("alice-token,alice,1\n")
    with server(f"--token-auth-file={folder / 'tokens.csv'}") as process:
        fill(process)
        yield process


@pytest.fixture(scope="module")
def other() -> Iterator[ServerProcess]:
    with server() as process:
        yield process


def fill(shard: ServerProcess) -> None:
    """A provider outside of the tree; in it a provider, a consumer of both, and a child."""
    root = shard.client(cluster="root")
    for name in ("vendor", "org"):
        make_workspace(root, name)
    org = root.in_cluster("root:org")
    for name in ("makers", "users"):
        make_workspace(org, name)
    users = root.in_cluster("root:org:users")
    make_workspace(users, "deep")
    bind_cowboys(root.in_cluster("root:org:makers"), users)
    assert users.post(COWBOYS, cowboy("lucky")).status == 201
    body = {"metadata": {"name": "owner"}, "data": {"where": "root:org", "x": "y"}}
    owner = users.post(MAPS, body).json
    reference = {
        "apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"],
    }  # fmt: skip
    owned = {"metadata": {"name": "owned", "labels": {"a": "b"}, "ownerReferences": [reference]}}
    assert users.post(SECRETS, owned | {"stringData": {"k": "v"}}).status == 201
    crd = {
        "metadata": {"name": "hats.shop.io"},
        "spec": {
            "group": "shop.io",
            "names": {"plural": "hats", "kind": "Hat", "singular": "hat", "listKind": "HatList"},
            "scope": "Cluster",
            "versions": [
                {"name": "v1", "served": True, "storage": True,
                 "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}}
            ],
        },
    }  # fmt: skip
    deep = root.in_cluster("root:org:users:deep")
    assert deep.post(CRDS, crd).status == 201
    hat = {"apiVersion": "shop.io/v1", "kind": "Hat", "metadata": {"name": "h"}, "size": 5}
    eventually(lambda: deep.post("/apis/shop.io/v1/hats", hat).status == 201)


def ws(kubeconfig: pathlib.Path, tmp_path: pathlib.Path, line: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-m", "pykcp.cli.plugins", "kubectl-ws", *line.split()],
        env={**environment(), "KUBECONFIG": str(kubeconfig), "HOME": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def content(client: TestClient, path: str, *collections: str) -> dict[str, Any]:
    """Objects of a workspace without what a copy changes."""
    found = {}
    for collection in collections:
        for item in client.in_cluster(path).get(collection).json["items"]:
            metadata = item["metadata"]
            for name in CHANGED:
                metadata.pop(name, None)
            metadata.get("annotations", {}).pop("kcp.io/cluster", None)
            for owner in metadata.get("ownerReferences") or ():
                del owner["uid"]
            found[f"{collection}/{metadata['name']}"] = item
    return found


def phase(client: TestClient, path: str, name: str = "cowboys") -> str:
    found = client.in_cluster(path).get(f"{BINDINGS}/{name}").json
    return str((found.get("status") or {}).get("phase"))


def uids(client: TestClient, path: str) -> set[str]:
    items = [*client.in_cluster(path).get(MAPS).json["items"]]
    items += client.in_cluster(path).get(SECRETS).json["items"]
    return {item["metadata"]["uid"] for item in items}


def check_copy(source: TestClient, copy: TestClient, old: str, new: str) -> None:
    collections = (SECRETS, "/api/v1/namespaces", "/api/v1/namespaces/default/serviceaccounts")
    before, after = (
        content(client, f"{path}:users", *collections)
        for client, path in ((source, old), (copy, new))
    )
    assert before == after
    maps = [
        content(client, f"{path}:users", MAPS)[f"{MAPS}/owner"]
        for client, path in ((source, old), (copy, new))
    ]
    assert maps[0] == maps[1]  # what users wrote is not changed
    eventually(lambda: phase(copy, f"{new}:users") == "Bound")
    users = copy.in_cluster(f"{new}:users")
    assert [item["metadata"]["name"] for item in users.get(COWBOYS).json["items"]] == ["lucky"]
    assert users.post(COWBOYS, cowboy("calamity")).status == 201
    deep = copy.in_cluster(f"{new}:users:deep")
    assert eventually(lambda: deep.get("/apis/shop.io/v1/hats/h").json.get("size") == 5)
    owned = users.get(f"{SECRETS}/owned").json["metadata"]["ownerReferences"][0]["uid"]
    assert owned == users.get(f"{MAPS}/owner").json["metadata"]["uid"]
    path = deep.get(LOGICAL_CLUSTER).json["metadata"]["annotations"]["kcp.io/path"]
    assert path == f"{new}:users:deep"


def test_a_clone(shard: ServerProcess, tmp_path: pathlib.Path) -> None:
    code, text = ws(shard.kubeconfig, tmp_path, "clone :root:org :root:copy")
    assert code == 0, text
    assert text.startswith('Workspace "root:org" cloned to "root:copy": 4 workspaces')
    client = shard.client(cluster="root")
    check_copy(client, client, "root:org", "root:copy")
    assert not uids(client, "root:org:users") & uids(client, "root:copy:users")
    # the exports of the two are strangers to each other
    hashes = {
        client.in_cluster(f"root:{one}:makers")
        .get(f"{EXPORTS}/cowboys")
        .json["status"]["identityHash"]
        for one in ("org", "copy")
    }
    assert len(hashes) == 2
    names = [
        i["metadata"]["name"]
        for i in client.in_cluster("root:org:users").get(COWBOYS).json["items"]
    ]
    assert names == ["lucky"]
    code, text = fsck(shard)
    assert code == 0, text
    # deleting the copy leaves the original alone
    assert client.delete(f"{WORKSPACES}/copy").status == 200
    eventually(lambda: client.get(f"{WORKSPACES}/copy").status == 404)
    assert client.in_cluster("root:org:users:deep").get("/apis/shop.io/v1/hats/h").status == 200
    code, text = fsck(shard)
    assert code == 0, text


def test_a_clone_needs_room(shard: ServerProcess, tmp_path: pathlib.Path) -> None:
    """For the workspaces below it, too; what was written of it is removed."""
    root, before = shard.client(cluster="root"), clusters_here(shard.client())
    size = 4

    def allow(more: int | None) -> None:
        limit = None if more is None else str(before + more)
        assert root.patch(OWN_SHARD, {"metadata": {"annotations": {LIMIT: limit}}}).status == 200

    try:
        for more in (0, 1, size - 1):
            allow(more)
            code, text = ws(shard.kubeconfig, tmp_path, "clone :root:org :root:cramped")
            assert code == 1, text
            assert 'shard "root" has reached its limit of logical clusters' in text
            assert clusters_here(shard.client()) == before
        allow(size)
        code, text = ws(shard.kubeconfig, tmp_path, "clone :root:org :root:cramped")
        assert code == 0, text
        assert clusters_here(shard.client()) == before + size
    finally:
        allow(None)
    assert root.delete(f"{WORKSPACES}/cramped").status == 200
    eventually(lambda: clusters_here(shard.client()) == before)
    code, text = fsck(shard)
    assert code == 0, text


def test_there_and_to_another_installation(
    shard: ServerProcess, other: ServerProcess, tmp_path: pathlib.Path
) -> None:
    code, text = ws(shard.kubeconfig, tmp_path, "backup :root:org -o org.backup")
    assert code == 0, text
    file = tmp_path / "org.backup"
    assert file.stat().st_mode & 0o777 == 0o600
    here, there = shard.client(cluster="root"), other.client(cluster="root")

    code, text = ws(shard.kubeconfig, tmp_path, "restore -f org.backup")
    assert code == 1
    assert "exists here: delete that workspace first" in text
    code, text = ws(shard.kubeconfig, tmp_path, "restore :root:second -f org.backup --new-names")
    assert code == 0, text
    check_copy(here, here, "root:org", "root:second")

    code, text = ws(other.kubeconfig, tmp_path, "restore -f org.backup")
    assert code == 0, text
    check_copy(here, there, "root:org", "root:org")
    # logical clusters and uids are the same, so kubeconfigs and references are, too
    for path in ("root:org", "root:org:users:deep"):
        names = [
            client.in_cluster(path)
            .get(LOGICAL_CLUSTER)
            .json["metadata"]["annotations"]["kcp.io/cluster"]
            for client in (here, there)
        ]
        assert names[0] == names[1]
    assert uids(here, "root:org:users") & uids(there, "root:org:users")
    workspace = there.get(f"{WORKSPACES}/org").json
    assert workspace["spec"]["URL"].startswith(f"https://{there.access.host}:{there.access.port}/")
    code, text = fsck(other)
    assert code == 0, text

    code, text = ws(other.kubeconfig, tmp_path, "restore :root:renamed -f org.backup --new-names")
    assert code == 0, text
    check_copy(here, there, "root:org", "root:renamed")

    data = file.read_bytes()
    file.write_bytes(data[: len(data) // 2])
    code, text = ws(other.kubeconfig, tmp_path, "restore :root:torn -f org.backup")
    assert code == 1
    assert "cannot read org.backup" in text
    assert there.get(f"{WORKSPACES}/torn").status == 404


def test_who_may(shard: ServerProcess) -> None:
    """alice may do everything in the workspace at the top, and nothing below it."""
    root = shard.client(cluster="root")
    make_workspace(root, "shared")
    shared = root.in_cluster("root:shared")
    make_workspace(shared, "secret")
    grant(shared, "alice", "*", "*", "*")
    alice = root.with_token("alice-token")
    alice.prefix = ""
    for path, method, body in (
        ("root:shared/tree", "GET", None),
        ("root:shared/begin", "POST", {"name": "x", "tree": {}}),
        ("root:shared/clone", "POST", {"source": "root:shared", "name": "x"}),
        ("root:org/tree", "GET", None),
        ("root:shared/clone", "POST", {"source": "root:org:makers", "name": "x"}),
    ):
        reply = alice.request(method, f"{SERVICE}/{path}", body)
        assert reply.status == 403, (path, reply)


def test_bad_input(shard: ServerProcess) -> None:
    client = shard.client()
    client.prefix = ""
    tree = client.get(f"{SERVICE}/root:org:makers/tree").json
    for path, body, code in (
        ("root/clone", {"source": "root:nowhere", "name": "x"}, 404),
        ("root/clone", {"source": "root", "name": "x"}, 404),
        ("root/clone", {"source": "root:org", "name": "Not A Name"}, 422),
        ("root/clone", {"source": "root:org", "name": "org"}, 409),
        ("root/begin", {"name": "x"}, 400),
        ("root/begin", {"name": "x", "tree": {**tree, "clusters": ["../x"]}}, 400),
        ("root/add", {"copy": "none", "rows": []}, 404),
        ("root/finish", {"copy": "none"}, 404),
        ("root/unknown", {}, 404),
    ):
        reply = client.post(f"{SERVICE}/{path}", body)
        assert reply.status == code, (path, body, reply)
    begun = client.post(f"{SERVICE}/root/begin", {"name": "x", "tree": tree, "isNew": True}).json
    foreign = ["core/secrets/root/default/stolen", 1, "", "{}"]
    reply = client.post(f"{SERVICE}/root/add", {"copy": begun["copy"], "rows": [foreign]})
    assert reply.status == 400
    assert "does not belong to the tree" in reply.json["message"]
    reply = client.post(f"{SERVICE}/root/finish", {"copy": begun["copy"]})
    assert reply.status == 400


def test_a_copy_that_was_not_completed(tmp_path: pathlib.Path) -> None:
    process = ServerProcess(tmp_path / ".kcp").start()
    try:
        root = process.client(cluster="root")
        make_workspace(root, "one")
        client = process.client()
        client.prefix = ""
        tree = client.get(f"{SERVICE}/root:one/tree").json
        rows = client.get(f"{SERVICE}/root:one/rows?cluster={tree['clusters'][0]}").json["rows"]
        begun = client.post(f"{SERVICE}/root/begin", {"name": "x", "tree": tree, "isNew": True})
        body = {"copy": begun.json["copy"], "rows": rows}
        added = client.post(f"{SERVICE}/root/add", body)
        assert added.json["objects"] > 5, added
        process.kill()
        process.start()
        eventually(lambda: "consistent" in fsck(process)[1])
        client.drop()
        gone = client.post(f"{SERVICE}/root/finish", {"copy": begun.json["copy"]})
        assert gone.status == 404, gone
    finally:
        process.stop()
