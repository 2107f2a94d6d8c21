"""The metrics of several processes as one text: every sample says which process it is from. Pure."""

from __future__ import annotations

from collections.abc import Sequence

_HELP = "# HELP "
LABEL = "process"


def merged(texts: Sequence[tuple[str, str]]) -> str:
    """Names of processes and their expositions, in Prometheus' text format, as one exposition."""
    heads: dict[str, list[str]] = {}
    samples: dict[str, list[str]] = {}
    for process, text in texts:
        name, is_new = "", False
        for line in text.splitlines():
            if line.startswith(_HELP):
                name = line[len(_HELP) :].partition(" ")[0]
                is_new = name not in heads
                if is_new:
                    heads[name], samples[name] = [], []
            if not line.startswith("#"):
                samples[name].append(labelled(line, process))
            elif is_new:
                heads[name].append(line)
    out = [line for name in sorted(heads) for line in (*heads[name], *samples[name])]
    return "\n".join(out) + "\n"


def labelled(sample: str, process: str) -> str:
    """A line of the format with one label more."""
    name, brace, rest = sample.partition("{")
    if brace:
        return f'{name}{{{LABEL}="{process}",{rest}'
    name, _, number = sample.partition(" ")
    return f'{name}{{{LABEL}="{process}"}} {number}'
