"""Whether a cluster is ready, from what is observed of it over time. Pure.

One failure does not matter, and one success does not make up for an outage: links that come and go
would otherwise move workloads to and fro. All times are by the clock of the control plane.
"""

from __future__ import annotations

from typing import NamedTuple

from pykcp.machinery.conditions import FALSE, TRUE, UNKNOWN
from pykcp.multicluster.clusters.settings import ClusterSettings

STATUS_UNKNOWN = "ClusterStatusUnknown"
READY = "ClusterReady"
NOT_READY = "ClusterNotReady"
UNREACHABLE = "ClusterUnreachable"
UNAUTHORIZED = "CredentialsRejected"
NO_HEARTBEAT = "ErrorHeartbeat"
_OUTAGES = frozenset((NOT_READY, UNREACHABLE, UNAUTHORIZED, NO_HEARTBEAT))


class Readiness(NamedTuple):
    status: str
    """Of the condition `Ready`."""
    reason: str
    message: str = ""

    @property
    def is_ready(self) -> bool:
        return self.status == TRUE


class ClusterHealth:
    """Is told of probes, or of heartbeats in the modes where the control plane does not probe."""

    def __init__(
        self, settings: ClusterSettings, now: float, before: Readiness | None, *, probes: bool
    ) -> None:
        """`before`: as the Cluster object says; a restart of the control plane is no outage."""
        self._settings, self._probes = settings, probes
        self.verdict = before or Readiness(UNKNOWN, STATUS_UNKNOWN)
        self._recovers = before is not None and before.reason in _OUTAGES
        self._failures = 0
        self._well_since: float | None = None
        self._heard = now

    def succeeded(self, now: float) -> None:
        self._heard, self._failures = now, 0
        if self._well_since is None:
            self._well_since = now
        if not self._recovers or now - self._well_since >= self._settings.recovery:
            self._recovers = False
            self.verdict = Readiness(TRUE, READY)

    def failed(self, now: float, reason: str, message: str) -> None:
        self._heard, self._well_since = now, None
        self._failures += 1
        if self.verdict.is_ready and self._failures < self._settings.failures:
            return
        self._recovers = self._recovers or self.verdict.is_ready
        status = UNKNOWN if reason == UNREACHABLE else FALSE
        self.verdict = Readiness(status, reason, message)

    def look(self, now: float) -> float | None:
        """Notice silence; returns the seconds until the next time that this may change anything."""
        settings = self._settings
        if not self._probes:
            left = self._heard + settings.heartbeat_expiry - now
            if left > 0:
                return left
            if self.verdict.reason != STATUS_UNKNOWN:
                self._well_since = None
                self._recovers = self._recovers or self.verdict.is_ready
                message = f"no heartbeat of the syncer for {settings.heartbeat_expiry:g} seconds"
                self.verdict = Readiness(UNKNOWN, NO_HEARTBEAT, message)
        return None

    def recovery_left(self, now: float) -> float | None:
        """Seconds until a cluster that is well again counts as ready; None if it is not well."""
        if self._well_since is None or self.verdict.is_ready:
            return None
        return max(0.0, self._well_since + self._settings.recovery - now)
