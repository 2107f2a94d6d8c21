"""What operators read of a process: slow requests, certificates."""

from __future__ import annotations

import json
import time
from datetime import datetime

import pytest

from pykcp.observe.slow_requests import SlowRequests
from pykcp.testing.client import TestClient
from pykcp.testing.server import ServerProcess


@pytest.fixture
def process(shard: ServerProcess) -> TestClient:
    client = shard.client()
    client.prefix = ""
    return client


def test_certificates_and_their_end(process: TestClient) -> None:
    found = process.get("/debug/certificates")
    assert found.status == 200, found
    serving = [item for item in found.json["items"] if item["use"] == "serving"]
    assert serving
    for item in serving:
        until = datetime.fromisoformat(item["notAfter"]).timestamp()
        assert until > time.time()
        assert item["subject"].startswith("CN=")
    assert b"PRIVATE KEY" not in found.body


def test_slow_requests_are_for_operators(process: TestClient, shard: ServerProcess) -> None:
    found = process.get("/debug/slow-requests")
    assert found.status == 200, found
    assert found.json["thresholdSeconds"] == 0.5
    for name in ("slow-requests", "certificates"):
        assert process.with_token("").get(f"/debug/{name}").status in (401, 403)
        assert shard.client(cluster="root").get(f"/debug/{name}").status == 404


def test_the_last_slow_requests() -> None:
    slow = SlowRequests()
    for number in range(150):
        slow.note(0.5 + number, "GET", f"/{number}" + "x" * 1000, "alice", "root", 200)
    items = json.loads(slow.describe())["items"]
    assert len(items) == 100
    assert items[0]["path"].startswith("/149x")
    assert len(items[0]["path"]) == 500
    assert items[0]["seconds"] == 149.5
