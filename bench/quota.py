"""A part of a core for each of some processes, by a control group of the kernel (as root, on Linux).

On a machine with as many cores as serving processes the client takes what the servers need. With a
part of a core each, all of them together leave the client enough, and what is measured is what the
processes can do.
"""

from __future__ import annotations

import os
import pathlib
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

_ROOT = pathlib.Path("/sys/fs/cgroup")
_PERIOD = 10_000
"""Microseconds: short, so that a process which has used its part does not rest for long."""


@contextmanager
def limited(pids: Sequence[int], cores: float) -> Iterator[None]:
    """Each process gets at most this part of a core; 0 is without a limit."""
    if not cores:
        yield
        return
    groups = [_group_of(pid, cores) for pid in pids]
    try:
        yield
    finally:
        for group in groups:
            for pid in (group / "cgroup.procs").read_text().split():
                (group.parent / "cgroup.procs").write_text(pid)
            group.rmdir()


def _group_of(pid: int, cores: float) -> pathlib.Path:
    first = _ROOT / "cpu"  # version 1 has a tree for each resource
    parent = first if first.is_dir() else _ROOT
    group = parent / f"pykcp-bench-{os.getpid()}-{pid}"
    quota = round(cores * _PERIOD)
    try:
        if parent is _ROOT:
            (parent / "cgroup.subtree_control").write_text("+cpu")
        group.mkdir()
        if parent is first:
            (group / "cpu.cfs_period_us").write_text(str(_PERIOD))
            (group / "cpu.cfs_quota_us").write_text(str(quota))
        else:
            (group / "cpu.max").write_text(f"{quota} {_PERIOD}")
        (group / "cgroup.procs").write_text(str(pid))
    except OSError as error:
        sys.exit(f"a part of a core needs a writable control group: {error}")
    return group
