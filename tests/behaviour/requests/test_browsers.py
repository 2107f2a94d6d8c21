"""Calls from web pages: allowed origins (CORS) and the requirement of TLS (HSTS)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from pykcp.testing.client import Reply, TestClient
from pykcp.testing.server import server

MAPS = "/api/v1/namespaces/default/configmaps"
ALLOWED, FOREIGN = "https://console.example.com:8443", "https://console.example.com.evil.org"


@pytest.fixture(scope="module")
def browser() -> Iterator[TestClient]:
    flags = (
        r"--cors-allowed-origins=^https://console\.example\.com(:|$)",
        "--strict-transport-security-directives=max-age=600,includeSubDomains",
    )
    with server(*flags) as shard, closing(shard.client(cluster="root")) as client:
        yield client


def of_cors(reply: Reply) -> dict[str, str]:
    name = "access-control-"
    return {
        key.lower()[len(name) :]: value
        for key, value in reply.headers
        if key.lower().startswith(name)
    }


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", MAPS, 200),
        ("GET", f"{MAPS}/none", 404),
        ("POST", MAPS, 400),
        ("GET", "/nothing", 404),
    ],
)
def test_allowed_origin(browser: TestClient, method: str, path: str, status: int) -> None:
    reply = browser.request(method, path, headers={"origin": ALLOWED})
    assert reply.status == status
    assert of_cors(reply) == {
        "allow-origin": ALLOWED,
        "allow-methods": "POST, GET, OPTIONS, PUT, DELETE, PATCH",
        "allow-headers": "Content-Type, Content-Length, Accept-Encoding, X-CSRF-Token, Authorization, X-Requested-With, If-Modified-Since",
        "expose-headers": "Date",
        "allow-credentials": "true",
    }


def test_preflight_needs_no_credentials(browser: TestClient) -> None:
    reply = browser.with_token("").request("OPTIONS", MAPS, headers={"origin": ALLOWED})
    assert (reply.status, reply.body) == (204, b"")
    assert of_cors(reply)["allow-origin"] == ALLOWED


@pytest.mark.parametrize("origin", [FOREIGN, "null", ""])
def test_other_origins_get_no_header(browser: TestClient, origin: str) -> None:
    assert of_cors(browser.get(MAPS, headers={"origin": origin})) == {}
    assert browser.request("OPTIONS", MAPS, headers={"origin": origin}).status == 405


@pytest.mark.parametrize("path", [MAPS, "/openapi/v3"])
def test_transport_security(browser: TestClient, path: str) -> None:
    assert browser.get(path).header("strict-transport-security") == "max-age=600; includeSubDomains"


def test_allowed_origins_may_write(browser: TestClient) -> None:
    body = {"metadata": {"name": "of-a-page"}}
    assert browser.post(MAPS, body, headers={"origin": ALLOWED}).status == 201
    assert browser.delete(f"{MAPS}/of-a-page", headers={"origin": ALLOWED}).status == 200
