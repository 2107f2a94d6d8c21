"""The rows of `stalls` side by side, from the files that it wrote with --json.

python bench/stalls_table.py FILE…

Of several runs of a row that one counts in which the innocent tenant's process was least late.
"""

from __future__ import annotations

import json
import pathlib
import sys
from typing import Any

_OURS, _PEER = "pykcp", "kube-apiserver"


def _cells(row: dict[str, Any] | None) -> str:
    if row is None:
        return "– | – | – | –"
    if row["problem"] and not row["answers"]:
        return f"{row['problem'][:40]} | – | – | –"
    growth = f"{row['memory_growth']:+.0f}"
    return (
        f"{row['get_p99']:.0f} / {row['get_longest']:.0f}"
        f" | {row['write_p99']:.0f} / {row['write_longest']:.0f}"
        f" | {row['cpu']:.1f} | {growth}"
    )


def table(rows: list[dict[str, Any]]) -> str:
    """GET and write: p99 and longest in milliseconds; CPU in seconds; memory in MiB."""
    found: dict[str, dict[str, Any]] = {}
    for row in rows:
        known = found.setdefault(row["name"], {})
        other = known.get(row["server"])
        if other is None or row["own_lateness"] < other["own_lateness"]:
            known[row["server"]] = row
    lines = [
        "| attack | answers | GET | write | CPU | memory | peer: GET | write | CPU | memory |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for name, by_server in found.items():
        ours, peer = by_server.get(_OURS), by_server.get(_PEER)
        answers = ours["answers"] if ours else ""
        lines.append(f"| {name} | {answers or '–'} | {_cells(ours)} | {_cells(peer)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(
        table([row for path in sys.argv[1:] for row in json.loads(pathlib.Path(path).read_text())])
    )
