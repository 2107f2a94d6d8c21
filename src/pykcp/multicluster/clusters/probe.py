"""A look at a cluster: whether it answers and is ready, and which one it is."""

from __future__ import annotations

from dataclasses import dataclass

import orjson

from pykcp.machinery.status import StatusError
from pykcp.multicluster.clusters.connection import ClusterClient
from pykcp.multicluster.clusters.health import NOT_READY, UNAUTHORIZED, UNREACHABLE
from pykcp.multicluster.readiness import failure


@dataclass(frozen=True, slots=True)
class ProbeResult:
    reason: str = ""
    """Why the cluster is not ready; "" if it is."""
    message: str = ""
    uid: str = ""
    version: str = ""

    @property
    def is_ready(self) -> bool:
        return not self.reason


async def probe(
    client: ClusterClient, seconds: float, known: ProbeResult | None = None
) -> ProbeResult:
    """One look; it fails with a reason, never with an error.

    `known`: a recent result, whose identity and version need not be read again unless another
    connection was opened since.
    """
    try:
        status, body = await client.read("/readyz", seconds)
        if status == 404:  # servers before 1.16
            status, body = await client.read("/healthz", seconds)
        if status in (401, 403):
            return ProbeResult(UNAUTHORIZED, f"GET /readyz: status {status}")
        if status != 200:
            return ProbeResult(NOT_READY, failure(status, body))
        if known is not None and client.is_identified:
            return known
        _, version = await client.read("/version", seconds)
        return ProbeResult(uid=await client.read_identity(), version=_version(version))
    except StatusError as error:
        if error.code in (401, 403):
            return ProbeResult(UNAUTHORIZED, error.message)
        return ProbeResult(UNREACHABLE, error.message)


def _version(body: bytes) -> str:
    try:
        return str(orjson.loads(body).get("gitVersion") or "")
    except (orjson.JSONDecodeError, AttributeError):
        return ""
