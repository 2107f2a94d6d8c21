"""How the start of an installation goes, on a terminal or in a log."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

from pykcp.cli.terminal import GREEN, RED, YELLOW, paint
from pykcp.types import Object

_WORDS = {
    "Ready": "ready",
    "Starting": "starting",
    "NotReady": "not ready",
    "BackOff": "failing",
    "Stopping": "stopping",
}
_COLOURS = {"ready": GREEN, "not ready": RED, "failing": RED}
"""On a terminal; others are on their way."""
_LONGEST = 160


class StartProgress:
    """Prints a line per workload; on a terminal the lines are replaced as they change."""

    def __init__(self, clock: float | None = None) -> None:
        self._began = time.monotonic() if clock is None else clock
        self._is_terminal = sys.stdout.isatty()
        self._drawn = 0
        self._last: dict[str, str] = {}

    def show(self, workloads: Sequence[Object]) -> None:
        lines = {str(one["name"]): workload_line(one) for one in workloads}
        if self._is_terminal:
            if self._drawn:
                sys.stdout.write(f"\x1b[{self._drawn}A\x1b[J")
            for line in lines.values():
                print(line)
            self._drawn = len(lines)
        else:
            for name, line in lines.items():
                if self._last.get(name) != line:
                    print(line)
        self._last = lines
        sys.stdout.flush()

    def done(self, count: int, kubeconfig: str) -> None:
        seconds = time.monotonic() - self._began
        print(f"{count} workloads are ready after {seconds:.1f} s")
        if kubeconfig:
            print(f"try: kubectl --kubeconfig={kubeconfig} get shards")
        sys.stdout.flush()


def workload_line(workload: Object) -> str:
    """`root-kcp  ready  1/1  127.0.0.1:6444`, and why it is not."""
    name, ready, desired = workload["name"], workload["ready"], workload["desired"]
    phases = [_WORDS.get(one["phase"], one["phase"]) for one in workload["replicas"]]
    word = (
        "ready" if workload["available"] else next((p for p in phases if p != "ready"), "waiting")
    )
    shown = paint(f"{word:<10}", _COLOURS.get(word, YELLOW))
    line = f"  {name:<28} {shown} {ready}/{desired}  {workload['address']}"
    if not workload["available"]:
        message = next(
            (c["message"] for c in workload["conditions"] if c["type"] == "Available"), ""
        )
        message = " ".join(str(message).split())
        line += f"  {message[:_LONGEST]}"
    return line
