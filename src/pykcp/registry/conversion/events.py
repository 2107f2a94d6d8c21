"""Events exist in two groups and are stored once, in the core group's form."""

from __future__ import annotations

from pykcp.registry.resource import Conversion
from pykcp.types import Object

_NAMES = {
    "regarding": "involvedObject",
    "note": "message",
    "reportingController": "reportingComponent",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
}
_CORE_NAMES = {core: ours for ours, core in _NAMES.items()}
_REFERENCE_FIELDS = (
    "kind",
    "namespace",
    "name",
    "uid",
    "apiVersion",
    "resourceVersion",
    "fieldPath",
)

FIELD_NAMES = {
    **{f"regarding.{f}": f"involvedObject.{f}" for f in _REFERENCE_FIELDS},
    "reportingController": "reportingComponent",
}
"""Selectable fields of events.k8s.io, by the names under which they are stored."""


def to_core(obj: Object) -> Object:
    return {_NAMES.get(name, name): value for name, value in obj.items()}


def from_core(obj: Object) -> Object:
    out = {_CORE_NAMES.get(name, name): value for name, value in obj.items()}
    out.setdefault("regarding", {})
    return out


EVENTS_CONVERSION = Conversion(to_core, from_core, FIELD_NAMES)
