"""Whether a process is well: which probes are due, and what their results mean. Pure.

Probes begin at once and are close together until the process is ready, so that an installation is
up as soon as it can be; the delay of a probe is the time during which its failures do not count.
"""

from __future__ import annotations

from pykcp.programs.operator.compiled import Probe, Probes

STARTUP, READINESS, LIVENESS = "startup", "readiness", "liveness"
_FIRST_PAUSE, _LAST_PAUSE, _GROWTH = 0.05, 1.0, 1.3


class ReplicaHealth:
    """Times are those of one clock that never goes back, in seconds."""

    def __init__(self, probes: Probes, started: float) -> None:
        self._probes, self._started = probes, started
        self._failures = {STARTUP: 0, READINESS: 0, LIVENESS: 0}
        self._pause = _FIRST_PAUSE
        self.is_ready = probes.readiness is None and probes.startup is None
        self.has_started = probes.startup is None
        self.problem = ""
        """Of the last probe that failed, while the process is not ready."""
        self.restart_reason = ""
        """Set when the process must be restarted."""
        self._next: dict[str, float] = {}
        if probes.startup is not None:
            self._next[STARTUP] = started
        else:
            self._begin(started)

    def due(self, now: float) -> list[tuple[str, Probe]]:
        """The probes to send now."""
        found = [(kind, self._probe(kind)) for kind, moment in self._next.items() if moment <= now]
        return [(kind, probe) for kind, probe in found if probe is not None]

    def wait(self, now: float) -> float | None:
        """Seconds until the next probe; None if there is none."""
        if not self._next:
            return None
        return max(0.0, min(self._next.values()) - now)

    def note(self, kind: str, problem: str, now: float) -> None:
        """The result of a probe; "" if it was answered with success."""
        probe = self._probe(kind)
        if probe is None or kind not in self._next:
            return
        self._failures[kind] = 0 if not problem else self._failures[kind] + 1
        if kind == STARTUP:
            self._note_startup(probe, problem, now)
        elif kind == READINESS:
            self._note_readiness(probe, problem, now)
        else:
            self._next[LIVENESS] = now + probe.period
            if self._failures[LIVENESS] >= probe.failures:
                self.restart_reason = f"liveness probe failed {probe.failures} times: {problem}"

    def _note_startup(self, probe: Probe, problem: str, now: float) -> None:
        if not problem:
            del self._next[STARTUP]
            self.has_started = True
            self._begin(now)
            readiness = self._probes.readiness
            if readiness is None or readiness.path == probe.path:
                self._set_ready(readiness, now)
            return
        self.problem = problem
        budget = probe.delay + probe.failures * probe.period
        if now - self._started >= budget:
            self.restart_reason = f"not started after {budget:g} s: {problem}"
        self._next[STARTUP] = now + min(probe.period, self._quick_pause())

    def _begin(self, now: float) -> None:
        if self._probes.readiness is not None:
            self._next[READINESS] = now
        liveness = self._probes.liveness
        if liveness is not None:
            self._next[LIVENESS] = max(now, self._started + liveness.delay)

    def _note_readiness(self, probe: Probe, problem: str, now: float) -> None:
        if not problem:
            self._set_ready(probe, now)
            return
        self.problem = problem
        if self._failures[READINESS] >= probe.failures:
            self.is_ready = False
        pause = probe.period if self.is_ready else min(probe.period, self._quick_pause())
        self._next[READINESS] = now + pause

    def _set_ready(self, probe: Probe | None, now: float) -> None:
        self.is_ready, self.problem, self._pause = True, "", _FIRST_PAUSE
        if probe is not None:
            self._next[READINESS] = now + probe.period

    def _quick_pause(self) -> float:
        pause = self._pause
        self._pause = min(pause * _GROWTH, _LAST_PAUSE)
        return pause

    def _probe(self, kind: str) -> Probe | None:
        found: Probe | None = getattr(self._probes, kind)
        return found
