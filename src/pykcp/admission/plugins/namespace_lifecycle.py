"""Rejects creates in missing or terminating namespaces, and the deletion of system namespaces.

They stay as long as their workspace does: when that goes, they go with it.
"""

from __future__ import annotations

from collections.abc import Sequence

from pykcp.machinery import meta
from pykcp.machinery.resources import LOGICAL_CLUSTERS
from pykcp.machinery.status import Cause, Forbidden, NotFound
from pykcp.registry.codec import decode
from pykcp.registry.keys import object_key, resource_prefix
from pykcp.registry.stored import Event, StoreReader
from pykcp.registry.verbs.admitting import AdmissionRequest

IMMORTAL = frozenset(("default", "kube-system", "kube-public"))
_NAMESPACES = resource_prefix("", "namespaces")
_LOGICAL_CLUSTERS = resource_prefix(LOGICAL_CLUSTERS.group, LOGICAL_CLUSTERS.resource)
_REVIEW = ("authorization.k8s.io", "localsubjectaccessreviews")


_REMEMBER = 4096


class NamespaceLifecycle:
    """Namespaces seen to be active are remembered within bounds and forgotten by events."""

    name = "WorkspaceNamespaceLifecycle"

    def __init__(self, store: StoreReader) -> None:
        self._store = store
        self._active: set[str] = set()
        store.listen(self._follow, (_NAMESPACES,))

    def _follow(self, events: Sequence[Event]) -> None:
        for event in events:
            if event.key.startswith(_NAMESPACES):
                self._active.discard(event.key)

    def wants(self, request: AdmissionRequest) -> bool:
        resource = request.resource
        if resource.namespaced:
            return request.operation != "DELETE" and (resource.group, resource.plural) != _REVIEW
        return (
            request.operation == "DELETE"
            and resource.plural == "namespaces"
            and not resource.group
            and request.name in IMMORTAL
        )

    async def mutate(self, request: AdmissionRequest) -> None:
        resource = request.resource
        if not resource.namespaced:
            if self._is_going(request.context.cluster):
                return
            raise Forbidden.resource(
                "", "namespaces", request.name, "this namespace may not be deleted"
            )
        key = object_key(_NAMESPACES, request.context.cluster, "", request.namespace)
        if key in self._active:
            return
        entry = self._store.get(key)
        if entry is None:
            if request.namespace in request.context.forthcoming:
                return
            raise NotFound.resource("", "namespaces", request.namespace)
        if _TERMINATING not in entry.terms:
            self._remember(key)
        elif request.operation == "CREATE":
            raise _terminating(request)

    def _is_going(self, cluster: str) -> bool:
        entry = self._store.get(object_key(_LOGICAL_CLUSTERS, cluster, "", "cluster"))
        return entry is not None and meta.is_deleting(decode(entry.value))

    def _remember(self, key: str) -> None:
        if len(self._active) >= _REMEMBER:
            self._active.clear()
        self._active.add(key)


_TERMINATING = "\x1ff:status.phase=Terminating\x1f"


def _terminating(request: AdmissionRequest) -> Forbidden:
    namespace = request.namespace
    refusal = Forbidden.resource(
        request.resource.group,
        request.resource.plural,
        request.name,
        f"unable to create new content in namespace {namespace} because it is being terminated",
    )
    refusal.causes = (
        Cause(
            "NamespaceTerminating",
            f"namespace {namespace} is being terminated",
            "metadata.namespace",
        ),
    )
    return refusal
