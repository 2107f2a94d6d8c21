"""Which programs an image has, and which flags those of its version know. Pure."""

from __future__ import annotations

import re
from typing import NamedTuple

from pykcp.programs.operator.kinds.parts import IMAGE_REPOSITORY, IMAGE_TAG, is_kcp_image
from pykcp.programs.operator.platform import Platform
from pykcp.types import Object

_VERSION = re.compile(r"v?(\d+)(?:\.(\d+))?(?:\.(\d+))?(-[0-9A-Za-z.-]+)?(?:\+[0-9A-Za-z.-]+)?")


class KcpVersion(NamedTuple):
    major: int
    minor: int = 0
    patch: int = 0
    is_final: bool = True
    """Whether it is not a pre-release, which comes before."""


MOUNTS = (KcpVersion(0, 31, 6), KcpVersion(0, 32, 3))
CACHE_CLIENTS = (KcpVersion(0, 29, 2), KcpVersion(0, 30, 2), KcpVersion(0, 31, 0))
"""Since when flags exist: one version for each line, and all lines after the last one."""


def kcp_version(tag: str) -> KcpVersion | None:
    """The version that a tag names; None for `main` and the like, which count as newest."""
    found = _VERSION.fullmatch(tag)
    if found is None:
        return None
    major, minor, patch, before = found.groups()
    return KcpVersion(int(major), int(minor or 0), int(patch or 0), before is None)


def has_our_programs(platform: Platform, spec: Object) -> bool:
    """Whether the programs of a workload are this project's. `spec`: what has its image."""
    repository = (spec.get("image") or {}).get("repository") or IMAGE_REPOSITORY
    return platform.has_our_programs or not is_kcp_image(repository)


def knows(platform: Platform, spec: Object, since: tuple[KcpVersion, ...]) -> bool:
    """Whether the program of a workload has flags that exist since then."""
    version = kcp_version((spec.get("image") or {}).get("tag") or IMAGE_TAG)
    if version is None or has_our_programs(platform, spec):
        return True
    return version >= since[-1] or any(
        version[:2] == first[:2] and version >= first for first in since
    )


def inherited_image(spec: Object, parent: Object) -> Object:
    """The spec of a part with the image of the whole, where it names none of its own."""
    merged = {**(parent.get("image") or {}), **(spec.get("image") or {})}
    return {**spec, "image": merged}
