"""kcp's kinds with parts missing or of the wrong type, by every write verb: refused or accepted,
never an internal error, a traceback or a controller that fails again and again.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pykcp.testing.client import APPLY, JSON_PATCH, MERGE, Reply, TestClient, eventually
from pykcp.testing.faults.malformed import CLUSTER, SAMPLES, SHARD, KindSample, variants
from pykcp.testing.rights import grant
from pykcp.testing.server import ServerProcess, server
from pykcp.testing.workspaces import WORKSPACES, inside, make_workspace
from pykcp.types import Object

UPSTREAM_FAILS = (
    # Upstream answers 500 to these as well: the error has no status of its own.
    "failed to create typed patch object",
    "must have at least 3 dot-separated segments",
    "spec.baseURL is required",
)
MIGRATION: Object = {
    "apiVersion": "apis.kcp.io/v1alpha2",
    "kind": "APIBinding",
    "metadata": {"name": "migration"},
    "spec": {"reference": {"export": {"path": "root", "name": "migration.kcp.io"}}},
}


@pytest.fixture(scope="module")
def shard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    directory = tmp_path_factory.mktemp("malformed")
    tokens = directory / "tokens.csv"
    tokens.write_text("mallory-token,mallory,m1\n")
    flags = (
        "--feature-gates=CacheAPIs=true,LogicalClusterMigration=true",
        f"--token-auth-file={tokens}",
    )
    with server(*flags, directory=directory) as process:
        yield process


def check(reply: Reply) -> None:
    if reply.status >= 500:
        assert any(text in reply.json["message"] for text in UPSTREAM_FAILS), reply


def write(client: TestClient, sample: KindSample, number: int, spec: object) -> None:
    """A new object, and one of the other verbs on it or on a good one."""
    obj = sample.make(number, spec=spec)
    name, good = obj["metadata"]["name"], sample.name.format("m0")
    check(client.post(sample.path, obj))
    match number % 4:
        case 0:
            check(client.put(f"{sample.path}/{name}", obj))
        case 1:
            check(client.patch(f"{sample.path}/{good}", {"spec": spec}, MERGE))
        case 2:
            steps = [{"op": "add", "path": "/spec", "value": spec}]
            check(client.request("PATCH", f"{sample.path}/{good}", steps, JSON_PATCH))
        case _:
            applied = {**obj, "metadata": {"name": f"a{name}"}}
            path = f"{sample.path}/a{name}"
            check(client.patch(path, applied, APPLY, fieldManager="test"))


def write_status(client: TestClient, sample: KindSample, number: int, status: object) -> None:
    path = f"{sample.path}/{sample.name.format('m0')}"
    if number % 2:
        check(client.patch(f"{path}/status", {"status": status}))
    else:
        live = client.get(path)
        if live.status == 200:
            check(client.put(f"{path}/status", {**live.json, "status": status}))


def assert_quiet(shard: ServerProcess) -> None:
    """No controller has work that is due, and none has failed over an object."""

    def is_idle() -> bool:
        text = shard.client().get("/metrics", accept="text/plain").body.decode()
        lines = [line for line in text.splitlines() if line.startswith("workqueue_depth{")]
        return bool(lines) and all(line.endswith((" 0", " 0.0")) for line in lines)

    eventually(is_idle)
    log = shard.log()
    assert "Traceback" not in log, log[log.index("Traceback") - 500 :][:3000]
    assert " failed, again in " not in log


@pytest.mark.parametrize(
    "third", [0, *(pytest.param(number, marks=pytest.mark.slow) for number in (1, 2))]
)
@pytest.mark.parametrize(
    "sample",
    SAMPLES,
    ids=lambda s: f"{s.plural.rpartition('/')[2]}-{s.version.rpartition('/')[2]}-{s.name}",
)
def test_objects_of_every_shape(
    shard: ServerProcess, root: TestClient, sample: KindSample, third: int
) -> None:
    """Each third has several wrong types in every place."""
    name = f"w{SAMPLES.index(sample)}-{third}"
    make_workspace(root, name)
    client = inside(root, name)
    if sample.version.startswith("migration"):
        assert client.post("/apis/apis.kcp.io/v1alpha2/apibindings", MIGRATION).status == 201
        eventually(lambda: client.get(sample.path).status in (200, 405))
    check(client.post(sample.path, sample.make(0, spec=sample.spec)))
    check(client.post(sample.path, sample.make(1)))
    for number, spec in enumerate(list(variants(sample.spec))[third::3], 2):
        write(client, sample, number, spec)
    for number, status in enumerate(
        list(variants(sample.status) if sample.status else ())[third::3]
    ):
        write_status(client, sample, number, status)
    assert_quiet(shard)
    # and all of it can be deleted
    assert root.delete(f"{WORKSPACES}/{name}").status == 200
    eventually(lambda: root.get(f"{WORKSPACES}/{name}").status == 404, 60)
    assert_quiet(shard)


def test_logical_clusters_of_every_shape(shard: ServerProcess, root: TestClient) -> None:
    make_workspace(root, "itself")
    for group in ("core.kcp.io", "apis.kcp.io"):
        grant(inside(root, "itself"), "mallory", "*", "*", group)
    client = inside(root, "itself").with_token("mallory-token")
    path = f"{CLUSTER.path}/cluster"
    for spec in variants(CLUSTER.spec):
        check(client.patch(path, {"spec": spec}))
    for number, status in enumerate(variants(CLUSTER.status or {})):
        write_status(client, CLUSTER, number, status)
    assert_quiet(shard)


def test_shards_of_every_shape(shard: ServerProcess, root: TestClient) -> None:
    for number, spec in enumerate(variants(SHARD.spec), 2):
        write(root, SHARD, number, spec)
        for name in (f"m{number}", f"am{number}"):
            root.delete(f"{SHARD.path}/{name}")
    answer = root.post(SHARD.path, SHARD.make(0, spec={"baseURL": ["https://a"]}))
    assert answer.status == 422, answer
    assert "spec.baseURL: Invalid value" in answer.json["message"]
    assert_quiet(shard)


def test_exports_without_a_spec_are_exports_of_nothing(
    shard: ServerProcess, root: TestClient
) -> None:
    """`spec` is optional in upstream's schema: such an export gets an identity as any other."""
    make_workspace(root, "specless")
    client = inside(root, "specless")
    for version in ("v1alpha1", "v1alpha2"):
        exports = f"/apis/apis.kcp.io/{version}/apiexports"
        body: Object = {"apiVersion": f"apis.kcp.io/{version}", "kind": "APIExport"}
        made = client.post(exports, {**body, "metadata": {"name": f"none-{version}"}})
        assert made.status == 201, made

        def is_ready(path: str = f"{exports}/none-{version}") -> bool:
            found = client.get(path).json
            return bool((found.get("status") or {}).get("identityHash"))

        eventually(is_ready)
    refused = client.post(exports, {**body, "metadata": {"name": "text"}, "spec": "text"})
    assert refused.status == 422, refused
    assert_quiet(shard)


@pytest.mark.parametrize("view", ["apiexport", "replication", "initializingworkspaces"])
def test_views_of_what_is_not_there(shard: ServerProcess, view: str) -> None:
    client = shard.client()
    places = ("root/nothing", "nowhere/nothing", "root:nowhere/x", "/", "root", "root/", "*/x")
    paths = ("", "/clusters/*", "/clusters/root", "/clusters/*/apis", "/clusters/*/api/v1/secrets")
    methods = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "NONSENSE")
    for place, path, method in (
        (place, path, method) for place in places for path in paths for method in methods
    ):
        client.prefix = f"/services/{view}/{place}"
        body = "{}" if method in ("POST", "PUT", "PATCH") else None
        reply = client.request(method, path, body)
        assert reply.status < 500, (view, place, path, method, reply)
    assert "Traceback" not in shard.log()


def test_what_names_an_export_that_is_not_there(shard: ServerProcess, root: TestClient) -> None:
    make_workspace(root, "lonely")
    client = inside(root, "lonely")
    reference = {"export": {"name": "nothing"}}
    bodies = {
        "v1alpha2/apibindings": {"reference": reference},
        "v1alpha1/apibindings": {"reference": reference},
        "v1alpha1/apiexportendpointslices": reference,
    }
    for number, (where, spec) in enumerate(bodies.items()):
        kind = "APIBinding" if "binding" in where else "APIExportEndpointSlice"
        body = {
            "apiVersion": f"apis.kcp.io/{where.partition('/')[0]}",
            "kind": kind,
            "metadata": {"name": f"b{number}"},
            "spec": spec,
        }
        made = client.post(f"/apis/apis.kcp.io/{where}", body)
        assert made.status == 201, made

        def is_told(path: str = f"/apis/apis.kcp.io/{where}/b{number}") -> bool:
            conditions = (client.get(path).json.get("status") or {}).get("conditions") or ()
            return any(
                (c["type"], c["status"], c["reason"])
                == ("APIExportValid", "False", "APIExportNotFound")
                for c in conditions
                if c["status"] == "False"
            )

        eventually(is_told)
    assert_quiet(shard)
