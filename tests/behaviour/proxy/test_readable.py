"""All objects of a kind that a user may read, on one shard and over all of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from pykcp.testing.client import TestClient, eventually
from pykcp.testing.front_proxy import FrontProxyProcess, proxied_shard
from pykcp.testing.workspaces import WORKSPACES, make_workspace

MAPS = "/api/v1/namespaces/default/configmaps"
RBAC = "rbac.authorization.k8s.io"
READABLE = "/services/readable/clusters/*"
MERGED = "/services/merged/readable/clusters/*"


@pytest.fixture(scope="module")
def proxy() -> Iterator[FrontProxyProcess]:
    """Alice may read two of three workspaces."""
    with proxied_shard() as process:
        root = process.admin("root")
        for name in ("mine", "shared", "secret"):
            make_workspace(root, name)
            inside = root.in_cluster(f"root:{name}")
            assert inside.post(MAPS, {"metadata": {"name": f"map-{name}"}}).status == 201
        for name in ("mine", "shared"):
            allow(root.in_cluster(f"root:{name}"), "alice")
        yield process


def allow(client: TestClient, user: str) -> None:
    made = client.post(
        f"/apis/{RBAC}/v1/clusterrolebindings",
        {
            "metadata": {"name": user},
            "subjects": [{"kind": "User", "name": user, "apiGroup": RBAC}],
            "roleRef": {"kind": "ClusterRole", "name": "cluster-admin", "apiGroup": RBAC},
        },
    )
    assert made.status == 201


def maps(reply: Any) -> list[str]:
    assert reply.status == 200, reply
    found = (item["metadata"]["name"] for item in reply.json["items"])
    return sorted(name for name in found if name.startswith("map-"))


@pytest.mark.parametrize("prefix", [READABLE, MERGED])
def test_lists_have_what_the_user_may_read(proxy: FrontProxyProcess, prefix: str) -> None:
    alice, admin, bob = proxy.client("alice"), proxy.admin(), proxy.client("bob")
    assert maps(alice.get(f"{prefix}/api/v1/configmaps")) == ["map-mine", "map-shared"]
    assert maps(admin.get(f"{prefix}/api/v1/configmaps")) == [
        "map-mine",
        "map-secret",
        "map-shared",
    ]
    assert maps(bob.get(f"{prefix}/api/v1/configmaps")) == []
    assert maps(alice.get(f"{prefix}{MAPS}")) == ["map-mine", "map-shared"]
    workspaces = admin.get(f"{prefix}{WORKSPACES}")
    assert {w["metadata"]["name"] for w in workspaces.json["items"]} == {"mine", "shared", "secret"}
    assert proxy.client().get(f"{prefix}/api/v1/configmaps").status == 401


@pytest.mark.parametrize("prefix", [READABLE, MERGED])
def test_pages(proxy: FrontProxyProcess, prefix: str) -> None:
    alice, token, found = proxy.client("alice"), "", []
    for _ in range(50):
        reply = alice.get(f"{prefix}/api/v1/configmaps", limit=2, **{"continue": token})
        found += maps(reply)
        assert "remainingItemCount" not in reply.json["metadata"]
        token = reply.json["metadata"].get("continue", "")
        if not token:
            break
    assert sorted(found) == ["map-mine", "map-shared"]


@pytest.mark.parametrize("prefix", [READABLE, MERGED])
def test_watches_have_what_the_user_may_read(proxy: FrontProxyProcess, prefix: str) -> None:
    alice, root = proxy.client("alice"), proxy.admin("root")
    label = "one" if prefix == READABLE else "all"
    start = alice.get(f"{prefix}/api/v1/configmaps").json["metadata"]["resourceVersion"]
    for name in ("secret", "mine", "secret", "shared"):
        body = {"metadata": {"generateName": f"{name}-", "labels": {"watched": label}}}
        assert root.in_cluster(f"root:{name}").post(MAPS, body).status == 201
    events = alice.watch(
        f"{prefix}/api/v1/configmaps", resourceVersion=start, labelSelector=f"watched={label}"
    )
    seen = [next(events)["object"]["metadata"]["name"].partition("-")[0] for _ in range(2)]
    assert seen == ["mine", "shared"]
    later = proxy.admin("root:secret")
    allow_name = f"alice-{label}"
    assert (
        later.post(
            f"/apis/{RBAC}/v1/clusterrolebindings",
            {
                "metadata": {"name": allow_name},
                "subjects": [{"kind": "User", "name": "alice", "apiGroup": RBAC}],
                "roleRef": {"kind": "ClusterRole", "name": "cluster-admin", "apiGroup": RBAC},
            },
        ).status
        == 201
    )
    eventually(lambda: alice.get(f"/clusters/root:secret{MAPS}").status == 200)
    body = {"metadata": {"name": f"now-{label}", "labels": {"watched": label}}}
    assert later.post(MAPS, body).status == 201
    assert next(events)["object"]["metadata"]["name"] == f"now-{label}"
    events.close()
    gone = f"/apis/{RBAC}/v1/clusterrolebindings/{allow_name}"
    assert later.delete(gone).status == 200
    eventually(lambda: alice.get(f"/clusters/root:secret{MAPS}").status == 403)


def test_it_is_for_reading_only(proxy: FrontProxyProcess) -> None:
    admin = proxy.admin()
    path = f"{READABLE}{MAPS}"
    assert admin.post(path, {"metadata": {"name": "x"}}).status in (403, 405)
    assert admin.get(f"{path}/map-mine").status in (403, 404, 405)
    assert admin.delete(path).status in (403, 405)
    assert admin.get("/services/readable/clusters/root/api/v1/configmaps").status in (403, 404)
