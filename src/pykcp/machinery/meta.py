"""Cheap accessors on object dicts.

They read what is there and never add anything; where upstream has a zero value, so do they
("" for a missing name, an empty mapping for missing labels). Do not change what they return:
use the functions that say they set something.
"""

import math
import time
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from pykcp.types import Object

SYNCER_FINALIZER = "workloads.kcp.dev/syncer-"
"""Finalizers of syncers of physical clusters begin so."""
CLUSTER_ANNOTATION = "kcp.io/cluster"
ORPHAN_FINALIZER = "orphan"
FOREGROUND_FINALIZER = "foregroundDeletion"

_NO_STRINGS: Mapping[str, str] = {}
_NO_OBJECT: Mapping[str, Any] = {}


def metadata(obj: Mapping[str, Any]) -> Mapping[str, Any]:
    return obj.get("metadata") or _NO_OBJECT


def mutable_metadata(obj: Object) -> Object:
    """The metadata to write to; made if missing."""
    found: Object | None = obj.get("metadata")
    if found is None:
        found = obj["metadata"] = {}
    return found


def name(obj: Mapping[str, Any]) -> str:
    return metadata(obj).get("name") or ""


def namespace(obj: Mapping[str, Any]) -> str:
    return metadata(obj).get("namespace") or ""


def uid(obj: Mapping[str, Any]) -> str:
    return metadata(obj).get("uid") or ""


def generate_name(obj: Mapping[str, Any]) -> str:
    return metadata(obj).get("generateName") or ""


def resource_version(obj: Mapping[str, Any]) -> str:
    return metadata(obj).get("resourceVersion") or ""


def generation(obj: Mapping[str, Any]) -> int:
    return metadata(obj).get("generation") or 0


def labels(obj: Mapping[str, Any]) -> Mapping[str, str]:
    return metadata(obj).get("labels") or _NO_STRINGS


def annotations(obj: Mapping[str, Any]) -> Mapping[str, str]:
    return metadata(obj).get("annotations") or _NO_STRINGS


def annotation(obj: Mapping[str, Any], key: str) -> str:
    return annotations(obj).get(key, "")


def finalizers(obj: Mapping[str, Any]) -> list[str]:
    return metadata(obj).get("finalizers") or []


def owner_references(obj: Mapping[str, Any]) -> list[Object]:
    return metadata(obj).get("ownerReferences") or []


def controller_of(obj: Mapping[str, Any]) -> Object | None:
    """The owner reference that is marked as the controller."""
    for reference in owner_references(obj):
        if reference.get("controller"):
            return reference
    return None


def creation_timestamp(obj: Mapping[str, Any]) -> str:
    return metadata(obj).get("creationTimestamp") or ""


def deletion_timestamp(obj: Mapping[str, Any]) -> str:
    return metadata(obj).get("deletionTimestamp") or ""


def is_deleting(obj: Mapping[str, Any]) -> bool:
    return bool(metadata(obj).get("deletionTimestamp"))


def cluster(obj: Mapping[str, Any]) -> str:
    """The logical cluster an object was read from."""
    return annotations(obj).get(CLUSTER_ANNOTATION, "")


def has_finalizer(obj: Mapping[str, Any], finalizer: str) -> bool:
    return finalizer in finalizers(obj)


def add_finalizer(obj: Object, finalizer: str) -> bool:
    """Add it at the end; False if it was there already."""
    present = finalizers(obj)
    if finalizer in present:
        return False
    mutable_metadata(obj)["finalizers"] = [*present, finalizer]
    return True


def remove_finalizer(obj: Object, finalizer: str) -> bool:
    """Take it away; False if it was not there."""
    present = finalizers(obj)
    if finalizer not in present:
        return False
    left = [other for other in present if other != finalizer]
    if left:
        obj["metadata"]["finalizers"] = left
    else:
        del obj["metadata"]["finalizers"]
    return True


def set_label(obj: Object, key: str, value: str) -> None:
    mutable_metadata(obj)["labels"] = {**labels(obj), key: value}


def set_annotation(obj: Object, key: str, value: str) -> None:
    mutable_metadata(obj)["annotations"] = {**annotations(obj), key: value}


def now_rfc3339(seconds: float) -> str:
    """A moment (seconds since 1970) as timestamps are written: UTC, whole seconds."""
    return _whole_second(math.floor(seconds))


@lru_cache(maxsize=64)  # most moments are now, which many objects of a second say
def _whole_second(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def now_micro(seconds: float) -> str:
    """A moment as MicroTime fields are written: UTC, six digits."""
    whole, micro = divmod(round(seconds * 1_000_000), 1_000_000)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(whole))}.{micro:06d}Z"


def parse_rfc3339(text: str) -> float:
    """The seconds since 1970 of a timestamp; raises ValueError."""
    from datetime import datetime

    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(f"no time zone in {text!r}")
    return moment.timestamp()
