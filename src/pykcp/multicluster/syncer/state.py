"""What a syncer notes on an object of a workspace (`SYNC_STATE`, `UNSCHEDULABLE`). Pure."""

from __future__ import annotations

from dataclasses import dataclass

import orjson


@dataclass(frozen=True, slots=True)
class SyncState:
    applied_generation: int = 0
    reason: str = ""
    """Why it could not be applied, in one word; empty if it was."""
    error: str = ""

    def is_noted_in(self, text: str) -> bool:
        """Whether an annotation says this already; its time does not count."""
        return parse_state(text) == self

    def to_json(self, now: str) -> str:
        fields: dict[str, str | int] = {"appliedGeneration": self.applied_generation}
        if self.reason:
            fields |= {"reason": self.reason, "error": self.error}
        return orjson.dumps(fields | {"time": now}).decode()


def parse_state(text: str) -> SyncState | None:
    """What an annotation says; None if it says nothing."""
    try:
        fields = orjson.loads(text)
        generation = fields["appliedGeneration"]
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return None
    if not isinstance(generation, int):
        return None
    return SyncState(generation, str(fields.get("reason") or ""), str(fields.get("error") or ""))


@dataclass(frozen=True, slots=True)
class StuckReplicas:
    """Replicas that no node of the cluster takes."""

    replicas: int
    message: str = ""

    def to_json(self) -> str:
        return orjson.dumps({"replicas": self.replicas, "message": self.message}).decode()


def parse_stuck(text: str) -> StuckReplicas | None:
    """What an annotation says; None if it says nothing."""
    try:
        fields = orjson.loads(text)
        replicas = fields["replicas"]
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return None
    if not isinstance(replicas, int) or replicas <= 0:
        return None
    return StuckReplicas(replicas, str(fields.get("message") or ""))
