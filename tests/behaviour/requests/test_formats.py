"""Forms of answers: tables, metadata, YAML, WebSockets, HTTP/2, discovery, OpenAPI."""

from __future__ import annotations

import gzip
import json
import socket
import ssl
from http.client import HTTPSConnection
from typing import Any

import pytest
import yaml
from wsproto import ConnectionType, WSConnection
from wsproto.events import AcceptConnection, Message, Request

from pykcp.machinery.protobuf.wire import read_fields
from pykcp.testing.client import Reply, TestClient
from pykcp.testing.kubeconfig import read_access
from pykcp.testing.server import ServerProcess

MAPS = "/api/v1/namespaces/default/configmaps"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"


def as_form(kind: str, media_type: str = "application/json", version: str = "v1") -> str:
    return f"{media_type};as={kind};v={version};g=meta.k8s.io"


@pytest.fixture
def lease(cluster: TestClient) -> dict[str, Any]:
    body = {"metadata": {"name": "l", "labels": {"a": "b"}}, "spec": {"holderIdentity": "me"}}
    made: dict[str, Any] = cluster.post(LEASES, body).json
    return made


def test_tables(cluster: TestClient, lease: dict[str, Any]) -> None:
    """Columns and cells as kubectl shows them, with as much of the object as asked for."""
    table = cluster.get(LEASES, accept=as_form("Table")).json
    assert (table["kind"], table["apiVersion"]) == ("Table", "meta.k8s.io/v1")
    assert [c["name"] for c in table["columnDefinitions"]] == ["Name", "Holder", "Age"]
    (row,) = table["rows"]
    assert row["cells"][:2] == ["l", "me"]
    assert row["object"]["kind"] == "PartialObjectMetadata"
    whole = cluster.get(f"{LEASES}/l", accept=as_form("Table"), includeObject="Object").json
    assert whole["rows"][0]["object"]["spec"] == {"holderIdentity": "me"}
    bare = cluster.get(LEASES, accept=as_form("Table"), includeObject="None").json
    assert bare["rows"][0]["object"] is None
    assert cluster.get(LEASES, accept=as_form("Table"), includeObject="x").status == 400


def test_partial_metadata(cluster: TestClient, lease: dict[str, Any]) -> None:
    """Only the metadata, of one and of many."""
    one = cluster.get(f"{LEASES}/l", accept=as_form("PartialObjectMetadata")).json
    assert one == {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": lease["metadata"],
    }
    many = cluster.get(LEASES, accept=as_form("PartialObjectMetadataList")).json
    assert many["kind"] == "PartialObjectMetadataList"
    assert many["items"][0]["metadata"] == lease["metadata"]


def test_watches_in_other_forms(cluster: TestClient, lease: dict[str, Any]) -> None:
    """Tables bring their columns once; metadata comes without the rest."""
    tables = cluster.watch(LEASES, accept=as_form("Table"))
    first = next(tables)["object"]
    assert first["columnDefinitions"]
    cluster.patch(f"{LEASES}/l", {"spec": {"holderIdentity": "you"}})
    assert not next(tables)["object"]["columnDefinitions"]
    tables.close()
    partial = cluster.watch(LEASES, accept=as_form("PartialObjectMetadata"))
    assert set(next(partial)["object"]) == {"kind", "apiVersion", "metadata"}
    partial.close()


def test_yaml(cluster: TestClient, lease: dict[str, Any]) -> None:
    """Bodies and answers in YAML say the same as in JSON."""
    reply = cluster.get(f"{LEASES}/l", accept="application/yaml")
    assert reply.header("content-type") == "application/yaml"
    assert yaml.safe_load(reply.body)["spec"] == lease["spec"]
    text = "metadata:\n  name: from-yaml\nspec:\n  holderIdentity: '12:30'\n"
    made = cluster.post(LEASES, text, content_type="application/yaml")
    assert made.status == 201, made
    assert made.json["spec"] == {"holderIdentity": "12:30"}


def test_pretty(cluster: TestClient, lease: dict[str, Any]) -> None:
    """Indented when asked for, with the same content."""
    plain, pretty = cluster.get(f"{LEASES}/l"), cluster.get(f"{LEASES}/l", pretty="true")
    assert pretty.body.startswith(b'{\n  "')
    assert pretty.json == plain.json


def test_websocket_watch(shard: ServerProcess, cluster: TestClient, lease: dict[str, Any]) -> None:
    """A browser's way to watch: one message per event."""
    access = read_access(shard.kubeconfig, "shard-base")
    context = ssl.create_default_context(cadata=access.ca)
    web = WSConnection(ConnectionType.CLIENT)
    target = f"{cluster.prefix}{LEASES}?watch=1"
    headers = [(b"authorization", f"Bearer {access.token}".encode())]
    with (
        socket.create_connection((access.host, access.port), timeout=10) as plain,
        context.wrap_socket(plain, server_hostname=access.host) as secure,
    ):
        secure.sendall(web.send(Request(access.host, target, extra_headers=headers)))
        found: list[Any] = []
        while not any(isinstance(event, Message) for event in found):
            data = secure.recv(65536)
            assert data, found
            web.receive_data(data)
            found += web.events()
    assert isinstance(found[0], AcceptConnection)
    event = json.loads(next(e.data for e in found if isinstance(e, Message)))
    assert (event["type"], event["object"]["metadata"]["name"]) == ("ADDED", "l")


def test_http_versions(shard: ServerProcess) -> None:
    """HTTP/2 for those who offer it, HTTP/1.1 for the others."""
    access = read_access(shard.kubeconfig, "shard-base")
    for offered, chosen in ((["h2", "http/1.1"], "h2"), (["http/1.1"], "http/1.1")):
        context = ssl.create_default_context(cadata=access.ca)
        context.set_alpn_protocols(offered)

        with (
            socket.create_connection((access.host, access.port), timeout=10) as plain,
            context.wrap_socket(plain, server_hostname=access.host) as secure,
        ):
            assert secure.selected_alpn_protocol() == chosen


AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


def test_aggregated_discovery(cluster: TestClient) -> None:
    """All groups in one document, which is not sent again to those who have it."""
    for path in ("/api", "/apis"):
        reply = cluster.get(path, accept=AGGREGATED)
        assert reply.header("content-type") == AGGREGATED
        assert reply.json["kind"] == "APIGroupDiscoveryList"
        tag = reply.header("etag")
        assert tag
        again = cluster.get(path, accept=AGGREGATED, headers={"If-None-Match": tag})
        assert (again.status, again.body) == (304, b"")
    groups = {g["metadata"].get("name") for g in cluster.get("/apis", accept=AGGREGATED).json["items"]}  # fmt: skip
    assert {"coordination.k8s.io", "rbac.authorization.k8s.io", "apiextensions.k8s.io"} <= groups


@pytest.mark.parametrize(
    ("accept", "content_type"),
    [
        (f"application/json, {AGGREGATED}", AGGREGATED),
        (AGGREGATED.replace("v=v2", "v=v1"), ""),
        (AGGREGATED.replace("v=v2", "v=v2beta1"), ""),
        (f"{AGGREGATED.replace('v=v2', 'v=v2beta1')}, application/json", "application/json"),
    ],
)
def test_which_aggregated_form(cluster: TestClient, accept: str, content_type: str) -> None:
    """There is v2 only, and it is preferred to the plain form wherever it is asked for."""
    for path in ("/api", "/apis"):
        reply = cluster.get(path, accept=accept)
        assert (reply.status, reply.header("content-type")) == (
            (200, content_type) if content_type else (406, "application/json")
        )


@pytest.mark.parametrize(
    "path",
    [
        "//apis", "/apis//", "/apis//v1", "/apis//v1/configmaps", "//version", "//healthz", "//openapi/v3",
        "/api//v1", "/api/v1//configmaps", "/apis/rbac.authorization.k8s.io//roles",
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions//status",
    ],
)  # fmt: skip
def test_empty_segments_of_paths(cluster: TestClient, path: str) -> None:
    """They name nothing, rather than the path without them."""
    assert cluster.get(path).status == 404


def test_plain_discovery(cluster: TestClient) -> None:
    """Groups, versions and resources one by one, as old clients ask."""
    assert cluster.get("/api").json["versions"] == ["v1"]
    groups = {g["name"] for g in cluster.get("/apis").json["groups"]}
    assert "coordination.k8s.io" in groups
    group = cluster.get("/apis/coordination.k8s.io").json
    assert group["preferredVersion"]["groupVersion"] == "coordination.k8s.io/v1"
    resources = cluster.get("/apis/coordination.k8s.io/v1").json["resources"]
    (leases,) = [r for r in resources if r["name"] == "leases"]
    assert (leases["kind"], leases["namespaced"]) == ("Lease", True)
    assert set(leases["verbs"]) == {"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}  # fmt: skip
    assert cluster.get("/apis/nosuch.example.com").status == 404


def test_openapi_v3(cluster: TestClient) -> None:
    """The index names documents by their hash; with it they may be kept for ever."""
    paths = cluster.get("/openapi/v3").json["paths"]
    url = paths["apis/coordination.k8s.io/v1"]["serverRelativeURL"]
    assert url.startswith(f"{cluster.prefix}/openapi/v3/apis/coordination.k8s.io/v1?hash=")
    reply = cluster.get(url.removeprefix(cluster.prefix))
    assert "immutable" in (reply.header("cache-control") or "")
    assert "io.k8s.api.coordination.v1.Lease" in reply.json["components"]["schemas"]
    plain = cluster.get("/openapi/v3/apis/coordination.k8s.io/v1")
    assert "immutable" not in (plain.header("cache-control") or "")
    missing = cluster.get("/openapi/v3/apis/nosuch/v1")
    assert (missing.status, missing.body) == (404, b"")
    assert missing.header_all("content-type") == []


def test_openapi_v2(cluster: TestClient) -> None:
    """JSON for people, protobuf for kubectl; both hold the same definitions."""
    document = cluster.get("/openapi/v2").json
    assert document["swagger"] == "2.0"
    assert "io.k8s.api.core.v1.ConfigMap" in document["definitions"]
    accept = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
    reply = cluster.get("/openapi/v2", accept=accept)
    assert (reply.header("content-type") or "").startswith("application/com.github.proto-openapi")
    numbers = {number for number, _ in read_fields(reply.body)}
    assert {1, 2} <= numbers  # swagger and info
    assert b"io.k8s.api.core.v1.ConfigMap" in reply.body


def from_afar(client: TestClient, method: str, path: str, encodings: str, **more: str) -> Reply:
    """A request from another loopback address, which counts as another machine."""
    access = client.access
    context = ssl.create_default_context(cadata=access.ca)
    connection = HTTPSConnection(
        access.host, access.port, timeout=60, context=context, source_address=("127.0.0.2", 0)
    )
    headers = {"Authorization": f"Bearer {access.token}", "Accept-Encoding": encodings, **more}
    connection.request(method, client.prefix + path, headers=headers)
    response = connection.getresponse()
    reply = Reply(response.status, response.getheaders(), response.read())
    connection.close()
    return reply


@pytest.mark.parametrize(
    ("path", "accept"),
    [
        (f"{MAPS}/large", "application/json"),
        (f"{MAPS}/large", "application/yaml"),
        (f"{MAPS}/large?pretty=true", "application/json"),
        (MAPS, "application/json"),
        (MAPS, "application/yaml"),
        (MAPS, "application/vnd.kubernetes.protobuf"),
    ],
)
def test_large_answers_are_compressed_for_other_machines(
    cluster: TestClient, path: str, accept: str
) -> None:
    data = {"text": "abcdefgh" * (40 * 1024)}
    created = cluster.post(MAPS, {"metadata": {"name": "large"}, "data": data})
    assert created.status == 201
    if path == MAPS:  # the same list twice, whatever is written in the meantime
        version = created.json["metadata"]["resourceVersion"]
        path = f"{MAPS}?resourceVersion={version}&resourceVersionMatch=Exact"
    plain = from_afar(cluster, "GET", path, "deflate, gzip;q=0", Accept=accept)
    packed = from_afar(cluster, "GET", path, "br, gzip", Accept=accept)
    assert plain.header("content-encoding") is None
    assert packed.header("content-encoding") == "gzip"
    assert packed.header("vary") == "Accept-Encoding"
    assert len(packed.body) < len(plain.body) / 10
    assert gzip.decompress(packed.body) == plain.body
    near = cluster.get(path, headers={"Accept-Encoding": "gzip"}, accept=accept)
    assert near.header("content-encoding") is None


def test_small_answers_are_not_compressed(cluster: TestClient) -> None:
    data = {"text": "abcdefgh" * 1024}
    assert cluster.post(MAPS, {"metadata": {"name": "small"}, "data": data}).status == 201
    for path in (MAPS, f"{MAPS}/small"):
        assert from_afar(cluster, "GET", path, "gzip").header("content-encoding") is None


def test_a_deleted_object_that_is_returned_is_compressed(cluster: TestClient) -> None:
    data = {"text": "abcdefgh" * (40 * 1024)}
    metadata = {"name": "held", "finalizers": ["example.com/x"]}
    assert cluster.post(MAPS, {"metadata": metadata, "data": data}).status == 201
    reply = from_afar(cluster, "DELETE", f"{MAPS}/held", "gzip")
    assert json.loads(gzip.decompress(reply.body))["metadata"]["deletionTimestamp"]


@pytest.mark.parametrize("path", ["/openapi/v2", "/openapi/v3", "/openapi/v3/api/v1"])
def test_openapi_documents_are_served_in_parts(cluster: TestClient, path: str) -> None:
    """A broken download goes on where it ended, as long as the document is the same."""
    whole = cluster.get(path)
    size, tag = len(whole.body), whole.header("etag") or ""
    start = cluster.get(path, headers={"Range": "bytes=0-9"})
    assert (start.status, start.body) == (206, whole.body[:10])
    assert start.header("content-range") == f"bytes 0-9/{size}"
    rest = cluster.get(path, headers={"Range": "bytes=10-", "If-Range": tag})
    assert (rest.status, rest.body) == (206, whole.body[10:])
    other = cluster.get(path, headers={"Range": "bytes=10-", "If-Range": '"x"'})
    assert (other.status, other.body) == (200, whole.body)
    beyond = cluster.get(path, headers={"Range": f"bytes={size}-"})
    assert (beyond.status, beyond.body) == (416, b"invalid range: failed to overlap\n")
    assert beyond.header("content-range") == f"bytes */{size}"


def test_openapi_documents_are_addressed_by_their_content(cluster: TestClient) -> None:
    """The index names the present hash; a stale one leads to it, and known ones are not sent."""
    name = "apis/rbac.authorization.k8s.io/v1"
    url = cluster.get("/openapi/v3").json["paths"][name]["serverRelativeURL"]
    path = url.removeprefix(cluster.prefix)
    found = cluster.get(path)
    assert (found.status, found.header("cache-control")) == (200, "public, immutable")
    stale = cluster.get(f"/openapi/v3/{name}?hash=ABC")
    assert (stale.status, stale.header("location")) == (301, url)
    tag = found.header("etag")
    for known in (f'"x", {tag}', f"W/{tag}", "*"):
        again = cluster.get(path, headers={"If-None-Match": known})
        assert (again.status, again.body, again.header("content-type")) == (304, b"", None)
    assert cluster.get(path, headers={"If-None-Match": '"x"'}).status == 200
    assert cluster.get(path, headers={"If-Match": '"x"'}).status == 412
    assert cluster.get(f"/openapi/v3/{name}", accept="text/html").status == 406
    for slashed in ("/openapi/v2/", "/openapi/v3/", f"/openapi/v3/{name}/"):
        assert cluster.get(slashed).status == 404
