"""Events go when their time is over, in both of their groups."""

from __future__ import annotations

import pytest

from pykcp.testing.client import eventually
from pykcp.testing.clusters import make_cluster
from pykcp.testing.server import server

CORE = "/api/v1/namespaces/default/events"
GROUP = "/apis/events.k8s.io/v1/namespaces/default/events"


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_events_expire() -> None:
    """Exact to the minute: an event of the last second of a minute goes a second after it."""
    with server("--event-ttl=1s") as shard:
        client = make_cluster(shard, "events")
        core = {
            "metadata": {"name": "core"},
            "involvedObject": {"kind": "Namespace", "name": "default", "namespace": "default"},
        }
        assert client.post(CORE, core).status == 201
        group = {
            "metadata": {"name": "group"},
            "eventTime": "2026-01-01T00:00:00.000000Z",
            "reportingController": "example.com/tester",
            "reportingInstance": "tester-1",
            "action": "Testing",
            "reason": "Tested",
            "type": "Normal",
        }
        assert client.post(GROUP, group).status == 201
        version = client.get(CORE).json["metadata"]["resourceVersion"]
        assert len(client.get(GROUP).json["items"]) == 2
        events = client.watch(CORE, resourceVersion=version, timeoutSeconds=120)
        gone = {next(events)["object"]["metadata"]["name"] for _ in range(2)}
        events.close()
        assert gone == {"core", "group"}
        eventually(lambda: client.get(GROUP).json["items"] == [])
        depth = 'pykcp_workqueue_delayed{name="event-expiry"} 0'
        eventually(lambda: depth in shard.client().get("/metrics").body.decode())
