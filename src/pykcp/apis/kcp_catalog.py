"""kcp's own resources. Upstream they are custom resources, and they behave so here.

A definition's origin is the logical cluster that kcp keeps it in: system ones are seen
everywhere, the others reach a cluster through the exports of `root`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pykcp.apis.loader import library, shared_type
from pykcp.machinery.schema.definition import ResourceDefinition, ResourceVersion, Subresource
from pykcp.machinery.schema.model import Schema
from pykcp.machinery.schema.printer import custom_columns

SYSTEM_CRDS = "system:system-crds"
BOUND_CRDS = "system:bound-crds"

VERBS = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")
STATUS_VERBS = ("get", "patch", "update")

AGE = ("Age", "date", ".metadata.creationTimestamp")
READY = ("Ready", "string", '.status.conditions[?(@.type=="Ready")].status')

ColumnRow = tuple[str, str, str]


def _schema(path: str, kind: str) -> Callable[[], Schema]:
    return lambda: library().kind(path, kind)


def _version(
    group: str, name: str, kind: str, rows: tuple[ColumnRow, ...], *, status: bool
) -> ResourceVersion:
    path = f"kcp/{group.partition('.')[0]}_{name}"
    asked = [{"name": n, "type": t, "jsonPath": p} for n, t, p in rows]
    return ResourceVersion.lazy(
        name,
        _schema(path, kind),
        lambda: custom_columns(asked),
        load_list_schema=_schema(path, f"{kind}List"),
        subresources=(Subresource("status", kind, STATUS_VERBS),) if status else (),
    )


def custom(
    group: str,
    kind: str,
    plural: str,
    versions: dict[str, tuple[ColumnRow, ...]],
    *,
    origin: str,
    status: bool = True,
    **more: Any,
) -> ResourceDefinition:
    """One of kcp's kinds; `versions` maps each version to its columns, preferred first."""
    return ResourceDefinition(
        group=group,
        plural=plural,
        singular=kind.lower(),
        kind=kind,
        list_kind=f"{kind}List",
        all_versions=tuple(_version(group, v, kind, c, status=status) for v, c in versions.items()),
        verbs=VERBS,
        storage_version=next(iter(versions)),
        native=False,
        strategy=f"{plural}.{group}",
        origin=origin,
        shared=shared_type,
        **{"namespaced": False, "categories": ("kcp",), **more},
    )


def kcp_definitions() -> tuple[ResourceDefinition, ...]:
    """kcp's kinds, by group, in the order of discovery."""
    return (*_core(),)


def _core() -> tuple[ResourceDefinition, ...]:
    group = "core.kcp.io"
    cluster = (("Phase", "string", ".status.phase"), ("URL", "string", ".status.URL"), AGE)
    shard = (
        ("Region", "string", ".metadata.labels['region']"),
        ("URL", "string", ".spec.baseURL"),
        ("External URL", "string", ".spec.externalURL"),
        AGE,
    )
    return (
        custom(
            group, "LogicalCluster", "logicalclusters", {"v1alpha1": cluster}, origin=SYSTEM_CRDS
        ),
        custom(group, "Shard", "shards", {"v1alpha1": shard}, origin=BOUND_CRDS),
    )
