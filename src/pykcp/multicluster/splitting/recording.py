"""Events on the workloads, as controllers of Kubernetes record them."""

from __future__ import annotations

from pykcp.clients.interface import Writer
from pykcp.machinery import meta
from pykcp.machinery.resources import EVENTS
from pykcp.machinery.status import StatusError
from pykcp.multicluster.names import short_hash
from pykcp.types import Object

COMPONENT = "deployment-splitter"
NORMAL, WARNING = "Normal", "Warning"
_LONGEST_MESSAGE = 1024


async def record(
    client: Writer,
    cluster: str,
    root: Object,
    event_type: str,
    reason: str,
    message: str,
    now: float,
) -> None:
    """One event; a workspace that does not take it (it is being deleted, has a quota) goes without."""
    moment = meta.now_rfc3339(now)
    event: Object = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {
            "name": f"{meta.name(root)[:230]}.{short_hash(f'{meta.uid(root)}{reason}{now}', 16)}",
            "namespace": meta.namespace(root),
        },
        "involvedObject": {
            "apiVersion": root["apiVersion"],
            "kind": root["kind"],
            "namespace": meta.namespace(root),
            "name": meta.name(root),
            "uid": meta.uid(root),
            "resourceVersion": meta.resource_version(root),
        },
        "type": event_type,
        "reason": reason,
        "message": message[:_LONGEST_MESSAGE],
        "source": {"component": COMPONENT},
        "reportingComponent": COMPONENT,
        "reportingInstance": "",
        "firstTimestamp": moment,
        "lastTimestamp": moment,
        "count": 1,
    }
    try:
        await client.create(cluster, EVENTS, event)
    except StatusError:
        return
