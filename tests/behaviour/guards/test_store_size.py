"""A server whose store is full: writes are refused with words, reads and deletions go on."""

from __future__ import annotations

from pykcp.testing.client import TestClient, eventually
from pykcp.testing.clusters import make_cluster
from pykcp.testing.server import server
from pykcp.types import Object

CM = "/api/v1/namespaces/default/configmaps"


def _map(number: int, **metadata: object) -> Object:
    return {"metadata": {"name": f"m{number}", **metadata}, "data": {"text": "x" * 100_000}}


def _fill(client: TestClient) -> int:
    for number in range(200):
        made = client.post(CM, _map(number, finalizers=["a.b/c"]))
        if made.status != 201:
            assert made.status == 503, made
            assert made.json["reason"] == "ServiceUnavailable"
            assert made.json["message"] == "the store is full"
            assert made.header("Retry-After") == "10"
            return number
    raise AssertionError("there is no limit")


def test_a_full_store() -> None:
    with server(f"--store-size-limit={8 << 20}") as process:
        client = make_cluster(process, "full")
        written = _fill(client)
        assert written > 20
        assert client.post("/api/v1/namespaces", {"metadata": {"name": "more"}}).status == 503
        assert len(client.get(CM).json["items"]) >= written
        assert client.patch(f"{CM}/m0", {"data": {"more": "y" * 50_000}}).status == 503
        # finalizers hold what is deleted, and are taken away
        for number in range(3):
            assert client.delete(f"{CM}/m{number}").status == 200
            assert client.get(f"{CM}/m{number}").json["metadata"]["deletionTimestamp"]
            released = client.patch(f"{CM}/m{number}", {"metadata": {"finalizers": None}})
            assert released.status == 200, released
            eventually(lambda name=f"m{number}": client.get(f"{CM}/{name}").status == 404)
        shown = process.client().get("/metrics").body.decode()
        assert f"pykcp_store_size_limit_bytes {8 << 20}" in shown
        assert "only deletions and reads are accepted" in process.log()
        assert process.client().get("/readyz").status == 200
