"""Nothing is created in a namespace that is missing or going; some namespaces stay."""

from __future__ import annotations

from pykcp.machinery.status import Cause, Forbidden, NotFound
from pykcp.registry.admitting import AdmissionRequest
from pykcp.registry.keys import object_key, resource_prefix
from pykcp.storage.interface import Store

IMMORTAL = frozenset(("default", "kube-system", "kube-public"))
_NAMESPACES = resource_prefix("", "namespaces")
_REVIEW = ("authorization.k8s.io", "localsubjectaccessreviews")


class NamespaceLifecycle:
    name = "NamespaceLifecycle"

    def __init__(self, store: Store) -> None:
        self._store = store

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
            raise Forbidden.resource("", "namespaces", request.name, "this namespace may not be deleted")
        key = object_key(_NAMESPACES, request.context.cluster, "", request.namespace)
        entry = self._store.get(key)
        if entry is None:
            raise NotFound.resource("", "namespaces", request.namespace)
        if request.operation == "CREATE" and _TERMINATING in entry.terms:
            raise _terminating(request)


_TERMINATING = "\x1ff:status.phase=Terminating\x1f"


def _terminating(request: AdmissionRequest) -> Forbidden:
    namespace = request.namespace
    refusal = Forbidden.resource(
        request.resource.group, request.resource.plural, request.name,
        f"unable to create new content in namespace {namespace} because it is being terminated",
    )
    refusal.causes = (
        Cause(
            "NamespaceTerminating", f"namespace {namespace} is being terminated", "metadata.namespace"
        ),
    )
    return refusal
