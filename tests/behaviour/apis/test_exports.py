"""Exports on a real server: identities, endpoint slices, partitions."""

from __future__ import annotations

import base64
import hashlib

from pykcp.testing.apis import BINDINGS, EXPORTS, RESOURCE, SCHEMAS, SLICES, binding, export, make
from pykcp.testing.apis import schema as a_schema
from pykcp.testing.client import TestClient, eventually
from pykcp.testing.clusters import name_of
from pykcp.types import Object

SECRETS = "/api/v1/namespaces/kcp-system/secrets"


def status_of(client: TestClient, path: str, name: str) -> Object:
    answer = client.get(f"{path}/{name}")
    return answer.json.get("status") or {} if answer.status == 200 else {}


def condition(status: Object, kind: str) -> Object:
    found: Object = next((c for c in status.get("conditions") or () if c["type"] == kind), {})
    return found


def test_an_identity_is_made(provider: TestClient) -> None:
    assert provider.post(EXPORTS, export("e")).status == 201
    eventually(lambda: status_of(provider, EXPORTS, "e").get("identityHash"))
    found = provider.get(f"{EXPORTS}/e").json
    assert found["spec"]["identity"] == {"secretRef": {"namespace": "kcp-system", "name": "e"}}
    key = base64.b64decode(provider.get(f"{SECRETS}/e").json["data"]["key"])
    assert len(base64.urlsafe_b64decode(key + b"=")) == 32
    assert found["status"]["identityHash"] == hashlib.sha256(key).hexdigest()
    assert condition(found["status"], "IdentityValid")["status"] == "True"
    assert "virtualWorkspaces" not in found["status"]


def test_an_identity_can_be_given_later(provider: TestClient) -> None:
    given = {"secretRef": {"namespace": "default", "name": "mine"}}
    assert provider.post(EXPORTS, export("e", identity=given)).status == 201
    eventually(lambda: condition(status_of(provider, EXPORTS, "e"), "IdentityValid"))
    found = condition(status_of(provider, EXPORTS, "e"), "IdentityValid")
    assert (found["reason"], found["message"]) == (
        "IdentityVerificationFailed",
        'secrets "mine" not found',
    )
    secret = {"metadata": {"name": "mine"}, "stringData": {"other": "x"}}
    assert provider.post("/api/v1/namespaces/default/secrets", secret).status == 201
    eventually(
        lambda: (
            condition(status_of(provider, EXPORTS, "e"), "IdentityValid").get("message")
            == "secret is missing data.key"
        )
    )
    path = "/api/v1/namespaces/default/secrets/mine"
    assert provider.patch(path, {"stringData": {"key": "abc"}}).status == 200
    expected = hashlib.sha256(b"abc").hexdigest()
    eventually(lambda: status_of(provider, EXPORTS, "e").get("identityHash") == expected)
    assert provider.patch(path, {"stringData": {"key": "xyz"}}).status == 200
    eventually(
        lambda: (
            condition(status_of(provider, EXPORTS, "e"), "IdentityValid").get("status") == "False"
        )
    )
    other = hashlib.sha256(b"xyz").hexdigest()
    status = status_of(provider, EXPORTS, "e")
    assert condition(status, "IdentityValid")["message"] == (
        f'hash mismatch: identity secret hash "{other}" must match status.identityHash "{expected}"'
    )
    assert status["identityHash"] == expected


def test_a_slice_comes_with_an_export_and_goes_with_it(provider: TestClient) -> None:
    assert provider.post(EXPORTS, export("e")).status == 201
    eventually(lambda: status_of(provider, SLICES, "e").get("conditions"))
    found = provider.get(f"{SLICES}/e").json
    assert found["spec"]["export"]["name"] == "e"
    assert [(c["type"], c["status"]) for c in found["status"]["conditions"]] == [
        ("APIExportValid", "True"),
        ("PartitionValid", "True"),
    ]
    assert provider.delete(f"{SLICES}/e").status == 200
    eventually(lambda: provider.get(f"{SLICES}/e").status == 200)
    skipped = export("without")
    skipped["metadata"]["annotations"] = {"apiexports.apis.kcp.io/skip-endpointslice": ""}
    assert provider.post(EXPORTS, skipped).status == 201
    eventually(lambda: status_of(provider, EXPORTS, "without").get("identityHash"))
    assert provider.get(f"{SLICES}/without").status == 404
    assert provider.delete(f"{EXPORTS}/e").status == 200
    eventually(lambda: provider.get(f"{SLICES}/e").status == 404)


def test_a_slice_has_a_url_while_somebody_binds(cluster: TestClient, provider: TestClient) -> None:
    provider.post(SCHEMAS, a_schema())
    assert provider.post(EXPORTS, export("e", resources=[RESOURCE])).status == 201
    eventually(lambda: status_of(provider, SLICES, "e").get("conditions"))
    assert "endpoints" not in status_of(provider, SLICES, "e")
    assert cluster.post(BINDINGS, binding("b", "e", name_of(provider))).status == 201
    eventually(lambda: status_of(provider, SLICES, "e").get("endpoints"))
    (endpoint,) = status_of(provider, SLICES, "e")["endpoints"]
    assert endpoint["url"].endswith(f"/services/apiexport/{name_of(provider)}/e")
    assert cluster.delete(f"{BINDINGS}/b").status == 200
    eventually(lambda: "endpoints" not in status_of(provider, SLICES, "e"))


def test_a_slice_of_a_missing_partition(root: TestClient) -> None:
    spec = {"export": {"path": "root", "name": "topology.kcp.io"}, "partition": "nowhere"}
    assert root.post(SLICES, make(SLICES, "parted", spec)).status == 201
    eventually(lambda: condition(status_of(root, SLICES, "parted"), "PartitionValid"))
    found = condition(status_of(root, SLICES, "parted"), "PartitionValid")
    assert (found["status"], found["reason"]) == ("False", "PartitionInvalidReference")
    partition = {
        "apiVersion": "topology.kcp.io/v1alpha1",
        "kind": "Partition",
        "metadata": {"name": "nowhere"},
        "spec": {"selector": {"matchLabels": {"region": "moon"}}},
    }
    assert root.post("/apis/topology.kcp.io/v1alpha1/partitions", partition).status == 201
    eventually(lambda: status_of(root, SLICES, "parted").get("shardSelector") == "region=moon")
    assert "endpoints" not in status_of(root, SLICES, "parted")


def test_partitions_follow_the_shards(root: TestClient) -> None:
    sets, parts = (f"/apis/topology.kcp.io/v1alpha1/{k}" for k in ("partitionsets", "partitions"))
    shards = "/apis/core.kcp.io/v1alpha1/shards"
    made = {
        "apiVersion": "topology.kcp.io/v1alpha1",
        "kind": "PartitionSet",
        "metadata": {"name": "regions"},
        "spec": {"dimensions": ["planet"]},
    }
    assert root.post(sets, made).status == 201
    eventually(lambda: condition(status_of(root, sets, "regions"), "PartitionsReady"))
    assert status_of(root, sets, "regions").get("count", 0) == 0
    assert root.patch(f"{shards}/root", {"metadata": {"labels": {"planet": "Mars"}}}).status == 200
    eventually(lambda: status_of(root, sets, "regions").get("count") == 1)

    def owned() -> list[Object]:
        return [p for p in root.get(parts).json["items"] if p["metadata"].get("ownerReferences")]

    (partition,) = owned()
    assert partition["metadata"]["name"].startswith("regions-mars-")
    assert partition["spec"] == {"selector": {"matchLabels": {"planet": "Mars"}}}
    assert root.delete(f"{parts}/{partition['metadata']['name']}").status == 200
    eventually(lambda: owned() and owned() != [partition])
    assert root.patch(f"{shards}/root", {"metadata": {"labels": {"planet": None}}}).status == 200
    eventually(lambda: not owned())
