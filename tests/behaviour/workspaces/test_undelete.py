"""Deleted workspaces that are kept for a while, and come back."""

from __future__ import annotations

import itertools
import pathlib
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from pykcp.testing.apis import EXPORTS, bind_cowboys, cowboy
from pykcp.testing.client import MERGE, Reply, TestClient, eventually
from pykcp.testing.rights import grant
from pykcp.testing.server import ServerProcess, environment, server
from pykcp.testing.workspaces import LOGICAL_CLUSTER, WORKSPACES, inside, make_workspace
from pykcp.types import Object

MAPS = "/api/v1/namespaces/default/configmaps"
SECRETS = "/api/v1/namespaces/default/secrets"
BINDINGS = "/apis/apis.kcp.io/v1alpha2/apibindings"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def shard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    directory = tmp_path_factory.mktemp("undelete")
    tokens = directory / "tokens.csv"
    tokens.write_text("bob-token,bob,b1\n")
    flags = (f"--token-auth-file={tokens}", "--workspace-undelete-window=1h")
    with server(*flags, directory=directory) as process:
        yield process


@pytest.fixture
def org(root: TestClient) -> TestClient:
    name = f"org{next(_numbers)}"
    make_workspace(root, name)
    return root.in_cluster(f"root:{name}")


def path_of(client: TestClient) -> str:
    return client.prefix.removeprefix("/clusters/")


def trash(parent: TestClient) -> list[Object]:
    found = _services(parent).get(f"/services/trash/clusters/{path_of(parent)}/workspaces")
    assert found.status == 200, found
    assert found.json["kind"] == "DeletedWorkspaceList"
    items: list[Object] = found.json["items"]
    return items


def undelete(parent: TestClient, name: str, **query: Any) -> Reply:
    path = f"/services/trash/clusters/{path_of(parent)}/workspaces/{name}/undelete"
    return _services(parent).post(path, None, **query)


def _services(client: TestClient) -> TestClient:
    bare = client.in_cluster("")
    bare.prefix = ""
    return bare


def delete(parent: TestClient, name: str) -> None:
    assert parent.delete(f"{WORKSPACES}/{name}").status == 200
    eventually(lambda: parent.get(f"{WORKSPACES}/{name}").status == 404)


def snapshot(cluster: TestClient) -> dict[str, Object]:
    """What is in a workspace, without what a write changes."""
    found = {}
    groups = [("/api/v1", "v1")]
    groups += [
        (f"/apis/{g['preferredVersion']['groupVersion']}", g["name"])
        for g in cluster.get("/apis").json["groups"]
    ]
    for address, _ in groups:
        for resource in cluster.get(address).json["resources"]:
            if "/" in resource["name"] or "list" not in resource["verbs"]:
                continue
            if resource["name"] in ("events", "logicalclusters", "componentstatuses"):
                continue
            listed = cluster.get(f"{address}/{resource['name']}")
            for item in listed.json.get("items") or ():
                del item["metadata"]["resourceVersion"]
                found[f"{address}/{resource['name']}/{item['metadata']['uid']}"] = item
    return found


def fill(cluster: TestClient, count: int = 3) -> None:
    for number in range(count):
        made = cluster.post(MAPS, {"metadata": {"name": f"m{number}", "labels": {"n": "x"}}})
        assert made.status == 201, made
    owner = cluster.get(f"{MAPS}/m0").json["metadata"]
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "m0", "uid": owner["uid"]}
    owned = {"metadata": {"name": "a-owned", "ownerReferences": [reference]}}
    assert cluster.post(MAPS, owned).status == 201
    secret = {"metadata": {"name": "s"}, "stringData": {"password": "secret"}}
    assert cluster.post(SECRETS, secret).status == 201
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    crd = {
        "metadata": {"name": "cows.farm.example"},
        "spec": {
            "group": "farm.example",
            "scope": "Namespaced",
            "names": {"plural": "cows", "singular": "cow", "kind": "Cow", "listKind": "CowList"},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": schema},
                }
            ],
        },
    }
    assert cluster.post(CRDS, crd).status == 201
    cow = {"apiVersion": "farm.example/v1", "kind": "Cow", "metadata": {"name": "berta"}}
    cows = "/apis/farm.example/v1/namespaces/default/cows"
    eventually(lambda: cluster.post(cows, cow).status in (201, 409))


@pytest.mark.parametrize("count", [3, 200])
def test_it_comes_back_as_it_was(shard: ServerProcess, org: TestClient, count: int) -> None:
    before = make_workspace(org, "team")
    team = inside(org, "team")
    fill(team, count)
    eventually(lambda: is_settled(team))
    was = snapshot(team)
    delete(org, "team")
    cluster = before["spec"]["cluster"]
    # nothing of it is to be seen
    assert team.get(MAPS).status == 404
    assert org.with_token("bob-token").in_cluster(cluster).get(MAPS).status == 403
    everywhere = shard.client(cluster="*")
    for path in (
        "/api/v1/configmaps",
        "/api/v1/secrets",
        "/apis/core.kcp.io/v1alpha1/logicalclusters",
    ):
        items = everywhere.get(path).json["items"]
        assert cluster not in {i["metadata"]["annotations"]["kcp.io/cluster"] for i in items}
    (kept,) = trash(org)
    assert (kept["name"], kept["cluster"], kept["children"]) == ("team", cluster, 0)
    assert kept["path"] == f"{path_of(org)}:team"
    assert kept["type"] == "root:universal"

    back = undelete(org, "team")
    assert back.status == 200, back
    assert [i["path"] for i in back.json["items"]] == [f"{path_of(org)}:team"]
    assert trash(org) == []
    after = org.get(f"{WORKSPACES}/team").json
    for obj in (before, after):
        forget_writes(obj)
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert after == before
    logical_cluster = team.get(LOGICAL_CLUSTER).json
    assert logical_cluster["status"]["phase"] == "Ready"
    assert "deletionTimestamp" not in logical_cluster["metadata"]
    assert snapshot(team) == was
    # and lives on
    assert team.patch(f"{MAPS}/m1", {"data": {"a": "b"}}, MERGE).status == 200
    assert team.delete(f"{MAPS}/m0", {"propagationPolicy": "Background"}).status == 200
    eventually(lambda: team.get(f"{MAPS}/a-owned").status == 404)
    delete(org, "team")
    assert [item["name"] for item in trash(org)] == ["team"]


def forget_writes(obj: Object) -> None:
    """Remove what each write changes: a deletion that takes long is reported in the object."""
    metadata = obj["metadata"]
    del metadata["resourceVersion"]
    metadata.pop("generation", None)
    metadata["managedFields"].sort(key=lambda entry: entry["manager"])
    for entry in metadata["managedFields"]:
        del entry["time"]


def is_settled(cluster: TestClient) -> bool:
    """Whether nobody is about to write something."""
    bindings = cluster.get(BINDINGS).json["items"]
    (crd,) = cluster.get(CRDS).json["items"]
    conditions = {c["type"]: c["status"] for c in crd["status"].get("conditions") or ()}
    is_bound = all(b["status"].get("phase") == "Bound" for b in bindings)
    return is_bound and conditions.get("Established") == "True"


def test_bound_apis_come_back_with_their_objects(shard: ServerProcess, org: TestClient) -> None:
    """And whoever serves them sees that they went, and came back."""
    for name in ("provider", "consumer"):
        make_workspace(org, name)
    provider, consumer = inside(org, "provider"), inside(org, "consumer")
    bind_cowboys(provider, consumer)
    cowboys = "/apis/wild.west/v1/namespaces/default/cowboys"
    assert consumer.post(cowboys, cowboy("joe")).status == 201
    identity = provider.get(f"{EXPORTS}/cowboys").json["status"]["identityHash"]
    everywhere = shard.client(cluster="*")
    listed = f"/apis/wild.west/v1/cowboys:{identity}"
    revision = everywhere.get(listed).json["metadata"]["resourceVersion"]
    delete(org, "consumer")
    assert everywhere.get(listed).json["items"] == []
    assert undelete(org, "consumer").status == 200
    events = everywhere.watch(listed, resourceVersion=revision)
    assert [next(events)["type"] for _ in range(2)] == ["DELETED", "ADDED"]
    events.close()
    assert consumer.get(f"{cowboys}/joe").status == 200
    assert consumer.post(cowboys, cowboy("jane")).status == 201
    assert consumer.get(f"{BINDINGS}/cowboys").json["status"]["phase"] == "Bound"
    # the provider, too, with the same identity
    delete(org, "provider")
    assert undelete(org, "provider").status == 200
    export = provider.get(f"{EXPORTS}/cowboys").json
    assert export["status"]["identityHash"] == identity
    assert consumer.get(f"{cowboys}/joe").status == 200


def test_subtrees(org: TestClient) -> None:
    make_workspace(org, "a")
    a = inside(org, "a")
    for name in ("b", "early"):
        make_workspace(a, name)
    make_workspace(inside(a, "b"), "c")
    c = inside(inside(a, "b"), "c")
    assert c.post(MAPS, {"metadata": {"name": "deep"}}).status == 201
    delete(a, "early")
    eventually(lambda: is_later(a))
    delete(org, "a")
    (kept,) = trash(org)
    assert kept["children"] == 1
    # without those below
    assert undelete(org, "a").status == 200
    assert a.get(WORKSPACES).json["items"] == []
    assert {item["name"] for item in trash(a)} == {"b", "early"}
    delete(org, "a")
    # with them: those that went at that time, at least
    make_workspace(org, "other")
    assert undelete(org, "a").status == 200
    back = undelete(a, "b", recursive="true")
    assert back.status == 200, back
    path = path_of(a)
    assert [i["path"] for i in back.json["items"]] == [f"{path}:b", f"{path}:b:c"]
    assert c.get(f"{MAPS}/deep").status == 200
    eventually(lambda: is_later(a))
    delete(org, "a")
    back = undelete(org, "a", recursive="true")
    assert [i["path"] for i in back.json["items"]] == [path, f"{path}:b", f"{path}:b:c"]
    assert c.get(f"{MAPS}/deep").status == 200
    assert [item["name"] for item in trash(a)] == ["early"]


def is_later(cluster: TestClient) -> bool:
    """Whether the clock shows another second than at the last deletion there."""
    newest = max(item["deletedAt"] for item in trash(cluster))
    made = cluster.post("/api/v1/namespaces", {"metadata": {"generateName": "n"}}, dryRun="All")
    return bool(made.json["metadata"]["creationTimestamp"] > newest)


def test_a_name_that_is_taken(org: TestClient) -> None:
    make_workspace(org, "team")
    delete(org, "team")
    make_workspace(org, "team")
    refused = undelete(org, "team")
    assert refused.status == 409
    assert refused.json["reason"] == "AlreadyExists"
    assert refused.json["message"] == 'workspaces.tenancy.kcp.io "team" already exists'
    delete(org, "team")
    newest, oldest = trash(org)
    assert undelete(org, "team", cluster=oldest["cluster"]).status == 200
    found = org.get(f"{WORKSPACES}/team").json
    assert found["spec"]["cluster"] == oldest["cluster"]
    assert [item["cluster"] for item in trash(org)] == [newest["cluster"]]


def test_what_is_not_there(org: TestClient) -> None:
    assert undelete(org, "never").status == 404
    assert undelete(org.in_cluster("root:nowhere"), "never").status == 404
    bare = _services(org)
    path = f"/services/trash/clusters/{path_of(org)}/workspaces"
    assert bare.post(path, {}).status == 405
    assert bare.get(f"{path}/x/undelete").status == 405
    assert bare.get(f"{path}/x").status == 404


def test_strangers(org: TestClient) -> None:
    make_workspace(org, "team")
    delete(org, "team")
    bob = org.with_token("bob-token")
    bob.prefix = ""
    for place in (path_of(org), "root:none"):
        address = f"/services/trash/clusters/{place}/workspaces"
        assert bob.get(address).status == 403
        assert bob.post(f"{address}/team/undelete", None).status == 403


def test_rights_of_creating_and_seeing(org: TestClient) -> None:
    """`create` alone is not enough to restore, and not what listing takes."""
    make_workspace(org, "kept")
    delete(org, "kept")
    bob = org.with_token("bob-token")
    grant(org, "bob", "create", "workspaces", "tenancy.kcp.io")
    path = f"/services/trash/clusters/{path_of(org)}/workspaces"
    eventually(lambda: bob.get("/api").status == 200)
    assert _services(bob).with_token("bob-token").get(path).status == 403
    assert undelete(bob, "kept").status == 403
    grant(org, "bob", "list", "workspaces", "tenancy.kcp.io")
    eventually(lambda: _services(bob).get(path).status == 200)
    assert undelete(bob, "kept").status == 403
    grant(org, "bob", "get", "workspaces", "tenancy.kcp.io")
    grant(org.in_cluster("root"), "bob", "use", "workspacetypes", "tenancy.kcp.io")
    eventually(lambda: undelete(bob, "kept").status == 200)


def test_type_is_asked_again(root: TestClient, org: TestClient) -> None:
    name = f"rare{next(_numbers)}"
    kind: Object = {
        "apiVersion": "tenancy.kcp.io/v1alpha1",
        "kind": "WorkspaceType",
        "metadata": {"name": name},
        "spec": {"extend": {"with": [{"name": "universal", "path": "root"}]}},
    }
    types = "/apis/tenancy.kcp.io/v1alpha1/workspacetypes"
    assert root.post(types, kind).status == 201
    make_workspace(org, "typed", type={"name": name, "path": "root"})
    delete(org, "typed")
    # not allowed in its parent any more
    limit = {"spec": {"limitAllowedParents": {"types": [{"name": "home", "path": "root"}]}}}
    assert root.patch(f"{types}/{name}", limit).status == 200
    refused = undelete(org, "typed")
    assert refused.status == 403, refused
    assert "only allows [root:home] parent workspaces" in refused.json["message"]
    # its type is gone
    assert root.delete(f"{types}/{name}").status == 200
    refused = undelete(org, "typed")
    assert refused.status == 403, refused
    assert "not found" in refused.json["message"]
    assert root.post(types, kind).status == 201
    assert undelete(org, "typed").status == 200


def test_quota_is_asked_again(org: TestClient) -> None:
    make_workspace(org, "first")
    delete(org, "first")
    assert org.post("/api/v1/namespaces", {"metadata": {"name": "admin"}}).status == 201
    quota = {
        "metadata": {
            "name": "few",
            "annotations": {"experimental.quota.kcp.io/cluster-scoped": "true"},
        },
        "spec": {"hard": {"count/workspaces.tenancy.kcp.io": "1"}},
    }
    made = org.post("/api/v1/namespaces/admin/resourcequotas", quota)
    assert made.status == 201, made
    make_workspace(org, "second")
    refused = undelete(org, "first")
    assert refused.status == 403, refused
    assert "exceeded quota: few" in refused.json["message"]
    delete(org, "second")
    eventually(lambda: undelete(org, "first").status == 200)


def test_finalizers_of_others_have_their_say(org: TestClient) -> None:
    make_workspace(org, "team")
    team = inside(org, "team")
    held = {"metadata": {"name": "held", "finalizers": ["example.com/hold"]}}
    assert team.post(MAPS, held).status == 201
    assert team.post(MAPS, {"metadata": {"name": "free"}}).status == 201
    assert org.delete(f"{WORKSPACES}/team").status == 200
    eventually(lambda: "deletionTimestamp" in team.get(f"{MAPS}/held").json["metadata"])
    assert team.get(f"{MAPS}/free").status == 200
    freed = team.patch(f"{MAPS}/held", {"metadata": {"finalizers": None}}, MERGE)
    assert freed.status == 200
    eventually(lambda: org.get(f"{WORKSPACES}/team").status == 404)
    assert undelete(org, "team").status == 200
    assert team.get(f"{MAPS}/free").status == 200
    assert team.get(f"{MAPS}/held").status == 404


def test_through_a_crash(shard: ServerProcess, org: TestClient) -> None:
    make_workspace(org, "team")
    team = inside(org, "team")
    assert team.post(MAPS, {"metadata": {"name": "kept"}}).status == 201
    delete(org, "team")
    assert is_consistent(shard)
    shard.kill()
    shard.start()
    org = shard.client(cluster=path_of(org))
    assert [item["name"] for item in trash(org)] == ["team"]
    assert undelete(org, "team").status == 200
    shard.kill()
    shard.start()
    team = shard.client(cluster=path_of(team))
    assert team.get(f"{MAPS}/kept").status == 200
    assert trash(shard.client(cluster=path_of(org))) == []
    eventually(lambda: is_consistent(shard))


def is_consistent(shard: ServerProcess) -> bool:
    done = subprocess.run(
        [sys.executable, "-m", "pykcp", "admin", "fsck", f"--root-directory={shard.root}"],
        capture_output=True,
        text=True,
        env=environment(),
        check=False,
    )
    return done.returncode == 0


def test_it_goes_for_good_when_its_time_is_over(tmp_path: pathlib.Path) -> None:
    with server("--workspace-undelete-window=1s", directory=tmp_path) as shard:
        root = shard.client(cluster="root")
        make_workspace(root, "a")
        make_workspace(inside(root, "a"), "b")
        delete(root, "a")
        eventually(lambda: trash(root) == [])
        eventually(lambda: rows_in_trash(shard) == 0)
        assert undelete(root, "a").status == 404
        make_workspace(root, "later")
        delete(root, "later")
        shard.kill()
        # one that is switched off keeps nothing, not even what it finds
        shard.flags = ()
        shard.start()
        eventually(lambda: rows_in_trash(shard) == 0)
        root = shard.client(cluster="root")
        assert undelete(root, "later").status == 404
        make_workspace(root, "later")
        delete(root, "later")
        assert rows_in_trash(shard) == 0
        # what the server binds itself is complete some moments after its start
        eventually(lambda: is_consistent(shard))


def rows_in_trash(shard: ServerProcess) -> int:
    with closing(sqlite3.connect(f"file:{shard.root}/store.db?mode=ro", uri=True)) as store:
        counted = store.execute(
            "SELECT count(*) FROM current WHERE key >= '~' AND key NOT GLOB '~pykcp/*' AND deleted = 0"
        ).fetchone()
    return int(counted[0])


def test_the_plugin(shard: ServerProcess, org: TestClient) -> None:
    make_workspace(org, "team")
    make_workspace(inside(org, "team"), "inner")

    def ws(*words: str) -> tuple[int, str, str]:
        server_url = f"{_address(shard)}/clusters/{path_of(org)}"
        done = subprocess.run(
            [
                *(sys.executable, "-m", "pykcp.cli.plugins", "kubectl-ws", *words),
                f"--kubeconfig={shard.kubeconfig}",
                "--context=shard-base",
                f"--server={server_url}",
            ],
            capture_output=True,
            text=True,
            env=environment(),
            check=False,
        )
        return done.returncode, done.stdout, done.stderr

    path = path_of(org)
    code, out, err = ws("delete", "team", "--wait")
    assert code == 0, err
    first, last = out.splitlines()
    assert first == f'Workspace "{path}:team" is being deleted.'
    assert last == f'Workspace "{path}:team" deleted.'
    code, out, err = ws("trash")
    assert code == 0, err
    head, line = out.splitlines()
    assert head.split()[:5] == ["NAME", "TYPE", "DELETED", "EXPIRES", "CHILDREN"]
    assert line.split()[:2] == ["team", "root:universal"]
    assert line.split()[4] == "1"
    code, out, err = ws("undelete", "team", "--recursive")
    assert (code, out, err) == (
        0,
        f'Workspace "{path}:team" restored.\nWorkspace "{path}:team:inner" restored.\n',
        "",
    )
    assert ws("trash")[1] == "No deleted workspaces found.\n"
    code, out, err = ws("undelete", "team")
    assert (code, err) == (1, 'Error: workspaces.tenancy.kcp.io "team" not found\n')


def _address(shard: ServerProcess) -> str:
    return f"https://127.0.0.1:{shard.port}"
