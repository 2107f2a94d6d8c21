"""One address for an export, found by path; and who consumes it."""

from __future__ import annotations

from collections.abc import Callable

from pykcp.testing.client import TestClient
from pykcp.testing.exports import ExportProvider
from pykcp.testing.rights import grant
from pykcp.testing.server import ServerProcess

At = Callable[..., TestClient]
CONSUMERS = "/apis/usage.pykcp.dev/v1alpha1/consumers"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"


def test_who_consumes_it(shard: ServerProcess, at: At) -> None:
    provider = ExportProvider(shard, "cowboys", "sheriffs", user="provider")
    one, two = provider.consumer(), provider.consumer()
    for name in ("a", "b"):
        one.make(provider, name)
    one.make(provider, "c", "sheriffs")
    base = f"/services/exports/{provider.cluster}/{provider.export}/clusters"
    view = at(f"{base}/*", "provider")
    found = {item["metadata"]["name"]: item for item in view.get(CONSUMERS).json["items"]}
    assert {name: item["status"]["objects"] for name, item in found.items()} == {
        one.cluster: 3,
        two.cluster: 0,
    }
    status = found[one.cluster]["status"]
    sizes = [resource.pop("bytes") for resource in status["resources"]]
    assert status == {
        "phase": "Bound",
        "objects": 3,
        "bytes": sum(sizes),
        "resources": [
            {"group": provider.group, "resource": "cowboys", "count": 2},
            {"group": provider.group, "resource": "sheriffs", "count": 1},
        ],
    }
    assert all(size > 200 for size in sizes)
    assert found[one.cluster]["spec"]["binding"] == provider.export
    (alone,) = at(f"{base}/{one.cluster}", "provider").get(CONSUMERS).json["items"]
    assert alone["metadata"]["name"] == one.cluster
    named = view.get(CONSUMERS, fieldSelector=f"metadata.name={two.cluster}").json["items"]
    assert [item["metadata"]["name"] for item in named] == [two.cluster]
    table = view.get(CONSUMERS, accept=TABLE).json
    columns = [column["name"] for column in table["columnDefinitions"]]
    assert columns == ["Name", "Path", "Phase", "Objects", "Bytes"]
    assert at(f"{base}/*", "bob").get(CONSUMERS).status == 403
    assert view.post(CONSUMERS, {}).status == 405
    # The rest is what `apiexport` shows.
    names = {item["metadata"]["name"] for item in view.get(provider.path()).json["items"]}
    assert names == {"a", "b"}


def test_found_by_path(shard: ServerProcess, at: At) -> None:
    """Of workspaces that are there and that are not, strangers hear the same."""
    base = "/services/exports/root/tenancy.kcp.io/clusters"
    assert at(f"{base}/*").get("/apis/tenancy.kcp.io/v1alpha1/workspaces").status == 200
    assert at(f"{base}/root").get("/apis/tenancy.kcp.io/v1alpha1/workspacetypes").status == 200
    root = at("/clusters/root")
    grant(root, "carol", "*", "apiexports/content", "apis.kcp.io", "tenancy.kcp.io")
    assert at(f"{base}/*", "carol").get("/apis").status == 200
    for path in ("root", "root:nosuch", "nosuch", "a:b:c", "NOT A PATH"):
        quoted = path.replace(" ", "%20")
        stranger = at(f"/services/exports/{quoted}/x/clusters/*", "bob").get("/apis")
        assert stranger.status == 403, path
        assert stranger.json["message"] == (
            'forbidden: User "bob" cannot get path "/apis": access denied'
        )
