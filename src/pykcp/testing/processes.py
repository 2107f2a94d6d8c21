"""A shard that several processes or servers serve, and what tests ask of each of them."""

from __future__ import annotations

import re

from pykcp.testing.client import TestClient, eventually
from pykcp.testing.server import ServerProcess

_REQUESTS = re.compile(r'apiserver_request_total\{process="([^"]+)",(.*)\} (\d+)').match
_ABSENT = "/api/v1/namespaces/default/configmaps/absent"


def wait_for_processes(shard: ServerProcess, count: int) -> None:
    """Until so many processes serve."""
    eventually(lambda: ready_processes(shard) == count, 60)


def ready_processes(shard: ServerProcess) -> int:
    found = re.search(r"^pykcp_serving_processes\S* (\d+)$", read_metrics(shard), re.MULTILINE)
    return int(found[1]) if found else 0


def client_per_process(shard: ServerProcess, count: int) -> dict[str, TestClient]:
    """Clients in `root` by the names of the processes to which they are connected."""
    found: dict[str, TestClient] = {}
    others: list[TestClient] = []
    while len(found) < count:
        assert len(others) < 20 * count, f"no connection to another process than {sorted(found)}"
        client = TestClient(shard.client().access, "root")
        before = _absent_reads(shard)
        assert client.get(_ABSENT).status == 404
        after = _absent_reads(shard)
        (name,) = (name for name in after if after[name] > before.get(name, 0))
        if name in found:
            others.append(client)
        else:
            found[name] = client
    for client in others:
        client.close()
    return found


def _absent_reads(shard: ServerProcess) -> dict[str, int]:
    total: dict[str, int] = {}
    for line in read_metrics(shard).splitlines():
        found = _REQUESTS(line)
        if found and 'resource="configmaps"' in found[2] and 'code="404"' in found[2]:
            total[found[1]] = total.get(found[1], 0) + int(found[3])
    return total


def read_metrics(shard: ServerProcess) -> str:
    client = shard.client()
    try:
        reply = client.get("/metrics")
        assert reply.status == 200, reply
        return reply.body.decode()
    finally:
        client.drop()


def gauge(server: ServerProcess, name: str) -> int:
    """A metric without labels."""
    text = server.client().get("/metrics").body.decode()
    found = re.search(rf"^{name} (\d+)$", text, re.MULTILINE)
    assert found is not None
    return int(found[1])


def published_exports(server: ServerProcess) -> set[str]:
    """The exports in the cache of a server."""
    client = server.client("shard-base")
    client.prefix = "/services/cache/shards/*/clusters/*"
    found = client.get("/apis/apis.kcp.io/v1alpha1/apiexports")
    assert found.status == 200, found
    return {item["metadata"]["name"] for item in found.json["items"]}
