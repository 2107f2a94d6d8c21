"""Names and paths of logical clusters.

A path is cluster or workspace names joined by colons, `root:org:team`. A path without a colon
is a cluster name. One that starts with `system:` is a cluster name as a whole: it has no parent
and is never taken apart. `*` means all logical clusters of a shard.
"""

from __future__ import annotations

import re
from typing import NamedTuple

WILDCARD = "*"
ROOT = "root"
SYSTEM_PREFIX = "system:"
SYSTEM_ADMIN = "system:admin"
SYSTEM_SHARD = "system:shard"
SYSTEM_BOUND_CRDS = "system:bound-crds"
SYSTEM_SYSTEM_CRDS = "system:system-crds"

SEPARATOR = ":"
MAX_DEPTH = 256
"""Segments of the longest path that is followed; workspaces are not nested deeper."""
_MAX_LENGTH = 64 * 1024
_SEGMENT = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_PATH = re.compile(rf"{_SEGMENT}(?::{_SEGMENT})*")
_NAME = re.compile(_SEGMENT)


class Split(NamedTuple):
    """A path taken apart at its last colon."""

    parent: str
    name: str


def is_valid_path(path: str) -> bool:
    """Whether this can stand in `/clusters/<path>`; `*` can."""
    if len(path) > _MAX_LENGTH:
        return False
    return path == WILDCARD or _PATH.fullmatch(path) is not None


def is_wildcard(path: str) -> bool:
    return path == WILDCARD


def is_system(path: str) -> bool:
    return path.startswith(SYSTEM_PREFIX)


def is_too_deep(path: str) -> bool:
    return path.count(SEPARATOR) >= MAX_DEPTH


def is_name(path: str) -> bool:
    """Whether a valid path is the name of one logical cluster rather than a way to it."""
    return path != WILDCARD and (SEPARATOR not in path or path.startswith(SYSTEM_PREFIX))


def is_valid_name(name: str) -> bool:
    """Whether a logical cluster can have this name."""
    if name.startswith(SYSTEM_PREFIX):
        return _PATH.fullmatch(name) is not None
    return _NAME.fullmatch(name) is not None


def split(path: str) -> Split:
    """`root:org:team` is (`root:org`, `team`), `root` is ("", `root`).

    A system cluster is its own parent without a name, as upstream has it.
    """
    if path.startswith(SYSTEM_PREFIX):
        return Split(path, "")
    parent, _, name = path.rpartition(SEPARATOR)
    return Split(parent, name)


def parent(path: str) -> str | None:
    """The path above, None if there is none."""
    if path.startswith(SYSTEM_PREFIX):
        return None
    above, colon, _ = path.rpartition(SEPARATOR)
    return above if colon else None


def base(path: str) -> str:
    """The last segment ("" for system clusters, as upstream has it)."""
    return split(path).name


def join(path: str, name: str) -> str:
    """The path of a workspace in the one at `path`."""
    return f"{path}{SEPARATOR}{name}" if path else name


def has_prefix(path: str, prefix: str) -> bool:
    """Whether `path` is `prefix` or lies below it; every path lies below ""."""
    return not prefix or path == prefix or path.startswith(prefix + SEPARATOR)


def request_path(path: str) -> str:
    """The URL prefix of a path."""
    return f"/clusters/{path}"
