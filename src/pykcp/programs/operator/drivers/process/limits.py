"""Limits of a workload's resources, as far as processes can be held to them. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from pykcp.machinery import quantity
from pykcp.programs.operator.compiled import CompiledWorkload

_MEMORY = "memory"


def memory_limit(compiled: CompiledWorkload) -> int:
    """Bytes; 0 if there is none, or nothing that would check it."""
    given = compiled.resources.get("limits", {}).get(_MEMORY, "")
    return quantity.parse(given).value if given and _is_probed(compiled) else 0


def memory_problem(used: int, limit: int) -> str:
    """Why a process has to be restarted; "" if it has not."""
    if not limit or used <= limit:
        return ""
    return f"it used {_mebibytes(used)} of memory; resources.limits.memory is {_mebibytes(limit)}"


def unlimited_resources(compiled: CompiledWorkload) -> Iterator[str]:
    """Fields that have no effect on processes."""
    if compiled.resources.get("requests"):
        yield "resources.requests"
    for name in sorted(compiled.resources.get("limits", {})):
        if name != _MEMORY:
            yield f"resources.limits.{name}"
        elif not _is_probed(compiled):
            yield f"resources.limits.{name} (the program has no probes)"


def _is_probed(compiled: CompiledWorkload) -> bool:
    return compiled.probes.readiness is not None or compiled.probes.liveness is not None


def _mebibytes(count: int) -> str:
    return f"{count / 2**20:.0f} MiB"
