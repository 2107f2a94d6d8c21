"""LimitRanger: LimitRanges of a namespace give containers defaults and bound what pods and claims ask for."""

from __future__ import annotations

from collections.abc import Sequence

import orjson

from pykcp.admission.plugins.kubernetes.objects import OtherObjects
from pykcp.admission.reinvocation import replace_contents
from pykcp.apis.kube.workloads import limit_ranges
from pykcp.apis.kube.workloads.forms import WRONG_FORM
from pykcp.machinery.resources import GroupVersionResource
from pykcp.machinery.schema.growth import Outgrown
from pykcp.machinery.status import Forbidden
from pykcp.registry import codec
from pykcp.registry.stored import StoreReader
from pykcp.registry.verbs.admitting import AdmissionRequest
from pykcp.registry.verbs.large_request import LargeRequest
from pykcp.registry.verbs.large_work import LargeWork

_LIMIT_RANGES = ("", "limitranges")
_ANY = "spec"
_CONTAINERS = ("containers", "initContainers")
_JOBS = "pykcp.apis.kube.workloads.limit_ranges"
_SHORT = 256 << 10
"""Octets of limits, for each container anew, that take a few milliseconds."""


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
        if request.resource.plural != "pods" or not request.has_object or _is_going(request):
            return
        found = await self._of(request)
        if not found:
            return
        if (work := _worker(request, found)) is not None:
            await _set_elsewhere(request, work, found)
            return
        for one in found:
            try:
                limit_ranges.set_defaults(codec.decode(one), request.obj or {})
            except WRONG_FORM:
                return  # the checks reject it

    async def validate(self, request: AdmissionRequest) -> None:
        if not request.has_object or _is_going(request):
            return
        found = await self._of(request)
        if not found:
            return
        job = (found, request.resource.plural, _text(request))
        if (work := _worker(request, found)) is None:
            problems = limit_ranges.first_problems(*job)
        else:
            problems = await work.compute(request.context.cluster, f"{_JOBS}:first_problems", *job)
        if problems:
            why = limit_ranges.in_one(problems)
            raise Forbidden.resource("", request.resource.plural, request.name, why)

    async def _of(self, request: AdmissionRequest) -> list[bytes]:
        found = self._objects.texts(request, _LIMIT_RANGES, _ANY, request.namespace)
        return [one async for one in found]


def _worker(request: AdmissionRequest, limits: Sequence[bytes]) -> LargeWork | None:
    """If that would take long here: each container is compared with all limits."""
    if isinstance(request, LargeRequest):
        return request.resource.services.large
    spec = (request.obj or {}).get("spec")
    groups = [spec.get(name) for name in _CONTAINERS] if isinstance(spec, dict) else []
    count = sum(len(group) for group in groups if isinstance(group, list))
    is_short = max(1, count) * sum(map(len, limits)) <= _SHORT
    return None if is_short else request.resource.services.large


async def _set_elsewhere(
    request: AdmissionRequest, work: LargeWork, limits: Sequence[bytes]
) -> None:
    job = f"{_JOBS}:with_defaults"
    made: bytes = await work.compute(request.context.cluster, job, limits, _text(request))
    if isinstance(request, LargeRequest):
        request.replace(made)
        return
    if request.can_restart and request.resource.is_large(len(made)):
        raise Outgrown
    if request.obj is not None:
        replace_contents(request.obj, codec.decode(made))


def _text(request: AdmissionRequest) -> bytes:
    return request.text() if isinstance(request, LargeRequest) else orjson.dumps(request.obj)


def _is_going(request: AdmissionRequest) -> bool:
    return bool(request.old_metadata.get("deletionTimestamp"))
