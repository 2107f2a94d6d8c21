"""Whether objects are still what was applied. Pure."""

from __future__ import annotations

from pykcp.machinery import quantity
from pykcp.types import Object


def contains(live: object, wanted: object) -> bool:
    """Whether everything that is wanted is there; servers add defaults."""
    if isinstance(wanted, dict):
        return isinstance(live, dict) and all(
            contains(live.get(key), value) for key, value in wanted.items() if value not in ({}, [])
        )
    if isinstance(wanted, list):
        return (
            isinstance(live, list)
            and len(live) == len(wanted)
            and all(contains(one, other) for one, other in zip(live, wanted, strict=True))
        )
    return live == wanted


def appliable(obj: Object, live: Object | None) -> Object:
    """The object without what cannot be changed any more: claims grow, and stay in their class."""
    if live is None or obj["kind"] != "PersistentVolumeClaim":
        return obj
    spec = {key: value for key, value in obj["spec"].items() if key == "resources"}
    have = (((live.get("spec") or {}).get("resources") or {}).get("requests") or {}).get("storage")
    if have and quantity.parse(have) > quantity.parse(spec["resources"]["requests"]["storage"]):
        spec["resources"] = {"requests": {"storage": have}}
    for name in ("accessModes", "storageClassName"):
        if name in (live.get("spec") or {}):
            spec[name] = live["spec"][name]
    return {**obj, "spec": spec}
