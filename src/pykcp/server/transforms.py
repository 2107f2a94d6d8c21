"""Tables and partial metadata: the shortened forms that clients ask for."""

from __future__ import annotations

from datetime import UTC, datetime

from pykcp.machinery.schema.definition import Column
from pykcp.machinery.status import BadRequest
from pykcp.registry.resource import Resource
from pykcp.server.call import Call
from pykcp.types import Object

_INCLUDE = ("", "None", "Metadata", "Object")


def include_policy(call: Call) -> str:
    policy = call.info.param("includeObject")
    if policy not in _INCLUDE:
        raise BadRequest(
            f'Unable to convert to Table as requested: includeObject: Invalid value: "{policy}": '
            "must be 'Metadata', 'Object', 'None', or empty"
        )
    return policy or "Metadata"


def partial(obj: Object, version: str) -> Object:
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": f"meta.k8s.io/{version}",
        "metadata": obj["metadata"],
    }


def partial_list(items: list[Object], metadata: Object, version: str) -> Object:
    return {
        "kind": "PartialObjectMetadataList",
        "apiVersion": f"meta.k8s.io/{version}",
        "metadata": metadata,
        "items": [{**partial(o, version)} for o in items],
    }


def table(
    resource: Resource,
    objects: list[Object],
    metadata: Object,
    version: str,
    include: str,
    now: float,
    *,
    with_columns: bool = True,
    columns: tuple[Column, ...] | None = None,
) -> Object:
    """`columns`: those of a subresource of another kind."""
    columns = columns or resource.definition.columns(resource.version)
    moment = datetime.fromtimestamp(now, UTC)
    rows = [_row(columns, obj, include, version, moment) for obj in objects]
    return {
        "kind": "Table",
        "apiVersion": f"meta.k8s.io/{version}",
        "metadata": metadata,
        "columnDefinitions": [c.to_json() for c in columns] if with_columns else None,
        "rows": rows,
    }


def _row(
    columns: tuple[Column, ...], obj: Object, include: str, version: str, now: datetime
) -> Object:
    row: Object = {"cells": [c.cell(obj, now) if c.cell else None for c in columns], "object": None}
    if include == "Object":
        row["object"] = obj
    elif include == "Metadata":
        row["object"] = partial(obj, version)
    return row
