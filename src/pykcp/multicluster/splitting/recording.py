"""Events on the workloads, as controllers of Kubernetes record them."""

from __future__ import annotations

from hashlib import blake2b
from typing import NamedTuple

from pykcp.clients.interface import Writer
from pykcp.machinery import meta
from pykcp.machinery.resources import EVENTS
from pykcp.machinery.status import StatusError
from pykcp.types import Object

COMPONENT = "deployment-splitter"
NORMAL, WARNING = "Normal", "Warning"
_LONGEST_MESSAGE = 1024


class Told(NamedTuple):
    """What an event says."""

    type: str
    reason: str
    message: str


def event(root: Object, told: Told, now: float) -> Object:
    moment = meta.now_rfc3339(now)
    mark = f"{meta.uid(root)}{told.reason}{now}".encode()
    name = blake2b(mark, digest_size=8).hexdigest()
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {
            "name": f"{meta.name(root)[:230]}.{name}",
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
        "type": told.type,
        "reason": told.reason,
        "message": told.message[:_LONGEST_MESSAGE],
        "source": {"component": COMPONENT},
        "reportingComponent": COMPONENT,
        "reportingInstance": "",
        "firstTimestamp": moment,
        "lastTimestamp": moment,
        "count": 1,
    }


async def record(client: Writer, cluster: str, root: Object, told: Told, now: float) -> None:
    """One event; a workspace that does not take it (it is being deleted, has a quota) goes without."""
    try:
        await client.create(cluster, EVENTS, event(root, told, now))
    except StatusError:
        return
