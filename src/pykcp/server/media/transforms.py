"""Tables and partial metadata: the shortened forms that clients ask for."""

from __future__ import annotations

from datetime import UTC, datetime

import orjson

from pykcp.machinery.schema.definition import Column
from pykcp.machinery.status import BadRequest, NotAcceptable
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


_PARTIAL = "PartialObjectMetadata"
_PARTIAL_LIST = "PartialObjectMetadataList"


def check_list_form(call: Call) -> None:
    """406 for a list that is asked for as the metadata of one object."""
    if call.accepted.transform == _PARTIAL:
        kind = _go_type(call.resource, call.resource.definition.list_kind)
        raise NotAcceptable.because(
            f"you requested {_PARTIAL}, but the requested object is a list ({kind})"
        )


def check_object_form(call: Call) -> None:
    """406 for one object that is asked for as a list of metadata."""
    if call.accepted.transform == _PARTIAL_LIST:
        kind = _go_type(call.resource, call.resource.kind)
        raise NotAcceptable.because(
            f"you requested {_PARTIAL_LIST}, but the requested object is not a list ({kind})"
        )


def _go_type(resource: Resource, kind: str) -> str:
    """The name that upstream's messages have for a kind: that of its internal Go type."""
    if not resource.definition.native:
        suffix = "List" if kind.endswith("List") else ""
        return f"*unstructured.Unstructured{suffix}"
    package = resource.group.split(".", 1)[0]
    return f"*{'core' if package in _IN_CORE else package}.{kind}"


_IN_CORE = ("", "events")
"""Groups whose internal types are those of the core group."""


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


def rows(resource: Resource, objects: list[Object], version: str, include: str) -> list[Object]:
    """The rows of some objects, as of now."""
    moment = datetime.fromtimestamp(resource.services.sources.now.clock(), UTC)
    columns = resource.definition.columns(resource.version)
    return [_row(columns, obj, include, version, moment) for obj in objects]


def table_head(resource: Resource, version: str, *, with_columns: bool = True) -> bytes:
    """The beginning of a table in JSON, up to its columns."""
    columns = None
    if with_columns:
        columns = [c.to_json() for c in resource.definition.columns(resource.version)]
    return b'{"kind":"Table","apiVersion":"meta.k8s.io/%b","columnDefinitions":%b' % (
        version.encode(),
        orjson.dumps(columns),
    )


def _row(
    columns: tuple[Column, ...], obj: Object, include: str, version: str, now: datetime
) -> Object:
    row: Object = {"cells": [c.cell(obj, now) if c.cell else None for c in columns], "object": None}
    if include == "Object":
        row["object"] = obj
    elif include == "Metadata":
        row["object"] = partial(obj, version)
    return row
