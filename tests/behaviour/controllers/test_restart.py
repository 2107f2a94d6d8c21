"""Work that a crash interrupts goes on when the server is back."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator

import pytest

from pykcp.testing.client import MERGE, TestClient, eventually
from pykcp.testing.clusters import make_cluster
from pykcp.testing.server import ServerProcess, server

DEPENDENTS = 100
"""As many as a server that is killed at once has not got to the end of."""
MAPS = "/api/v1/namespaces/default/configmaps"
NAMESPACE = "/api/v1/namespaces/busy"


@pytest.fixture
def own() -> Iterator[ServerProcess]:
    """A server of the test's own, to be killed."""
    with server() as process:
        yield process


def _restarted(process: ServerProcess, cluster: str) -> TestClient:
    process.kill()
    process.start()
    return process.client(cluster=cluster)


def test_a_namespace_that_was_being_emptied(own: ServerProcess) -> None:
    client = make_cluster(own, "c")
    client.post("/api/v1/namespaces", {"metadata": {"name": "busy"}})
    for number in range(300):
        client.post(f"{NAMESPACE}/configmaps", {"metadata": {"name": f"m{number}"}})
    assert client.delete(NAMESPACE).status == 200
    client = _restarted(own, "c")
    eventually(lambda: client.get(NAMESPACE).status == 404)
    assert client.get(f"{NAMESPACE}/configmaps").json["items"] == []


def test_a_namespace_that_waits_for_a_finalizer(own: ServerProcess) -> None:
    client = make_cluster(own, "c")
    client.post("/api/v1/namespaces", {"metadata": {"name": "busy"}})
    held = f"{NAMESPACE}/configmaps/held"
    body = {"metadata": {"name": "held", "finalizers": ["test.io/hold"]}}
    client.post(f"{NAMESPACE}/configmaps", body)
    client.delete(NAMESPACE)
    eventually(lambda: client.get(held).json["metadata"].get("deletionTimestamp"))
    client = _restarted(own, "c")
    assert client.get(held).status == 200
    assert client.patch(held, {"metadata": {"finalizers": None}}, MERGE).status == 200
    eventually(lambda: client.get(NAMESPACE).status == 404, 5)


@pytest.mark.parametrize("policy", ["Background", "Foreground", "Orphan"])
def test_dependents_that_were_being_collected(own: ServerProcess, policy: str) -> None:
    client = make_cluster(own, "c")
    owner = client.post(MAPS, {"metadata": {"name": "owner"}}).json
    reference = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": "owner",
        "uid": owner["metadata"]["uid"],
        "blockOwnerDeletion": True,
    }
    for number in range(DEPENDENTS):
        metadata = {"name": f"d{number}", "ownerReferences": [reference]}
        assert client.post(MAPS, {"metadata": metadata}).status == 201
    assert client.delete(f"{MAPS}/owner", {"propagationPolicy": policy}).status == 200
    client = _restarted(own, "c")
    eventually(lambda: client.get(f"{MAPS}/owner").status == 404)

    def dependents() -> list[object]:
        items = client.get(MAPS).json["items"]
        return [m for m in items if m["metadata"]["name"].startswith("d")]

    if policy == "Orphan":
        left = dependents()
        assert len(left) == DEPENDENTS
        assert not any("ownerReferences" in m["metadata"] for m in left)
    else:
        eventually(lambda: not dependents())


def test_a_namespace_made_just_before_gets_what_it_needs(own: ServerProcess) -> None:
    client = make_cluster(own, "c")
    client.post("/api/v1/namespaces", {"metadata": {"name": "busy"}})
    client = _restarted(own, "c")
    eventually(lambda: client.get(f"{NAMESPACE}/serviceaccounts/default").status == 200)
    eventually(lambda: client.get(f"{NAMESPACE}/configmaps/kube-root-ca.crt").status == 200)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_killed_at_random_moments(own: ServerProcess) -> None:
    """Namespaces and all three policies at once; sometimes killed again while catching up."""
    chance = random.Random(20261115)  # the same moments in every run
    for number in range(30):
        name = f"c{number}"
        client = make_cluster(own, name)
        _prepare(client)
        assert client.delete(NAMESPACE).status == 200
        for policy in POLICIES:
            path = f"{MAPS}/owner-{policy.lower()}"
            assert client.delete(path, {"propagationPolicy": policy}).status == 200
        time.sleep(chance.random() * 0.05)
        client = _restarted(own, name)
        if number % 3 == 0:
            time.sleep(chance.random() * 0.1)
            client = _restarted(own, name)
        eventually(lambda client=client: client.get(NAMESPACE).status == 404)
        eventually(lambda client=client: _names(client) == {"kube-root-ca.crt", *ORPHANS})
        items = client.get(MAPS).json["items"]
        assert not any("ownerReferences" in m["metadata"] for m in items)


POLICIES = ("Background", "Foreground", "Orphan")
ORPHANS = {f"orphan-{number}" for number in range(40)}


def _prepare(client: TestClient) -> None:
    client.post("/api/v1/namespaces", {"metadata": {"name": "busy"}})
    for number in range(100):
        client.post(f"{NAMESPACE}/configmaps", {"metadata": {"name": f"m{number}"}})
    for policy in POLICIES:
        owner = client.post(MAPS, {"metadata": {"name": f"owner-{policy.lower()}"}}).json
        reference = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "name": owner["metadata"]["name"],
            "uid": owner["metadata"]["uid"],
            "blockOwnerDeletion": True,
        }
        for number in range(40):
            metadata = {"name": f"{policy.lower()}-{number}", "ownerReferences": [reference]}
            assert client.post(MAPS, {"metadata": metadata}).status == 201


def _names(client: TestClient) -> set[str]:
    return {m["metadata"]["name"] for m in client.get(MAPS).json["items"]}
