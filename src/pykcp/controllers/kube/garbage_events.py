"""What the garbage collector tells people: an owner that is in another namespace is none."""

from __future__ import annotations

import time
from collections.abc import Callable

from pykcp.controllers.runtime.objects import OwnerReference
from pykcp.machinery import meta
from pykcp.machinery.status import go_quote
from pykcp.types import Object

COMPONENT = "garbage-collector-controller"


def misplaced_owner(
    dependent: Object, reference: OwnerReference, clock: Callable[[], float] = time.time
) -> Object:
    """The event on an object that names an owner of another namespace."""
    namespace, now = meta.namespace(dependent), clock()
    owner = (
        f"[{reference.api_version}/{reference.kind}, cluster: {meta.cluster(dependent)}, "
        f"namespace: {namespace}, name: {reference.name}, uid: {reference.uid}]"
    )
    moment = meta.now_rfc3339(now)
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {
            "name": f"{meta.name(dependent)}.{int(now * 1e9):x}",
            "namespace": namespace,
        },
        "involvedObject": {
            "kind": dependent["kind"],
            "apiVersion": dependent["apiVersion"],
            "namespace": namespace,
            "name": meta.name(dependent),
            "uid": meta.uid(dependent),
        },
        "type": "Warning",
        "reason": "OwnerRefInvalidNamespace",
        "message": f"ownerRef {owner} does not exist in namespace {go_quote(namespace)}",
        "source": {"component": COMPONENT},
        "reportingComponent": COMPONENT,
        "firstTimestamp": moment,
        "lastTimestamp": moment,
        "count": 1,
    }
