"""Requests whose paths, queries or headers are longer than anybody needs them.

None of them may take the server long: with work that grows faster than the request, a test
here would exceed its time limit by far.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from pykcp.machinery.kcp import clusters
from pykcp.testing.client import Reply, TestClient
from pykcp.testing.server import ServerProcess
from pykcp.testing.workspaces import LOGICAL_CLUSTER, WORKSPACES, inside, make_workspace
from pykcp.wire.settings import WireSettings

SECRETS = "/api/v1/namespaces/default/secrets"
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


def _post_secrets(cluster: TestClient, count: int) -> None:
    for number in range(count):
        labels = {"n": str(number), "even": str(number % 2 == 0).lower()}
        body = {"metadata": {"name": f"m{number}", "labels": labels}, "data": {}}
        assert cluster.post(SECRETS, body).status == 201


def _names(reply: Reply) -> list[str]:
    assert reply.status == 200, reply
    return [item["metadata"]["name"] for item in reply.json["items"]]


MANY = 15_000


@pytest.mark.parametrize(
    ("labels", "fields", "expected"),
    [
        (",".join(f"!k{n}" for n in range(MANY)), "", ["m0", "m1", "m2", "m3"]),
        (",".join(f"n!={n + 2}" for n in range(MANY)), "", ["m0", "m1"]),
        (",".join(f"k{n}=v" for n in range(MANY)), "", []),
        (f"n in ({','.join(str(n + 3) for n in range(MANY))})", "", ["m3"]),
        (f"n notin ({','.join(str(n + 1) for n in range(MANY))}),even", "", ["m0"]),
        (",".join(["even=true"] * MANY), "", ["m0", "m2"]),
        ("", ",".join(f"metadata.name!=m{n + 1}" for n in range(MANY)), ["m0"]),
        ("", ",".join(["metadata.name=m3"] * MANY), ["m3"]),
        ("", ",".join(f"metadata.name=m{n}" for n in range(MANY)), []),
    ],
)
def test_selectors_of_thousands_of_terms(
    cluster: TestClient, labels: str, fields: str, expected: list[str]
) -> None:
    """They are answered by lists, watches and deletions alike."""
    _post_secrets(cluster, 4)
    query = {k: v for k, v in (("labelSelector", labels), ("fieldSelector", fields)) if v}
    assert _names(cluster.get(SECRETS, **query)) == expected
    page = cluster.get(SECRETS, limit=1, **query)
    assert _names(page) == expected[:1]
    token = page.json["metadata"].get("continue", "")
    if token:
        later = cluster.get(SECRETS, **{"limit": 10, "continue": token}, **query)
        assert _names(later) == expected[1:]
    events = cluster.watch(SECRETS, timeoutSeconds=1, resourceVersion="0", **query)
    seen = [event["object"]["metadata"]["name"] for event in events]
    assert seen == expected
    assert cluster.delete(SECRETS, **query).status == 200
    left = [f"m{n}" for n in range(4) if f"m{n}" not in expected]
    assert _names(cluster.get(SECRETS)) == left


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ({"labelSelector": "a=b," * MANY + "="}, "found '=', expected: identifier after ','"),
        ({"fieldSelector": "metadata.name=b," * MANY + "c"}, "can't understand 'c'"),
        ({"fieldSelector": "spec.x=b," * MANY}, "field label not supported: spec.x"),
    ],
)
def test_long_selectors_that_are_wrong(
    cluster: TestClient, query: dict[str, str], message: str
) -> None:
    for method in ("GET", "DELETE"):
        reply = cluster.request(method, SECRETS, **query)
        assert reply.status == 400, reply
        assert message in reply.json["message"]


@pytest.mark.parametrize(
    ("header", "value"),
    [
        ("Accept", "application/json," + "application/vnd.kubernetes.protobuf;as=Table," * 10_000),
        ("User-Agent", "a" * 450_000),
        ("Authorization", "Bearer " + "a." * 200_000),
        ("Authorization", "Bearer a." + "e30" * 150_000 + ".a"),
        ("X-Forwarded-For", "1.1.1.1," * 50_000),
        ("Impersonate-Extra-A", "a" * 450_000),
    ],
)
def test_long_headers(cluster: TestClient, header: str, value: str) -> None:
    """They are answered, whatever the answer is."""
    reply = cluster.request("GET", "/api/v1/namespaces/default", headers={header: value})
    expected = {"Authorization": 401, "Impersonate-Extra-A": 400}
    assert reply.status == expected.get(header, 200), reply


@pytest.mark.parametrize("header", ["Impersonate-Group", "Impersonate-Extra-A"])
def test_thousands_of_impersonation_headers(cluster: TestClient, header: str) -> None:
    """As many as fit into a request: all are asked for, none is forgotten."""
    values = [f"v{number}" for number in range(4_000)]
    connection = cluster._connection()
    connection.putrequest("GET", f"{cluster.prefix}/api/v1/namespaces/default")
    connection.putheader("Authorization", f"Bearer {cluster.access.token}")
    connection.putheader("Impersonate-User", "x")
    for value in values:
        connection.putheader(header, value)
    connection.endheaders()
    with connection.getresponse() as reply:
        assert reply.status == 403
        assert json.load(reply)["message"].startswith('namespaces "default" is forbidden: User "x"')


REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


@pytest.mark.parametrize(
    "who",
    [
        {"groups": [f"g{number}" for number in range(100_000)]},
        {"extra": {"authorization.kcp.io/warrant": ['{"user":"w"}'] * 60_000}},
        {"extra": {"authentication.kcp.io/scopes": ["cluster:other"] * 60_000}},
        {"extra": {"authentication.kcp.io/scopes": [",".join(["cluster:x"] * 60_000)] * 2}},
    ],
)
def test_reviews_of_users_with_thousands_of_everything(
    cluster: TestClient, who: dict[str, Any]
) -> None:
    attributes = {"verb": "get", "resource": "secrets", "namespace": "default"}
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"user": "u", "resourceAttributes": attributes, **who},
    }
    reply = cluster.post(REVIEWS, body)
    assert reply.status == 201, reply
    assert reply.json["status"] == {"allowed": False, "reason": "access denied"}
