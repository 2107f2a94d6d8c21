"""The files of the console over HTTP: what is sent, to whom, and how it protects its users."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import pathlib
import posixpath
import re

import pytest

import pykcp.server.console
from pykcp.testing.client import Reply, TestClient
from pykcp.testing.server import ServerProcess, server

from .conftest import Certified

ASSETS = pathlib.Path(pykcp.server.console.__file__).parent / "assets"
ALL = sorted(p.relative_to(ASSETS).as_posix() for p in ASSETS.rglob("*") if p.is_file())


@pytest.fixture
def stranger(shard: ServerProcess) -> TestClient:
    """Anyone: without a token or a certificate."""
    client = shard.client().with_token("")
    client.prefix = ""
    return client


def fetch(client: TestClient, name: str, **headers: str) -> Reply:
    return client.get(f"/console/{name}", headers=headers)


def test_everything_is_served_compressed(stranger: TestClient) -> None:
    total = 0
    for name in ALL:
        served = "" if name == "index.html" else name
        plain = fetch(stranger, served)
        small = fetch(stranger, served, **{"accept-encoding": "gzip, br"})
        assert plain.status == small.status == 200
        assert small.header("content-encoding") == "gzip"
        assert gzip.decompress(small.body) == plain.body
        assert not served or plain.body == (ASSETS / name).read_bytes()
        total += len(plain.body)
    assert total < 300_000


def test_the_page_is_painted_after_one_answer(stranger: TestClient) -> None:
    """Its style is in it, allowed by its hash; all modules that it starts with are named in it."""
    found = fetch(stranger, "")
    text = found.body.decode()
    style = re.search(r"<style>(.*)</style>", text, re.DOTALL)
    assert style is not None
    digest = base64.b64encode(hashlib.sha256(style[1].encode()).digest()).decode()
    assert f"style-src 'self' 'sha256-{digest}';" in (found.header("content-security-policy") or "")
    named = re.findall(r'<link rel="modulepreload" href="([^"]+)">', text)
    main = re.search(r'<script type="module" src="(v/[0-9a-f]{16})/main.js">', text)
    assert main is not None
    assert f"{main[1]}/main.js" in named
    for address in named:
        folder = posixpath.dirname(address)
        module = fetch(stranger, address)
        assert module.status == 200
        assert "immutable" in (module.header("cache-control") or "")
        for relative in re.findall(r'^import .*"(\.[^"]+)";$', module.body.decode(), re.MULTILINE):
            assert posixpath.normpath(f"{folder}/{relative}") in named


def test_an_old_page_gets_the_new_files(stranger: TestClient) -> None:
    """Of a server that was updated since the page was opened; nothing keeps them for long."""
    found = fetch(stranger, f"v/{'0' * 16}/pages/list.js")
    assert (found.status, found.header("cache-control")) == (200, "no-cache")
    assert found.body == (ASSETS / "pages/list.js").read_bytes()
    assert fetch(stranger, f"v/{'0' * 16}/pages/none.js").status == 404


def test_what_has_not_changed_is_not_sent_again(stranger: TestClient) -> None:
    first = fetch(stranger, "main.js")
    etag = first.header("etag") or ""
    again = fetch(stranger, "main.js", **{"if-none-match": etag})
    assert (again.status, again.body) == (304, b"")
    assert fetch(stranger, "main.js", **{"if-none-match": '"other"'}).status == 200


@pytest.mark.parametrize("name", ["", "main.js", "nothing-here", "api/config"])
def test_every_answer_is_protected(stranger: TestClient, name: str) -> None:
    found = fetch(stranger, name)
    policy = found.header("content-security-policy") or ""
    for part in ("default-src 'none'", "script-src 'self'", "connect-src 'self'"):
        assert part in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert found.header("x-frame-options") == "DENY"
    assert found.header("x-content-type-options") == "nosniff"
    assert found.header("referrer-policy") == "no-referrer"
    assert found.header("set-cookie") is None


def test_other_paths(stranger: TestClient) -> None:
    redirect = stranger.get("/console")
    assert (redirect.status, redirect.header("location")) == (308, "/console/")
    host = {"host": "evil.example", "x-forwarded-host": "evil.example"}
    for path in (
        "/console",
        "/console?next=//evil.example",
        "/console?redirect_uri=//evil.example",
    ):
        sent = stranger.get(path, headers=host)
        assert (sent.status, sent.header("location")) == (308, "/console/"), path
    for path in (
        "/console//evil.example/",
        "/console/%2f%2fevil.example",
        "/console/\\evil.example",
    ):
        assert (stranger.get(path).status, stranger.get(path).header("location")) == (404, None)
    assert fetch(stranger, "nothing.js").status == 404
    assert fetch(stranger, "../app.py").status in (400, 404)
    assert fetch(stranger, "%2e%2e/app.py").status == 404
    assert stranger.post("/console/main.js", {}).status == 405
    assert stranger.get("/consolenot").status in (401, 403)


def test_nothing_is_loaded_from_other_places() -> None:
    for name in ALL:
        text = (ASSETS / name).read_text()
        for line in text.splitlines():
            assert "http://www.w3.org/2000/svg" in line or "://" not in line.replace(
                "${location.origin}", ""
            ), f"{name}: {line[:80]}"
        for trick in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("):
            assert trick not in text, f"{name}: {trick}"


def test_config(stranger: TestClient) -> None:
    found = fetch(stranger, "api/config").json
    assert found["server"] == "shard"
    assert found["oidc"] is False
    missing = fetch(stranger, "api/issuer")
    assert (missing.status, missing.json["kind"]) == (404, "Status")
    refused = stranger.post("/console/api/token", {"code": "x"})
    assert refused.status == 400
    assert "verifier" in refused.json["message"]


def test_it_can_be_switched_off(tmp_path: pathlib.Path) -> None:
    with server("--console=false", directory=tmp_path) as shard:
        client = shard.client()
        client.prefix = ""
        assert client.get("/console/").status == 404


MADE = json.dumps({"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": "forged"}})
SOCKET = {
    "connection": "Upgrade",
    "upgrade": "websocket",
    "sec-websocket-version": "13",
    "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
}
FORGED = (
    {"origin": "https://evil.example"},
    {"origin": "null"},
    {"sec-fetch-site": "cross-site"},
    {"origin": "https://evil.example", "sec-fetch-site": "cross-site"},
    {"origin": "http://127.0.0.1"},
)


@pytest.mark.parametrize("headers", FORGED, ids=[str(i) for i in range(len(FORGED))])
def test_pages_of_other_sites_cannot_use_a_certificate(
    shard: ServerProcess, certified: Certified, headers: dict[str, str]
) -> None:
    """A browser sends the certificate of its user with a POST of any page."""
    client = certified.client(shard)
    reply = client.request("POST", "/api/v1/namespaces", MADE, headers=headers)
    assert reply.status == 403, reply
    assert "pages of other sites" in reply.json["message"]
    assert client.get("/api/v1/namespaces/forged").status == 404


def test_the_same_with_a_token_or_of_the_own_site(
    shard: ServerProcess, certified: Certified
) -> None:
    client = certified.client(shard)
    own = {"origin": f"https://127.0.0.1:{shard.port}", "sec-fetch-site": "same-origin"}
    body = {"metadata": {"generateName": "own-"}}
    assert client.post("/api/v1/namespaces", body, headers=own).status == 201
    assert client.post("/api/v1/namespaces", body).status == 201
    program = shard.client(cluster="root").with_token("admin-token")
    other = {"origin": "https://tool.example"}
    assert program.post("/api/v1/namespaces", body, headers=other).status == 201


@pytest.mark.parametrize(("origin", "status"), [("https://evil.example", 403), ("", 101)])
def test_nor_open_a_websocket_with_it(
    shard: ServerProcess, certified: Certified, origin: str, status: int
) -> None:
    """Browsers let pages open WebSockets to other sites, and read what comes."""
    client = certified.client(shard)
    headers = {**SOCKET, "origin": origin or f"https://127.0.0.1:{shard.port}"}
    reply = client.get("/api/v1/secrets", headers=headers, watch="true")
    client.drop()
    assert reply.status == status, reply
