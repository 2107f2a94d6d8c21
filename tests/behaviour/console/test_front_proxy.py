"""The console of a front-proxy: workspaces of all shards."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from pykcp.testing.client import TestClient, eventually
from pykcp.testing.sharded import Fleet, fleet
from pykcp.testing.workspaces import make_workspace

from .browsing import Visitor

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    flags = ["--workspace-undelete-window=1h"]
    with fleet(pathlib.Path(tmp_path_factory.mktemp("fleet")), shard_flags=flags) as found:
        yield found


def make_on(root: TestClient, shard: str, name: str) -> None:
    make_workspace(root, name, location={"selector": {"matchLabels": {"name": shard}}})


def test_files_and_forged_requests(two: Fleet) -> None:
    client = two.client()
    client.prefix = ""
    assert client.get("/console/api/config").json["server"] == "front-proxy"
    assert client.get("/console/main.js").status == 200
    path = "/clusters/root/api/v1/namespaces"
    foreign = {"origin": "https://evil.example"}
    forged = client.post(path, {"metadata": {"name": "forged"}}, headers=foreign)
    assert forged.status == 403
    assert "pages of other sites" in forged.json["message"]
    socket = {
        "connection": "Upgrade",
        "upgrade": "websocket",
        "sec-websocket-version": "13",
        "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
    }
    read = client.get(f"{path}?watch=true", headers={**socket, **foreign})
    assert read.status == 403
    own = {"origin": f"https://{client.access.host}:{client.access.port}"}
    assert client.post(path, {"metadata": {"name": "own"}}, headers=own).status == 201


def test_reports_of_all_shards(two: Fleet) -> None:
    client = two.client()
    client.prefix = ""
    path = "/services/merged/debug/certificates"

    def shards() -> set[str]:
        merged = client.get(path)
        assert merged.status == 200, merged
        assert merged.json["problems"] == []
        return {item["shard"] for item in merged.json["items"]}

    eventually(lambda: shards() == set(two.shards))  # the proxy hears of them one by one
    own = client.get("/debug/certificates").json["items"]
    assert {"serving", "client of servers behind it"} <= {item["use"] for item in own}
    slow = client.get("/services/merged/debug/slow-requests").json
    assert slow["thresholdSeconds"] > 0
    assert client.get("/services/merged/debug/tasks").status == 404
    assert client.post("/services/merged/debug/certificates", {}).status == 405
    stranger = client.with_token("nobody")
    for path in ("/debug/certificates", "/services/merged/debug/certificates"):
        assert stranger.get(path).status in (401, 403), path


@pytest.mark.slow
def test_workspaces_of_all_shards(browser: Browser, two: Fleet) -> None:
    root = two.client(cluster="root")
    for shard in two.shards:
        make_on(root, shard, f"on-{shard}")
    origin = f"https://{root.access.host}:{root.access.port}"
    assert root.access.certificate is not None
    certificate, key = root.access.certificate
    files = {"origin": origin, "certPath": certificate, "keyPath": key}
    someone = Visitor(browser, origin, client_certificates=[files])
    page = someone.open().page
    for shard in two.shards:
        page.get_by_role("treeitem", name=f"on-{shard}").wait_for()
    make_on(root, two.shards[-1], "later")
    page.get_by_role("treeitem", name="later").wait_for()  # of another shard, by the merged watch
    someone.go("#/w/root:later/usage", "Usage")
    page.get_by_role("button", name="Count again").wait_for()
    someone.go("#/w/root:later/why?verb=list&resource=secrets&user=alice", "Why can’t I?")
    page.get_by_text('User "alice" may not list secrets').wait_for()
    someone.go("#/admin/shards", "Administration")
    page.get_by_role("link", name=two.shards[-1], exact=True).wait_for()
    page.get_by_role("cell", name="KiB").first.wait_for()  # the shards report their load
    someone.picture("fleet")
    someone.go("#/admin/certificates", "Administration")
    for server in (*two.shards, "front-proxy"):
        page.get_by_role("cell", name=server, exact=True).first.wait_for()
    someone.go("#/admin/requests", "Administration")
    page.get_by_text("/services/merged/debug/slow-requests").wait_for()
    assert page.locator("main .problem").count() == 0
    someone.close()
