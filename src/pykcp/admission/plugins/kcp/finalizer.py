"""A finalizer that is set on creation and that only the system may remove."""

from __future__ import annotations

from pykcp.admission.refusing import refusal
from pykcp.auth.user import MASTERS
from pykcp.machinery import meta
from pykcp.machinery.resources import GroupVersionResource
from pykcp.registry.verbs.admitting import AdmissionRequest


class KeptFinalizer:
    def __init__(self, name: str, kind: GroupVersionResource, finalizer: str) -> None:
        self.name = name
        self.kind = kind
        self._finalizer = finalizer

    def wants(self, request: AdmissionRequest) -> bool:
        return request.operation != "DELETE"

    async def mutate(self, request: AdmissionRequest) -> None:
        obj = {"metadata": request.metadata}  # the object itself may be large
        if not meta.is_deleting(obj):
            meta.add_finalizer(obj, self._finalizer)

    async def validate(self, request: AdmissionRequest) -> None:
        obj = {"metadata": request.metadata}
        if meta.has_finalizer(obj, self._finalizer):
            return
        if not meta.is_deleting(obj):
            raise refusal(request, f"finalizer {self._finalizer} is required")
        if (
            meta.has_finalizer({"metadata": request.old_metadata}, self._finalizer)
            and MASTERS not in request.context.user.groups
        ):
            raise refusal(request, f"removing the finalizer {self._finalizer} is forbidden")
