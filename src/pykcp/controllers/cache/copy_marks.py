"""The mark in the cache that says that all objects of a ClusterCachedResource are copied. Pure.

A cache that is new or lost its data is filled again. Until the mark is there, a missing copy does
not mean that there is no such object, and readers must not be told so: they would take all that
they know of for deleted.

The mark is a CachedObject with the cluster and the name of the ClusterCachedResource. It is lost
with the copies that it is about.
"""

from __future__ import annotations

from pykcp.machinery import meta
from pykcp.machinery.object_keys import resource_id
from pykcp.machinery.resources import CACHED_OBJECTS
from pykcp.types import Object

MARKS = resource_id(CACHED_OBJECTS.group, CACHED_OBJECTS.resource)
"""What marks are in the cache."""
_COPIES = "internal.kcp.io/copies"


def mark_object(name: str, copies: str) -> Object:
    """The mark of a ClusterCachedResource; `copies`: what its copies are in the cache."""
    return {
        "apiVersion": f"{CACHED_OBJECTS.group}/{CACHED_OBJECTS.version}",
        "kind": "CachedObject",
        "metadata": {"name": name, "annotations": {_COPIES: copies}},
        "spec": {"raw": {}},
    }


def copies_of(obj: Object | None) -> str:
    """Which resource of the cache is complete, with its identity; "" if this is no such mark."""
    return meta.annotation(obj, _COPIES) if obj is not None else ""
