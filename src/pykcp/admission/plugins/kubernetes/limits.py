"""LimitRanger: LimitRanges of a namespace give containers defaults and bound what pods and claims ask for."""

from __future__ import annotations

from pykcp.admission.plugins.kubernetes.objects import OtherObjects
from pykcp.apis.kube.workloads import limit_ranges
from pykcp.apis.kube.workloads.forms import WRONG_FORM
from pykcp.machinery import meta
from pykcp.machinery.resources import GroupVersionResource
from pykcp.machinery.status import Forbidden
from pykcp.registry.stored import StoreReader
from pykcp.registry.verbs.admitting import AdmissionRequest
from pykcp.types import Object

_LIMIT_RANGES = ("", "limitranges")
_ANY = "spec"


class LimitRanger:
    name = "LimitRanger"
    kinds = (
        GroupVersionResource("", "v1", "pods"),
        GroupVersionResource("", "v1", "persistentvolumeclaims"),
    )
    operations = ("CREATE", "UPDATE")

    def __init__(self, store: StoreReader) -> None:
        self._objects = OtherObjects(store)

    def wants(self, request: AdmissionRequest) -> bool:
        if not request.resource.definition.is_kubernetes:
            return False
        if request.resource.plural != "pods":
            return not request.subresource
        return request.subresource == ("" if request.operation == "CREATE" else "resize")

    async def mutate(self, request: AdmissionRequest) -> None:
        if request.resource.plural != "pods" or request.obj is None or _is_going(request):
            return
        for one in await self._of(request):
            try:
                limit_ranges.set_defaults(one, request.obj)
            except WRONG_FORM:
                return  # the checks reject it

    async def validate(self, request: AdmissionRequest) -> None:
        if request.obj is None or _is_going(request):
            return
        is_pod = request.resource.plural == "pods"
        find = limit_ranges.pod_problems if is_pod else limit_ranges.claim_problems
        for one in await self._of(request):
            try:
                problems = find(one, request.obj)
            except WRONG_FORM:
                problems = ["it does not have the form that LimitRanges are for"]
            if problems:
                why = limit_ranges.in_one(problems)
                raise Forbidden.resource("", request.resource.plural, request.name, why)

    async def _of(self, request: AdmissionRequest) -> list[Object]:
        found = self._objects.marked(request, _LIMIT_RANGES, _ANY, request.namespace)
        return [one async for one in found]


def _is_going(request: AdmissionRequest) -> bool:
    return request.old is not None and meta.is_deleting(request.old)
