"""Two tenants who must not see each other: alice, who asks, and bob, who has something to hide.

Both live below an organization that neither may look into; each has a workspace with all kinds
of content, a workspace below it, and a home.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from pykcp.testing.apis import EXPORTS, RESOURCE, SCHEMAS, binding, export, schema
from pykcp.testing.client import TestClient, eventually
from pykcp.testing.server import ServerProcess, server
from pykcp.testing.workspaces import WORKSPACES
from pykcp.types import Object

TYPES = "/apis/tenancy.kcp.io/v1alpha1/workspacetypes"
BINDINGS = "/apis/apis.kcp.io/v1alpha2/apibindings"
SLICES = "/apis/apis.kcp.io/v1alpha1/apiexportendpointslices"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
RBAC = "rbac.authorization.k8s.io"


@dataclass(frozen=True)
class Place:
    """Where bob is, and where nobody is: the same to alice."""

    there: str
    nowhere: str


@dataclass(frozen=True)
class Tenants:
    shard: ServerProcess
    alice: TestClient
    """alice in her own workspace."""
    bob: TestClient
    places: dict[str, Place]
    """Ways to name bob's workspaces, each with a way that leads nowhere."""
    identity: str
    """Of bob's export."""

    def without_place(self, user: str = "alice") -> TestClient:
        """A client of a user, with full paths."""
        client = self.shard.client().with_token(f"{user}-token" if user else "")
        client.prefix = ""
        return client


@pytest.fixture(scope="module")
def tenants(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tenants]:
    directory = tmp_path_factory.mktemp("tenants")
    tokens = directory / "tokens.csv"
    tokens.write_text("alice-token,alice,a1\nbob-token,bob,b1\n")
    with server(f"--token-auth-file={tokens}", directory=directory) as shard:
        yield _populate(shard)


def _populate(shard: ServerProcess) -> Tenants:
    root = shard.client(cluster="root")
    organization = workspace(root, "org")
    org = root.in_cluster(organization)
    for user in ("alice", "bob"):
        cluster = workspace(org, f"of-{user}")
        _let_in(root.in_cluster(cluster), user)
    alice = root.in_cluster("root:org:of-alice").with_token("alice-token")
    bob = root.in_cluster("root:org:of-bob").with_token("bob-token")
    identity = _furnish(bob)
    deeper = workspace(bob, "deeper")
    home = _home(root.with_token("bob-token"))
    _home(root.with_token("alice-token"))
    of_bob = org.get(f"{WORKSPACES}/of-bob").json["spec"]["cluster"]
    places = {
        "path": Place("root:org:of-bob", "root:org:of-bot"),
        "name": Place(of_bob, _similar(of_bob)),
        "mixed path": Place(f"{organization}:of-bob", f"{organization}:of-bot"),
        "deeper": Place("root:org:of-bob:deeper", "root:org:of-bob:deepex"),
        "below nothing": Place("root:org:of-bob:deeper", "root:org:of-bot:deeper"),
        "name below": Place(f"{of_bob}:deeper", f"{of_bob}:deepex"),
        "name below nothing": Place(f"{of_bob}:deeper", f"{_similar(of_bob)}:deeper"),
        "deeper's name": Place(deeper, _similar(deeper)),
        "home": Place("user:bob", "user:bot"),
        "home's name": Place(home, _similar(home)),
    }
    return Tenants(shard, alice, bob, places, identity)


def _similar(name: str) -> str:
    """A cluster name that looks the same, but is none."""
    return name[:-2] + ("zz" if not name.endswith("zz") else "yy")


def workspace(parent: TestClient, name: str) -> str:
    """Made and ready; its cluster's name."""
    body = {
        "apiVersion": "tenancy.kcp.io/v1alpha1",
        "kind": "Workspace",
        "metadata": {"name": name},
        "spec": {"type": {"name": "universal", "path": "root"}},
    }
    assert parent.post(WORKSPACES, body).status == 201

    def ready() -> str:
        found: Object = parent.get(f"{WORKSPACES}/{name}").json
        is_ready = (found.get("status") or {}).get("phase") == "Ready"
        return found["spec"]["cluster"] if is_ready else ""

    cluster: str = eventually(ready)
    return cluster


def _let_in(cluster: TestClient, user: str) -> None:
    made = cluster.post(
        f"/apis/{RBAC}/v1/clusterrolebindings",
        {
            "metadata": {"name": "own"},
            "subjects": [{"kind": "User", "name": user, "apiGroup": RBAC}],
            "roleRef": {"kind": "ClusterRole", "name": "cluster-admin", "apiGroup": RBAC},
        },
    )
    assert made.status == 201, made


def _home(client: TestClient) -> str:
    def ready() -> str:
        reply = client.get(f"{WORKSPACES}/~")
        return reply.json["spec"]["cluster"] if reply.status == 200 else ""

    cluster: str = eventually(ready)
    return cluster


CROWN: Object = {
    "metadata": {"name": "crowns.jewels.example"},
    "spec": {
        "group": "jewels.example",
        "scope": "Namespaced",
        "names": {"plural": "crowns", "kind": "Crown"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object"}},
            }
        ],
    },
}


def _furnish(bob: TestClient) -> str:
    """What bob has: maps, secrets, roles, a CRD, an export bound by himself, a type."""
    secret = {"metadata": {"name": "hidden"}, "stringData": {"word": "sesame"}}
    assert bob.post("/api/v1/namespaces/default/secrets", secret).status == 201
    hidden = {"metadata": {"name": "hidden"}, "data": {"word": "sesame"}}
    assert bob.post("/api/v1/namespaces/default/configmaps", hidden).status == 201
    assert bob.post(CRDS, CROWN).status == 201
    crowns = "/apis/jewels.example/v1/namespaces/default/crowns"
    crown = {"apiVersion": "jewels.example/v1", "kind": "Crown", "metadata": {"name": "hidden"}}
    eventually(lambda: bob.post(crowns, crown).status == 201)
    assert bob.post(SCHEMAS, schema()).status == 201
    assert bob.post(EXPORTS, export("cowboys", resources=[RESOURCE])).status == 201
    assert bob.post(BINDINGS, binding("cowboys", "cowboys")).status == 201
    kind = {
        "apiVersion": "tenancy.kcp.io/v1alpha1",
        "kind": "WorkspaceType",
        "metadata": {"name": "mine"},
        "spec": {"initializer": True, "terminator": True},
    }
    assert bob.post(TYPES, kind).status == 201
    cowboys = "/apis/wild.west/v1/namespaces/default/cowboys"
    cowboy = {"apiVersion": "wild.west/v1", "kind": "Cowboy", "metadata": {"name": "hidden"}}
    eventually(lambda: bob.post(cowboys, cowboy).status == 201)
    found: str = bob.get(f"{EXPORTS}/cowboys").json["status"]["identityHash"]
    return found
