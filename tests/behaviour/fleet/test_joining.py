"""A shard joins: it starts without root and is known to it as soon as root answers."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator

import pytest

from pykcp.testing.client import TestClient, eventually
from pykcp.testing.sharded import Fleet, stopped_fleet
from pykcp.testing.workspaces import WORKSPACES
from pykcp.types import Object

SHARDS = "/apis/core.kcp.io/v1alpha1/shards"
IDENTITIES = "/api/v1/namespaces/default/configmaps/apiexport-identity-cache"
EXPORTS = "/apis/apis.kcp.io/v1alpha2/apiexports"
HEARTBEAT = "internal.kcp.io/heartbeat"


@pytest.fixture
def fleet(tmp_path: pathlib.Path) -> Iterator[Fleet]:
    """Nothing is started."""
    with stopped_fleet(tmp_path) as made:
        yield made


def test_a_shard_starts_and_serves_before_root_does(fleet: Fleet) -> None:
    fleet["shard-1"].start()
    own = fleet.client("shard-1", "system:shard")
    assert own.get(IDENTITIES).status == 404
    assert fleet.client("shard-1", "root").get("/api/v1/namespaces").json["items"] == []

    fleet["root"].start()
    identities = eventually(lambda: own.get(IDENTITIES).json.get("data"))
    exports = fleet.client("root", "root").get(EXPORTS).json["items"]
    assert identities == {one["metadata"]["name"]: one["status"]["identityHash"] for one in exports}
    known = eventually(lambda: _get(fleet, "root", "root", "shard-1"))
    port = fleet["shard-1"].member.port
    assert known["spec"]["baseURL"] == f"https://127.0.0.1:{port}"
    assert known["metadata"]["labels"] == {"name": "shard-1"}


def test_a_shard_that_has_joined_needs_neither_root_nor_cache(fleet: Fleet) -> None:
    fleet["root"].start()
    fleet["shard-1"].start()
    eventually(lambda: _get(fleet, "root", "root", "shard-1"))
    eventually(lambda: fleet.client("shard-1", "system:shard").get(SHARDS).status == 200)
    fleet["root"].kill()
    fleet["shard-1"].kill()

    fleet["shard-1"].start()
    own = _get(fleet, "shard-1", "system:shard", "shard-1")
    assert own is not None
    assert HEARTBEAT in own["metadata"]["annotations"]


def test_what_an_administrator_wrote_stays(fleet: Fleet) -> None:
    """Labels and annotations of the Shard in root are root's; the addresses are the shard's."""
    fleet["root"].start()
    fleet["shard-1"].start()
    eventually(lambda: _get(fleet, "root", "root", "shard-1"))
    fleet["shard-1"].stop()
    patch = {
        "metadata": {"labels": {"region": "north"}},
        "spec": {"externalURL": "https://elsewhere:1"},
    }
    root = fleet.client("root", "root")
    assert root.patch(f"{SHARDS}/shard-1", patch).status == 200

    fleet["shard-1"].start()
    proxy = f"https://127.0.0.1:{fleet.files.addresses.proxy}"
    eventually(lambda: root.get(f"{SHARDS}/shard-1").json["spec"]["externalURL"] == proxy)
    assert root.get(f"{SHARDS}/shard-1").json["metadata"]["labels"]["region"] == "north"


def test_a_shard_that_was_removed_stays_removed(fleet: Fleet) -> None:
    """It goes on following root's exports, but does not register itself again."""
    fleet["cache"].start()
    fleet["root"].start()
    fleet["shard-1"].start()
    eventually(lambda: _get(fleet, "root", "root", "shard-1"))
    eventually(lambda: _joined(fleet) == 1)
    root = fleet.client("root", "root")
    assert root.delete(f"{SHARDS}/shard-1").status == 200
    export = {
        "apiVersion": "apis.kcp.io/v1alpha2",
        "kind": "APIExport",
        "metadata": {"name": "more"},
    }
    assert root.post(EXPORTS, export).status == 201
    eventually(lambda: _joined(fleet) > 1)
    assert _get(fleet, "root", "root", "shard-1") is None

    # It still reports, but nothing is placed there any more.
    workspace = {
        "apiVersion": "tenancy.kcp.io/v1alpha1",
        "kind": "Workspace",
        "metadata": {"name": "nowhere"},
        "spec": {"location": {"selector": {"matchLabels": {"name": "shard-1"}}}},
    }
    assert root.post(WORKSPACES, workspace).status == 201
    eventually(lambda: _scheduled(root, "nowhere") == ("False", "Unschedulable"))


def _scheduled(client: TestClient, name: str) -> tuple[str, str] | None:
    found = client.get(f"{WORKSPACES}/{name}").json["status"].get("conditions") or ()
    return next(
        ((c["status"], c["reason"]) for c in found if c["type"] == "WorkspaceScheduled"), None
    )


def _joined(fleet: Fleet) -> int:
    return fleet["shard-1"].log().count("the shard has joined root")


def _get(fleet: Fleet, server: str, cluster: str, name: str) -> Object | None:
    reply = fleet.client(server, cluster).get(f"{SHARDS}/{name}")
    return reply.json if reply.status == 200 else None
