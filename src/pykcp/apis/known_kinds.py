"""Which kinds a kube-apiserver can read, served or not: what it says of a body of the wrong kind depends on it."""

from __future__ import annotations

from functools import cache

from pykcp.apis.catalog import builtin_definitions
from pykcp.apis.kube.workloads import workload_kinds

_EXTENSIONS = "apiextensions.k8s.io"
"""Read by a server of its own, which knows no other kinds."""
_INTERNAL_PACKAGES = {"": "core", "events.k8s.io": "core"}
"""Go packages of the internal types. Others are called like the first part of their group."""


def is_readable_instead(api_version: str, kind: str, wanted_version: str) -> bool:
    """Whether upstream reads this kind where one of the version `wanted_version` is expected."""
    if _EXTENSIONS in (_group(api_version), _group(wanted_version)):
        return False
    return (api_version, kind) in _readable()


def internal_type(api_version: str, kind: str) -> str:
    """The name of the type that upstream converts objects of a version to: `core.ConfigMap`."""
    group = _group(api_version)
    return f"{_INTERNAL_PACKAGES.get(group) or group.partition('.')[0]}.{kind}"


def _group(api_version: str) -> str:
    return api_version.rpartition("/")[0]


@cache
def _readable() -> frozenset[tuple[str, str]]:
    found = {("v1", "List"), *workload_kinds()}
    for definition in builtin_definitions():
        if definition.native and definition.group.partition(".")[2] != "kcp.io":
            for version in definition.versions:
                api_version = f"{definition.group}/{version}".lstrip("/")
                found |= {(api_version, definition.kind), (api_version, definition.list_kind)}
    return frozenset(found)
