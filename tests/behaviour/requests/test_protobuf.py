"""Protobuf: bodies, answers and watches, of built-in kinds and of Kubernetes' kinds in a CRD."""

from __future__ import annotations

from typing import Any

import pytest

from pykcp.apis.protobuf import message_of
from pykcp.machinery.protobuf.wire import close_envelope, open_envelope, read_fields
from pykcp.testing.client import Reply, TestClient, eventually

LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
PODS = "/api/v1/namespaces/default/pods"
PROTOBUF = "application/vnd.kubernetes.protobuf"
TYPED = f"{PROTOBUF},application/json"
"""What client-go's typed clients send."""
METADATA = "as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
METADATA_LIST = "as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
TEMPLATE = {
    "metadata": {"labels": {"app": "web"}},
    "spec": {
        "containers": [
            {
                "name": "c",
                "image": "web:1",
                "ports": [{"containerPort": 80, "name": "http"}],
                "resources": {"limits": {"cpu": "500m", "memory": "1Gi"}},
                "readinessProbe": {"httpGet": {"path": "/", "port": "http"}},
            }
        ]
    },
}


def read(reply: Reply | bytes, kind: str) -> Any:
    """The object in an enveloped message."""
    if isinstance(reply, Reply):
        assert reply.header("content-type") == PROTOBUF, reply
    api_version, found, raw = open_envelope(reply.body if isinstance(reply, Reply) else reply)
    assert found == kind
    message = message_of(api_version, kind)
    assert message is not None
    return message.read(raw)


def written(api_version: str, kind: str, obj: dict[str, Any]) -> bytes:
    message = message_of(api_version, kind)
    assert message is not None
    return close_envelope(api_version, kind, message.write(obj))


def events(body: bytes) -> list[tuple[str, bytes]]:
    """Types and objects of a stream of watch events."""
    found = []
    while body:
        length = int.from_bytes(body[:4], "big")
        event = dict(read_fields(body[4 : 4 + length]))
        kind, inner = event[1], event[2]
        assert isinstance(kind, bytes)
        assert isinstance(inner, bytes)
        raw = dict(read_fields(inner))[1]
        assert isinstance(raw, bytes)
        found.append((kind.decode(), raw))
        body = body[4 + length :]
    return found


@pytest.fixture
def lease(cluster: TestClient) -> dict[str, Any]:
    body = {"metadata": {"name": "l", "labels": {"a": "b"}}, "spec": {"holderIdentity": "me"}}
    made: dict[str, Any] = cluster.post(LEASES, body).json
    return made


def define(cluster: TestClient, group: str, plural: str, kind: str) -> None:
    """One of Kubernetes' kinds by a CRD that keeps all fields."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}},
    }
    names = {"plural": plural, "singular": kind.lower(), "kind": kind, "listKind": f"{kind}List"}
    spec = {"group": group, "scope": "Namespaced", "names": names, "versions": [version]}
    name = f"{plural}.{group or 'core'}"
    made = cluster.post(CRDS, {"metadata": {"name": name}, "spec": spec})
    assert made.status == 201, made
    prefix = f"/apis/{group}/v1" if group else "/api/v1"
    eventually(lambda: cluster.get(f"{prefix}/namespaces/default/{plural}").status == 200)


def test_answers(cluster: TestClient, lease: dict[str, Any]) -> None:
    """Get, list and refusals, also for clients that would take JSON, too."""
    for accept in (PROTOBUF, TYPED):
        one = read(cluster.get(f"{LEASES}/l", accept=accept), "Lease")
        assert one == {"metadata": lease["metadata"], "spec": {"holderIdentity": "me"}}
        many = read(cluster.get(LEASES, accept=accept), "LeaseList")
        assert many["items"] == [one]
        missing = cluster.get(f"{LEASES}/nosuch", accept=accept)
        assert (missing.status, read(missing, "Status")["reason"]) == (404, "NotFound")
    second = cluster.get(f"{LEASES}/l", accept=f"application/json,{PROTOBUF}")
    assert second.header("content-type") == "application/json"


def test_watch(cluster: TestClient, lease: dict[str, Any]) -> None:
    """Frames with their length in front, each a watch event."""
    reply = cluster.get(LEASES, accept=f"{PROTOBUF};stream=watch", watch="1", timeoutSeconds="1")
    assert reply.header("content-type") == f"{PROTOBUF};stream=watch"
    ((kind, raw),) = events(reply.body)
    assert (kind, read(raw, "Lease")["metadata"]["name"]) == ("ADDED", "l")


def test_metadata(cluster: TestClient, lease: dict[str, Any]) -> None:
    """Metadata of one and of many, of built-in and of custom kinds."""
    define(cluster, "example.com", "things", "Thing")
    things = "/apis/example.com/v1/namespaces/default/things"
    thing = {"kind": "Thing", "apiVersion": "example.com/v1", "metadata": {"name": "t"}}
    made = cluster.post(things, thing).json
    for path, name, known in ((LEASES, "l", lease), (things, "t", made)):
        one = cluster.get(f"{path}/{name}", accept=f"{PROTOBUF};{METADATA},application/json")
        assert read(one, "PartialObjectMetadata") == {"metadata": known["metadata"]}
        many = cluster.get(path, accept=f"{PROTOBUF};{METADATA_LIST},application/json")
        listed = read(many, "PartialObjectMetadataList")
        assert [i["metadata"] for i in listed["items"]] == [known["metadata"]]
        assert int(listed["metadata"]["resourceVersion"]) > 0
        watched = cluster.get(
            path, accept=f"{PROTOBUF};{METADATA};stream=watch", watch="1", timeoutSeconds="1"
        )
        ((_, raw),) = events(watched.body)
        assert read(raw, "PartialObjectMetadata") == {"metadata": known["metadata"]}


def test_other_kinds_are_answered_in_json(cluster: TestClient) -> None:
    """A kind that only a CRD knows has no protobuf form."""
    define(cluster, "example.com", "things", "Thing")
    things = "/apis/example.com/v1/namespaces/default/things"
    assert cluster.get(things, accept=TYPED).header("content-type") == "application/json"
    refused = cluster.get(things, accept=PROTOBUF)
    assert refused.status == 406
    assert "application/json, application/yaml" in read(refused, "Status")["message"]
    assert cluster.post(things, b"x", content_type=PROTOBUF).status == 415


def test_discovery(cluster: TestClient) -> None:
    """All documents of discovery, also the aggregated ones."""
    assert read(cluster.get("/api", accept=TYPED), "APIVersions")["versions"] == ["v1"]
    groups = read(cluster.get("/apis", accept=TYPED), "APIGroupList")["groups"]
    assert "rbac.authorization.k8s.io" in [g["name"] for g in groups]
    path = "/apis/coordination.k8s.io"
    assert read(cluster.get(path, accept=TYPED), "APIGroup")["name"] == "coordination.k8s.io"
    for path in ("/api/v1", "/apis/coordination.k8s.io/v1"):
        as_json = cluster.get(path).json
        as_protobuf = read(cluster.get(path, accept=TYPED), "APIResourceList")
        assert as_protobuf["resources"] == as_json["resources"]
    form = "g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    found = cluster.get("/apis", accept=f"{PROTOBUF};{form},application/json")
    assert found.header("content-type") == f"{PROTOBUF};{form}"
    same = cluster.get("/apis", accept=f"application/json;{form}")
    assert found.header("etag") == same.header("etag")
    _, kind, raw = open_envelope(found.body)
    message = message_of("apidiscovery.k8s.io/v2", kind)
    assert message is not None
    assert message.read(raw)["items"] == same.json["items"]


@pytest.mark.parametrize(
    ("group", "plural", "kind", "spec"),
    [
        ("", "pods", "Pod", TEMPLATE["spec"]),
        (
            "apps",
            "deployments",
            "Deployment",
            {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": TEMPLATE},
        ),
    ],
)
def test_kinds_of_kubernetes_in_a_crd(
    cluster: TestClient, group: str, plural: str, kind: str, spec: dict[str, Any]
) -> None:
    """Typed clients create, read, change, list and watch them in protobuf."""
    define(cluster, group, plural, kind)
    api_version = f"{group}/v1" if group else "v1"
    path = f"/{'apis/' + group if group else 'api'}/v1/namespaces/default/{plural}"
    sent = written(api_version, kind, {"metadata": {"name": "web"}, "spec": spec})
    made = cluster.post(path, sent, content_type=PROTOBUF, accept=TYPED)
    assert made.status == 201, made
    obj = read(made, kind)
    stored = cluster.get(f"{path}/web").json
    assert (stored["kind"], stored["apiVersion"]) == (kind, api_version)
    assert obj["metadata"]["uid"] == stored["metadata"]["uid"]
    obj["metadata"]["labels"] = {"changed": "yes"}
    put = cluster.put(
        f"{path}/web", written(api_version, kind, obj), content_type=PROTOBUF, accept=TYPED
    )
    assert put.status == 200, put
    assert read(put, kind)["metadata"]["labels"] == {"changed": "yes"}
    status = cluster.patch(f"{path}/web/status", {"status": {"phase": "x"}}, accept=TYPED)
    assert status.status == 200, status
    (item,) = read(cluster.get(path, accept=TYPED), f"{kind}List")["items"]
    assert item["metadata"]["labels"] == {"changed": "yes"}
    watched = cluster.get(path, accept=TYPED, watch="1", timeoutSeconds="1")
    ((event, raw),) = events(watched.body)
    assert (event, read(raw, kind)["metadata"]["name"]) == ("ADDED", "web")
    options = written("v1", "DeleteOptions", {"gracePeriodSeconds": 0})
    gone = cluster.delete(f"{path}/web", options, content_type=PROTOBUF, accept=TYPED)
    assert gone.status == 200, gone


def test_objects_that_differ_from_kubernetes_are_answered_in_json(cluster: TestClient) -> None:
    """A CRD may describe the kind with other fields; they have no protobuf form."""
    define(cluster, "apps", "deployments", "Deployment")
    odd = {"kind": "Deployment", "apiVersion": "apps/v1", "metadata": {"name": "odd"}}
    assert cluster.post(DEPLOYMENTS, odd | {"spec": {"replicas": "many"}}).status == 201
    for path in (DEPLOYMENTS, f"{DEPLOYMENTS}/odd"):
        reply = cluster.get(path, accept=TYPED)
        assert (reply.status, reply.header("content-type")) == (200, "application/json")
        assert cluster.get(path, accept=PROTOBUF).status == 406
    watched = cluster.get(DEPLOYMENTS, accept=TYPED, watch="1", timeoutSeconds="1")
    ((event, raw),) = events(watched.body)
    assert (event, read(raw, "Status")["code"]) == ("ERROR", 500)


@pytest.mark.parametrize(
    ("path", "api_version", "kind", "obj"),
    [
        (
            "/api/v1/namespaces/default/serviceaccounts/robot/token",
            "authentication.k8s.io/v1",
            "TokenRequest",
            {"spec": {"expirationSeconds": 3600}},
        ),
        (
            "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
            "authorization.k8s.io/v1",
            "SelfSubjectAccessReview",
            {"spec": {"resourceAttributes": {"verb": "get", "resource": "secrets"}}},
        ),
    ],
)
def test_requests_that_are_answered(
    cluster: TestClient, path: str, api_version: str, kind: str, obj: dict[str, Any]
) -> None:
    """Tokens and reviews."""
    robot = {"metadata": {"name": "robot"}}
    cluster.post("/api/v1/namespaces/default/serviceaccounts", robot)
    sent = written(api_version, kind, obj)
    made = cluster.post(path, sent, content_type=PROTOBUF, accept=TYPED)
    assert made.status == 201, made
    status = read(made, kind)["status"]
    assert status.get("allowed") or status.get("token")


def test_long_lists(cluster: TestClient) -> None:
    """Lists that are encoded in steps, or by a worker process."""
    for number in range(120):
        spec = {"holderIdentity": "x" * 300}
        cluster.post(LEASES, {"metadata": {"name": f"l{number:03}"}, "spec": spec})
    whole = read(cluster.get(LEASES, accept=TYPED), "LeaseList")
    partial = read(
        cluster.get(LEASES, accept=f"{PROTOBUF};{METADATA_LIST}"), "PartialObjectMetadataList"
    )
    names = [f"l{number:03}" for number in range(120)]
    assert [i["metadata"]["name"] for i in whole["items"]] == names
    assert [i["metadata"]["name"] for i in partial["items"]] == names
