"""Virtual resources: what a consumer binds and somebody else holds."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest

from pykcp.machinery.kcp.endpoints import HOPS_HEADER
from pykcp.testing.client import MERGE, TestClient, eventually
from pykcp.testing.clusters import make_cluster, name_of
from pykcp.testing.https import HTTPSServer
from pykcp.testing.rights import grant
from pykcp.testing.server import ServerProcess, server

APIS = "/apis/apis.kcp.io"
CACHE = "/apis/cache.kcp.io/v1alpha1"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
SHERIFFS = "/apis/wild.west/v1/sheriffs"
LOOPS = "/apis/loop.io/v1/loops"
ANYTHING = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def names(plural: str) -> dict[str, str]:
    kind = plural[:-1].capitalize()
    return {
        "plural": plural,
        "singular": plural[:-1],
        "kind": kind,
        "listKind": f"{kind}List",
    }


def define(client: TestClient, plural: str, group: str) -> None:
    """A cluster-wide resource: as a CRD, and as a schema."""
    version = {"name": "v1", "served": True, "storage": True}
    spec = {"group": group, "scope": "Cluster", "names": names(plural)}
    crd_version = {**version, "schema": {"openAPIV3Schema": ANYTHING}}
    crd = {"metadata": {"name": f"{plural}.{group}"}, "spec": {**spec, "versions": [crd_version]}}
    assert client.post(CRDS, crd).status == 201
    schema = {
        "apiVersion": "apis.kcp.io/v1alpha1",
        "kind": "APIResourceSchema",
        "metadata": {"name": f"today.{plural}.{group}"},
        "spec": {**spec, "versions": [{**version, "schema": ANYTHING}]},
    }
    made = client.post(f"{APIS}/v1alpha1/apiresourceschemas", schema)
    assert made.status == 201, made
    eventually(lambda: client.get(f"/apis/{group}/v1/{plural}").status == 200)


def export_virtual(
    client: TestClient, plural: str, group: str, reference: dict[str, str], identity: str
) -> None:
    storage = {"virtual": {"reference": reference, "identityHash": identity}}
    resource = {
        "name": plural,
        "group": group,
        "schema": f"today.{plural}.{group}",
        "storage": storage,
    }
    body = {
        "apiVersion": "apis.kcp.io/v1alpha2",
        "kind": "APIExport",
        "metadata": {"name": plural},
        "spec": {"resources": [resource]},
    }
    made = client.post(f"{APIS}/v1alpha2/apiexports", body)
    assert made.status == 201, made


def bind(consumer: TestClient, provider: TestClient, name: str) -> None:
    body = {
        "apiVersion": "apis.kcp.io/v1alpha2",
        "kind": "APIBinding",
        "metadata": {"name": name},
        "spec": {"reference": {"export": {"path": name_of(provider), "name": name}}},
    }
    path = f"{APIS}/v1alpha2/apibindings"
    eventually(lambda: consumer.post(path, body).status in (201, 409))
    eventually(lambda: is_bound(consumer, f"{path}/{name}"))


def is_bound(client: TestClient, path: str) -> bool:
    return bool((client.get(path).json.get("status") or {}).get("phase") == "Bound")


def sheriff(name: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "wild.west/v1",
        "kind": "Sheriff",
        "metadata": {"name": name},
        "spec": spec,
    }


def conditions(client: TestClient, path: str) -> dict[str, str]:
    status = client.get(path).json.get("status") or {}
    return {c["type"]: c["status"] for c in status.get("conditions") or ()}


@pytest.fixture(scope="module")
def provider(shard: ServerProcess) -> TestClient:
    return make_provider(shard)


def make_provider(shard: ServerProcess) -> TestClient:
    """A workspace whose sheriffs are cached and exported."""
    client = make_cluster(shard, "sheriffs-provider")
    define(client, "sheriffs", "wild.west")
    cached = {
        "apiVersion": "cache.kcp.io/v1alpha1",
        "kind": "ClusterCachedResource",
        "metadata": {"name": "sheriffs"},
        "spec": {"group": "wild.west", "version": "v1", "resource": "sheriffs"},
    }
    assert client.post(f"{CACHE}/clustercachedresources", cached).status == 201
    path = f"{CACHE}/clustercachedresources/sheriffs"
    eventually(lambda: conditions(client, path).get("ReplicationStarted") == "True")
    identity = client.get(path).json["status"]["identityHash"]
    reference = {
        "apiGroup": "cache.kcp.io",
        "kind": "ClusterCachedResourceEndpointSlice",
        "name": "sheriffs",
    }
    export_virtual(client, "sheriffs", "wild.west", reference, identity)
    body = {
        "apiVersion": "cache.kcp.io/v1alpha1",
        "kind": "ClusterCachedResourceEndpointSlice",
        "metadata": {"name": "sheriffs"},
        "spec": {"clusterCachedResource": {"name": "sheriffs"}, "export": {"name": "sheriffs"}},
    }
    assert client.post(f"{CACHE}/clustercachedresourceendpointslices", body).status == 201
    return client


@pytest.fixture(scope="module")
def consumer(shard: ServerProcess, provider: TestClient) -> TestClient:
    return make_consumer(shard, provider)


def make_consumer(shard: ServerProcess, provider: TestClient) -> TestClient:
    client = make_cluster(shard, "sheriffs-consumer")
    bind(client, provider, "sheriffs")
    slice_path = f"{CACHE}/clustercachedresourceendpointslices/sheriffs"
    eventually(lambda: (provider.get(slice_path).json.get("status") or {}).get("endpoints"))
    return client


def test_slices_say_where(provider: TestClient, consumer: TestClient) -> None:
    path = f"{CACHE}/clustercachedresourceendpointslices/sheriffs"
    found = provider.get(path).json["status"]
    (endpoint,) = found["endpoints"]
    assert endpoint["url"].endswith(f"/services/replication/{name_of(provider)}/sheriffs")
    assert conditions(provider, path) == {
        "ResourceValid": "True",
        "APIExportValid": "True",
        "PartitionValid": "True",
    }


def test_slices_that_lead_nowhere(cluster: TestClient) -> None:
    path = f"{CACHE}/clustercachedresourceendpointslices"
    body = {
        "apiVersion": "cache.kcp.io/v1alpha1",
        "kind": "ClusterCachedResourceEndpointSlice",
        "metadata": {"name": "lost"},
        "spec": {"clusterCachedResource": {"name": "no"}, "export": {"name": "no"}},
    }
    assert cluster.post(path, body).status == 201
    eventually(lambda: conditions(cluster, f"{path}/lost").get("ResourceValid") == "False")
    (condition,) = cluster.get(f"{path}/lost").json["status"]["conditions"]
    assert condition["reason"] == "ClusterCachedResourceNotFound"
    assert condition["message"] == f"Error getting ClusterCachedResource {name_of(cluster)}|no"


def test_consumers_read_what_the_provider_made(provider: TestClient, consumer: TestClient) -> None:
    made = provider.post(SHERIFFS, sheriff("wyatt", town="Tombstone"))
    assert made.status == 201, made
    eventually(lambda: consumer.get(f"{SHERIFFS}/wyatt").status == 200)
    seen = consumer.get(f"{SHERIFFS}/wyatt").json
    original = provider.get(f"{SHERIFFS}/wyatt").json
    assert (seen["kind"], seen["apiVersion"]) == ("Sheriff", "wild.west/v1")
    assert seen["spec"] == original["spec"]
    assert seen["metadata"]["uid"] == original["metadata"]["uid"]
    assert seen["metadata"]["annotations"] == {"kcp.io/cluster": name_of(consumer)}
    listed = consumer.get(SHERIFFS).json
    assert (listed["kind"], listed["apiVersion"]) == ("SheriffList", "wild.west/v1")
    assert [item["metadata"]["name"] for item in listed["items"]] == ["wyatt"]
    table = consumer.get(SHERIFFS, accept="application/json;as=Table;v=v1;g=meta.k8s.io").json
    assert table["rows"][0]["cells"][0] == "wyatt"
    assert consumer.get(SHERIFFS, labelSelector="a=b").json["items"] == []
    assert consumer.get(f"{SHERIFFS}/doc").status == 404


def test_consumers_watch(shard: ServerProcess, provider: TestClient, consumer: TestClient) -> None:
    """Each sees the objects as its own."""
    other = make_cluster(shard, "sheriffs-other")
    bind(other, provider, "sheriffs")
    clients = (consumer, other)
    since = [c.get(SHERIFFS).json["metadata"]["resourceVersion"] for c in clients]
    watches = [c.watch(SHERIFFS, resourceVersion=s) for c, s in zip(clients, since, strict=True)]
    provider.post(SHERIFFS, sheriff("pat"))
    provider.patch(f"{SHERIFFS}/pat", {"spec": {"town": "Lincoln"}}, MERGE)
    provider.delete(f"{SHERIFFS}/pat")
    for client, events in zip(clients, watches, strict=True):
        seen = []
        for event in events:
            if event["object"]["metadata"]["name"] != "pat":
                continue
            seen.append(event["type"])
            annotations = event["object"]["metadata"]["annotations"]
            assert annotations == {"kcp.io/cluster": name_of(client)}
            if event["type"] == "DELETED":
                break
        events.close()  # type: ignore[attr-defined]
        assert seen[0] == "ADDED"
        assert seen[-1] == "DELETED"


def test_nothing_can_be_written(consumer: TestClient) -> None:
    verbs = consumer.get("/apis/wild.west/v1").json["resources"]
    assert [(one["name"], one["verbs"]) for one in verbs] == [
        ("sheriffs", ["get", "list", "watch"])
    ]
    alice = consumer.with_token("alice-token")
    grant(consumer, "alice", "*", "sheriffs", "wild.west")
    for reply in (
        alice.post(SHERIFFS, sheriff("mine")),
        alice.delete(f"{SHERIFFS}/wyatt"),
        alice.patch(f"{SHERIFFS}/wyatt", {"spec": {}}, MERGE),
    ):
        assert reply.status == 403, reply


def test_readers_need_the_content_of_the_export(provider: TestClient, consumer: TestClient) -> None:
    grant(consumer, "bob", "get", "sheriffs", "wild.west")
    bob = consumer.with_token("bob-token")
    assert bob.get(f"{SHERIFFS}/wyatt").status == 403
    grant(provider, "bob", "get", "apiexports/content", "apis.kcp.io", "sheriffs")
    eventually(lambda: bob.get(f"{SHERIFFS}/wyatt").status in (200, 404))
    assert bob.get(SHERIFFS).status == 403


def test_the_view_itself(shard: ServerProcess, provider: TestClient, consumer: TestClient) -> None:
    base = f"/services/replication/{name_of(provider)}/sheriffs/clusters"
    client = shard.client()
    client.prefix = f"{base}/{name_of(consumer)}"
    assert client.get(SHERIFFS).status == 200
    client.prefix = f"{base}/*"
    refused = client.get(SHERIFFS)
    assert refused.status == 400
    assert refused.json["message"] == "Wildcard request not supported"


def test_definitions_cannot_take_bound_names(consumer: TestClient) -> None:
    version = {"name": "v1", "served": True, "storage": True}
    body = {
        "metadata": {"name": "sheriffs.wild.west"},
        "spec": {
            "group": "wild.west",
            "scope": "Cluster",
            "names": names("sheriffs"),
            "versions": [{**version, "schema": {"openAPIV3Schema": ANYTHING}}],
        },
    }
    assert consumer.post(CRDS, body).status == 201
    path = f"{CRDS}/sheriffs.wild.west"
    eventually(lambda: conditions(consumer, path).get("NamesAccepted") == "False")
    assert consumer.get(f"{SHERIFFS}/wyatt").status in (200, 404)


@pytest.fixture
def places(cluster: TestClient) -> TestClient:
    """A provider whose resource is wherever an object of its own kind says."""
    define(cluster, "places", "loop.io")
    define(cluster, "loops", "loop.io")
    reference = {"apiGroup": "loop.io", "kind": "Place", "name": "here"}
    export_virtual(cluster, "loops", "loop.io", reference, "x")
    return cluster


def put_place(client: TestClient, status: dict[str, Any] | None) -> None:
    body: dict[str, Any] = {
        "apiVersion": "loop.io/v1",
        "kind": "Place",
        "metadata": {"name": "here"},
    }
    if status is not None:
        body["status"] = status
    made = client.post("/apis/loop.io/v1/places", body)
    assert made.status == 201, made


def test_resources_without_a_place(shard: ServerProcess, places: TestClient) -> None:
    consumer = make_cluster(shard, f"{name_of(places)}-consumer")
    bind(consumer, places, "loops")
    missing = consumer.get(LOOPS)
    assert missing.status == 500
    assert missing.json["message"] == (
        'Internal error occurred: error resolving resource: places.loop.io "here" not found'
    )
    put_place(places, None)
    assert consumer.get(LOOPS).json["message"] == (
        "Internal error occurred: error resolving resource loops.loop.io; "
        "please contact APIExport owner to resolve"
    )
    places.patch(
        "/apis/loop.io/v1/places/here",
        {"status": {"endpoints": [{"url": "https://elsewhere.example"}]}},
        MERGE,
    )
    assert "no URLs match prefix" in consumer.get(LOOPS).json["message"]


def test_requests_that_go_in_circles(shard: ServerProcess, places: TestClient) -> None:
    consumer = make_cluster(shard, f"{name_of(places)}-consumer")
    bind(consumer, places, "loops")
    own = shard.client(cluster="root").get("/apis/core.kcp.io/v1alpha1/shards/root").json
    url = f"{own['spec']['virtualWorkspaceURL']}/services/apiexport/{name_of(places)}/loops"
    put_place(places, {"endpoints": [{"url": url, "shards": {"matchAll": True}}]})
    expected = "request for loops.loop.io has been forwarded 4 times without being served"
    for headers in ({}, {HOPS_HEADER: "4"}, {HOPS_HEADER: "many"}):
        reply = consumer.get(LOOPS, headers=headers)
        assert reply.status == 500, reply
        assert expected in reply.json["message"]


def test_a_place_elsewhere(shard: ServerProcess, places: TestClient) -> None:
    """Nobody answers there, and nobody's certificate is taken for granted."""
    consumer = make_cluster(shard, f"{name_of(places)}-consumer")
    bind(consumer, places, "loops")
    put_place(places, {"endpoints": [{"url": "https://127.0.0.1:1", "shards": {"matchAll": True}}]})
    assert consumer.get(LOOPS).status == 502


def test_what_a_place_elsewhere_is_told(
    shard: ServerProcess, places: TestClient, elsewhere: HTTPSServer
) -> None:
    """Who asks, but nothing with which it could ask itself."""
    consumer = make_cluster(shard, f"{name_of(places)}-consumer")
    bind(consumer, places, "loops")
    endpoint = {"url": f"{elsewhere.url}/base", "shards": {"matchAll": True}}
    put_place(places, {"endpoints": [endpoint]})
    path = f"/base/clusters/{name_of(consumer)}{LOOPS}"
    elsewhere.on(path, lambda _: {"kind": "LoopList", "items": []})
    grant(consumer, "alice", "list", "loops", "loop.io")
    alice = consumer.with_token("alice-token")
    found = alice.get(LOOPS, headers={"X-Remote-User": "admin", "Cookie": "a=b"})
    assert (found.status, found.json["kind"]) == (200, "LoopList")
    (received,) = [r for r in elsewhere.received if r.path == path]
    assert received.headers["x-remote-user"] == "alice"
    assert not received.headers.keys() & {"authorization", "cookie"}


def test_places_where_nothing_is_sent(shard: ServerProcess, places: TestClient) -> None:
    """Servers that the operator does not vouch for, and this one."""
    consumer = make_cluster(shard, f"{name_of(places)}-consumer")
    bind(consumer, places, "loops")
    stranger = HTTPSServer()
    try:
        own = f"https://127.0.0.1:{shard.port}/clusters/root"
        plain = f"http://127.0.0.1:{stranger.port}"
        put_place(places, {})
        for url in (stranger.url, own, plain, "https://169.254.169.254"):
            endpoints = [{"url": url, "shards": {"matchAll": True}}]
            places.patch(
                "/apis/loop.io/v1/places/here", {"status": {"endpoints": endpoints}}, MERGE
            )
            assert consumer.get(LOOPS).status == 502, url
        assert stranger.received == []
    finally:
        stranger.close()


def test_without_the_gate_nothing_is_virtual(tmp_path: pathlib.Path) -> None:
    with server(directory=tmp_path) as process:
        provider = make_cluster(process, "provider")
        define(provider, "places", "loop.io")
        define(provider, "loops", "loop.io")
        reference = {"apiGroup": "loop.io", "kind": "Place", "name": "here"}
        export_virtual(provider, "loops", "loop.io", reference, "x")
        consumer = make_cluster(process, "consumer")
        bind(consumer, provider, "loops")
        loop = {"apiVersion": "loop.io/v1", "kind": "Loop", "metadata": {"name": "mine"}}
        assert consumer.post(LOOPS, loop).status == 201
        assert consumer.get(f"{LOOPS}/mine").status == 200


def test_through_the_view_of_the_export(
    shard: ServerProcess, provider: TestClient, consumer: TestClient
) -> None:
    """A provider reads them with its consumers, one at a time."""
    provider.post(SHERIFFS, sheriff("bat"))
    client = shard.client()
    base = f"/services/apiexport/{name_of(provider)}/sheriffs/clusters"
    client.prefix = f"{base}/{name_of(consumer)}"
    eventually(lambda: client.get(f"{SHERIFFS}/bat").status == 200)
    seen = client.get(f"{SHERIFFS}/bat").json
    assert seen["metadata"]["annotations"] == {"kcp.io/cluster": name_of(consumer)}
    client.prefix = f"{base}/*"
    assert client.get(SHERIFFS).json["message"] == "Wildcard request not supported"
    identity = provider.get(f"{APIS}/v1alpha2/apiexports/sheriffs").json["status"]["identityHash"]
    everywhere = shard.client(cluster="*").get(f"{SHERIFFS}:{identity}")
    assert everywhere.status == 400


def test_nothing_is_missing_while_the_cache_is_filled(tmp_path: pathlib.Path) -> None:
    """As after an import or a restore: a shorter list would be taken for deletions."""
    count, gates = 400, "--feature-gates=CacheAPIs=true"
    with server(gates, directory=tmp_path) as process:
        provider = make_provider(process)
        consumer = make_consumer(process, provider)
        for number in range(count):
            assert provider.post(SHERIFFS, sheriff(f"n{number}")).status == 201
        eventually(lambda: len(consumer.get(SHERIFFS).json["items"]) == count)
    for file in process.root.glob("cache.db*"):
        file.unlink()
    refused = []
    # The same address as before: the endpoint slices name it.
    with server(gates, directory=tmp_path, port=process.port) as process:
        consumer = process.client(cluster=name_of(consumer))
        while (reply := consumer.get(SHERIFFS)).status != 200:
            refused.append(reply)
        assert len(reply.json["items"]) == count
        assert consumer.get(f"{SHERIFFS}/n1").status == 200
    assert refused
    for reply in refused:
        assert reply.status == 429, reply
        assert reply.header("retry-after") == "1"
        assert reply.json["reason"] == "TooManyRequests"
        assert reply.json["message"] == "storage is (re)initializing"
