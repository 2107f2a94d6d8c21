"""What tests ask of the servers that share one etcd."""

from __future__ import annotations

import re

from pykcp.testing.server import ServerProcess


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
