"""Each part of an installation dies and comes back: only its own logical clusters are affected."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator
from itertools import count

import pytest

from pykcp.testing.client import Reply, TestClient, eventually
from pykcp.testing.sharded import Fleet, fleet
from pykcp.types import Object

WORKSPACES = "/apis/tenancy.kcp.io/v1alpha1/workspaces"
MAPS = "/api/v1/namespaces/default/configmaps"
_numbers = count(1)

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with fleet(pathlib.Path(tmp_path_factory.mktemp("fleet"))) as made:
        yield made


@pytest.fixture
def admin(installation: Fleet) -> TestClient:
    """Through the front-proxy."""
    return installation.client()


def make_workspace(admin: TestClient, parent: str, shard: str) -> str:
    """The path of a new workspace on a shard."""
    name = f"w{next(_numbers)}"
    body: Object = {
        "apiVersion": "tenancy.kcp.io/v1alpha1",
        "kind": "Workspace",
        "metadata": {"name": name},
        "spec": {
            "type": {"name": "universal", "path": "root"},
            "location": {"selector": {"matchLabels": {"name": shard}}},
        },
    }
    client = admin.in_cluster(parent)
    made = eventually(lambda: _done(client.post(WORKSPACES, body)))
    assert made.status == 201, made
    eventually(lambda: _phase(client, name) == "Ready")
    path = f"{parent}:{name}"
    eventually(lambda: admin.in_cluster(path).get(MAPS).status == 200)
    return path


def _done(reply: Reply) -> Reply | None:
    """Shards learn of each other within moments of their start."""
    return None if reply.status in (502, 503) else reply


def _phase(client: TestClient, name: str) -> str:
    phase: str = (client.get(f"{WORKSPACES}/{name}").json.get("status") or {}).get("phase") or ""
    return phase


def write(admin: TestClient, path: str) -> str:
    """The name of a ConfigMap that was written in a workspace."""
    name = f"m{next(_numbers)}"
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}
    reply = admin.in_cluster(path).post(MAPS, body)
    assert reply.status == 201, reply
    return name


def read(admin: TestClient, path: str, name: str) -> int:
    return admin.in_cluster(path).get(f"{MAPS}/{name}").status


@pytest.fixture
def here(admin: TestClient) -> str:
    return make_workspace(admin, "root", "root")


@pytest.fixture
def there(admin: TestClient) -> str:
    return make_workspace(admin, "root", "shard-1")


def test_the_root_shard_dies(installation: Fleet, admin: TestClient, here: str, there: str) -> None:
    """Other shards serve, restart and provision workspaces without it."""
    before = write(admin, here), write(admin, there)
    installation["root"].kill()
    assert read(admin, here, before[0]) in (502, 503)
    meanwhile = write(admin, there)

    installation["shard-1"].kill()
    installation["shard-1"].start()
    eventually(lambda: read(admin, there, meanwhile) == 200)
    below = make_workspace(admin, there, "shard-1")
    written = write(admin, below)

    installation["root"].start()
    eventually(lambda: read(admin, here, before[0]) == 200)
    assert read(admin, there, before[1]) == 200
    assert read(admin, below, written) == 200


def test_a_tree_beside_root(installation: Fleet, admin: TestClient) -> None:
    """It is found through the proxy, and grows, while root is away."""
    cluster = "/apis/core.kcp.io/v1alpha1/logicalclusters"
    bindings = "/apis/apis.kcp.io/v1alpha2/apibindings"
    master = installation.client("shard-1", "acme")
    annotations = {"kcp.io/path": "acme", "internal.tenancy.kcp.io/type": "root:universal"}
    made = {
        "apiVersion": "core.kcp.io/v1alpha1",
        "kind": "LogicalCluster",
        "metadata": {"name": "cluster", "annotations": annotations},
        "spec": {},
    }
    assert master.post(cluster, made).status == 201
    status = {"status": {"phase": "Initializing"}}
    assert master.patch(f"{cluster}/cluster/status", status).status == 200
    binding = {
        "apiVersion": "apis.kcp.io/v1alpha2",
        "kind": "APIBinding",
        "metadata": {"name": "tenancy.kcp.io"},
        "spec": {"reference": {"export": {"path": "root", "name": "tenancy.kcp.io"}}},
    }
    assert master.post(bindings, binding).status == 201
    eventually(lambda: master.get(WORKSPACES).status == 200)

    installation["root"].kill()
    try:
        team = make_workspace(admin, "acme", "shard-1")
        below = make_workspace(admin, team, "shard-1")
        assert read(admin, below, write(admin, below)) == 200
    finally:
        installation["root"].start()


def test_a_shard_dies(installation: Fleet, admin: TestClient, here: str, there: str) -> None:
    before = write(admin, here), write(admin, there)
    installation["shard-1"].kill()
    assert read(admin, there, before[1]) in (502, 503)
    meanwhile = write(admin, here)

    installation["shard-1"].start()
    eventually(lambda: read(admin, there, before[1]) == 200)
    assert read(admin, here, meanwhile) == 200


def test_the_cache_dies_and_loses_everything(
    installation: Fleet, admin: TestClient, here: str, there: str
) -> None:
    before = write(admin, here), write(admin, there)
    cache = installation["cache"]
    cache.kill()
    for file in cache.root.glob("cache.db*"):
        file.unlink()
    below = make_workspace(admin, there, "shard-1")
    across = make_workspace(admin, here, "shard-1")
    for shard in installation.shards:
        installation[shard].kill()
        installation[shard].start()
    eventually(lambda: read(admin, here, before[0]) == 200)
    eventually(lambda: read(admin, there, before[1]) == 200)

    cache.start()
    for path in (here, there, below, across):
        assert read(admin, path, write(admin, path)) == 200
    assert make_workspace(admin, across, "root")


def test_the_proxy_starts_without_root(installation: Fleet, admin: TestClient, there: str) -> None:
    """It remembers the shards that it knew."""
    before = write(admin, there)
    cluster = _cluster_of(admin, there)
    installation["root"].kill()
    installation["front-proxy"].kill()
    installation["front-proxy"].start()
    eventually(lambda: read(admin, cluster, before) == 200)
    installation["root"].start()
    eventually(lambda: read(admin, there, before) == 200)


def _cluster_of(admin: TestClient, path: str) -> str:
    found = admin.in_cluster(path).get("/apis/core.kcp.io/v1alpha1/logicalclusters/cluster").json
    cluster: str = found["metadata"]["annotations"]["kcp.io/cluster"]
    return cluster


def test_a_shard_that_does_not_answer(
    installation: Fleet, admin: TestClient, here: str, there: str
) -> None:
    """It is stopped, so that its connections stay open."""
    before = write(admin, here)
    installation["shard-1"].pause()
    try:
        for _ in range(5):
            assert read(admin, here, before) == 200
        assert make_workspace(admin, here, "root")
    finally:
        installation["shard-1"].resume()
    eventually(lambda: read(admin, there, write(admin, there)) == 200)


def test_a_silent_shard_may_have_protected_workspaces(
    installation: Fleet, admin: TestClient
) -> None:
    """What is below it is not deleted as long as that cannot be told; everything else is."""
    top = make_workspace(admin, "root", "root")
    child = make_workspace(admin, top, "shard-1")
    protected = make_workspace(admin, child, "shard-1")
    alone = make_workspace(admin, "root", "root")
    below = make_workspace(admin, alone, "root")
    name = protected.rpartition(":")[2]
    patch = {"metadata": {"annotations": {"tenancy.pykcp.io/deletion-protection": "true"}}}
    assert admin.in_cluster(child).patch(f"{WORKSPACES}/{name}", patch).status == 200
    root = admin.in_cluster("root")
    path = f"{WORKSPACES}/{top.rpartition(':')[2]}"
    installation["shard-1"].kill()
    try:
        refused = root.delete(path)
        assert refused.status == 503, refused
        assert 'shard "shard-1" does not answer' in refused.json["message"]
        assert root.delete(f"{WORKSPACES}/{alone.rpartition(':')[2]}").status == 200
        eventually(lambda: admin.in_cluster(below).get(MAPS).status == 403)
    finally:
        installation["shard-1"].start()
    eventually(lambda: root.delete(path).status == 403)
    assert f"workspace {protected} in it is protected" in root.delete(path).json["message"]
