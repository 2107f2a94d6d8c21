"""Shards: two of their three addresses are the first, unless they say otherwise."""

from __future__ import annotations

from pykcp.machinery.resources import SHARDS
from pykcp.machinery.status import StatusError
from pykcp.registry.admitting import AdmissionRequest


class ShardAddresses:
    name = "tenancy.kcp.io/Shard"
    kind = SHARDS

    def wants(self, request: AdmissionRequest) -> bool:
        return request.operation != "DELETE"

    async def mutate(self, request: AdmissionRequest) -> None:
        assert request.obj is not None
        spec = request.obj.get("spec") or {}
        base = spec.get("baseURL")
        if not base:
            # kcp's plug-in fails here rather than refuse, and so does the request.
            raise StatusError("spec.baseURL is required", reason="", details=False)
        for field in ("externalURL", "virtualWorkspaceURL"):
            if not spec.get(field):
                spec[field] = base
