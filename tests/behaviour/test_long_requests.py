"""Requests whose paths, queries or headers are longer than anybody needs them.

None of them may take the server long: with work that grows faster than the request, a test
here would exceed its time limit by far.
"""

from __future__ import annotations

import pytest

from pykcp.machinery import clusters
from pykcp.testing.client import TestClient
from pykcp.testing.server import ServerProcess
from pykcp.testing.workspaces import LOGICAL_CLUSTER, WORKSPACES, inside, make_workspace
from pykcp.wire.settings import WireSettings

_MOST = WireSettings().max_path


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/clusters/" + ":".join(["a"] * 8_000), 403),
        ("/clusters/" + ":".join(["root"] * 8_000), 403),
        ("/clusters/root" + ":x" * 8_000 + "/api/v1/namespaces", 403),
        ("/clusters/user" + ":x" * 8_000, 403),
        ("/clusters/a" + "%3Aa" * 8_000, 403),
        ("/clusters/" + "a:" * 8_000, 400),
        ("/clusters/" + "a" * 60_000, 400),
        ("/a" * 8_000, 403),
        ("/%41" * 8_000, 403),
        ("/services/apiexport" + "/a" * 8_000, 403),
        ("/services/tree/clusters/root" + ":a" * 8_000, 403),
        ("/services/exports/root" + ":a" * 8_000 + "/x/clusters/*/api/v1/namespaces", 403),
        ("/clusters/root:" + ":a" * 40_000, 414),
        ("/a" * 80_000, 414),
        ("/clusters/a" + ":a" * 80_000, 414),
    ],
)
def test_long_paths_of_strangers(shard: ServerProcess, path: str, status: int) -> None:
    """Refused like shorter ones; above the limit without a look at them."""
    assert (len(path) > _MOST) == (status == 414)
    stranger = shard.client().with_token("")
    stranger.prefix = ""
    assert stranger.get(path).status == status


def test_a_long_path_that_may_be_seen(root: TestClient) -> None:
    """It leads nowhere, and says so."""
    path = "root" + ":x" * 8_000
    reply = root.in_cluster(path).get("/api/v1/namespaces")
    assert reply.status == 404
    assert reply.json["message"] == f'workspaces.tenancy.kcp.io "{path}" not found'


def test_thousands_of_parameters(root: TestClient) -> None:
    """Not ignored: a collection would be deleted that was not meant."""
    query = "&".join(f"a{n}=b" for n in range(50_000))
    for reply in (
        root.get(f"/api/v1/namespaces?{query}"),
        root.delete(f"/api/v1/namespaces/default/configmaps?{query}&labelSelector=a"),
    ):
        assert reply.status == 400, reply
        assert reply.json["message"] == "number of URL query parameters exceeded limit"
    assert root.get("/version?" + "&" * 500_000).status == 200


def test_workspaces_are_not_nested_deeper_than_paths_are_followed(root: TestClient) -> None:
    """The workspace at the deepest path gets no child."""
    make_workspace(root, "deepest", type={"name": "universal", "path": "root"})
    deepest = inside(root, "deepest")
    path = ":".join(["root", *"a" * (clusters.MAX_DEPTH - 1)])
    patch = {"metadata": {"annotations": {"kcp.io/path": path}}}
    assert deepest.patch(LOGICAL_CLUSTER, patch).status == 200
    workspace = {
        "apiVersion": "tenancy.kcp.io/v1alpha1",
        "kind": "Workspace",
        "metadata": {"name": "a"},
        "spec": {"type": {"name": "universal", "path": "root"}},
    }
    reply = deepest.post(WORKSPACES, workspace)
    assert reply.status == 403, reply
    assert "workspaces cannot be nested deeper than 256 levels" in reply.json["message"]
