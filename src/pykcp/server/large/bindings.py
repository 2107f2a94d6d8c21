"""The binding of a pod to a node, as data: a worker process carries it out for large pods."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from pykcp.machinery.status import Conflict, go_quote
from pykcp.registry import codec
from pykcp.registry.resource import Resource
from pykcp.registry.verbs.changes import Make
from pykcp.server.media.bodies import Warn
from pykcp.types import Object


@dataclass(frozen=True, slots=True)
class PodBinding:
    is_apply: ClassVar[bool] = False
    is_patch: ClassVar[bool] = True
    size: ClassVar[int] = 0
    """What is sent is small."""

    node: str
    given: Object
    """The metadata of the Binding."""
    now: str

    def bind(self, resource: Resource, warn: Warn) -> Make:
        def bound(live: Object | None) -> Object:
            assert live is not None
            new = codec.copy(live)
            _check_bindable(new)
            metadata = new["metadata"]
            for name in ("uid", "resourceVersion"):
                if self.given.get(name):
                    metadata[name] = self.given[name]
            for name in ("annotations", "labels"):
                if self.given.get(name):
                    metadata[name] = {**(metadata.get(name) or {}), **self.given[name]}
            new["spec"]["nodeName"] = self.node
            _schedule(new, self.now)
            return new

        return bound


def _check_bindable(pod: Object) -> None:
    name, spec = pod["metadata"]["name"], pod.get("spec") or {}
    why = ""
    if pod["metadata"].get("deletionTimestamp"):
        why = f"pod {name} is being deleted, cannot be assigned to a host"
    elif spec.get("nodeName"):
        why = f"pod {name} is already assigned to node {go_quote(spec['nodeName'])}"
    elif spec.get("schedulingGates"):
        why = f"pod {name} has non-empty .spec.schedulingGates"
    if why:
        raise Conflict.resource("", "pods/binding", name, why)


def _schedule(pod: Object, now: str) -> None:
    status = pod.setdefault("status", {})
    status.pop("nominatedNodeName", None)
    others = [c for c in status.get("conditions") or () if c.get("type") != "PodScheduled"]
    scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": now}
    status["conditions"] = [*others, scheduled]
