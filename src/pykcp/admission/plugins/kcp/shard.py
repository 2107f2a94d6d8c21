"""Shards: defaults the external and virtual workspace URLs to the base URL, and notes new ones."""

from __future__ import annotations

from pykcp.machinery.kcp.clusters import ROOT
from pykcp.machinery.resources import SHARDS
from pykcp.machinery.status import Invalid, StatusError, invalid
from pykcp.machinery.untyped import mapping
from pykcp.registry.verbs.admitting import AdmissionRequest
from pykcp.registry.watch.joining import marked

_ADDRESSES = ("baseURL", "externalURL", "virtualWorkspaceURL")


class ShardAddresses:
    name = "tenancy.kcp.io/Shard"
    kind = SHARDS

    def wants(self, request: AdmissionRequest) -> bool:
        return request.operation != "DELETE"

    async def mutate(self, request: AdmissionRequest) -> None:
        assert request.obj is not None
        spec = mapping(request.obj.get("spec"))
        base = spec.get("baseURL")
        if not base:
            # kcp's plug-in fails here rather than refuse, and so does the request.
            raise StatusError("spec.baseURL is required", reason="", details=False)
        for field in ("externalURL", "virtualWorkspaceURL"):
            if not spec.get(field):
                spec[field] = base

    async def validate(self, request: AdmissionRequest) -> None:
        """The schema accepts a list although a format is given, as upstream's does."""
        assert request.obj is not None
        spec = mapping(request.obj.get("spec"))
        wrong = [name for name in _ADDRESSES if not isinstance(spec.get(name), str)]
        if wrong:
            kind = request.resource.kind
            errors = [invalid(f"spec.{name}", spec.get(name), "must be a string") for name in wrong]
            raise Invalid.fields(SHARDS.group, kind, request.name, errors)
        context = request.context
        if request.operation == "CREATE" and context.cluster == ROOT and not context.dry_run:
            request.reserve(marked)
